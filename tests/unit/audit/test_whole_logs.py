"""Findings that lines which are missing may explain do not stand."""

import pytest

from audit.batches.cluster_state import ChainFaults, ClusterState
from audit.records.findings import AuditFinding
from audit.report.whole_logs import is_explained_by, lacking_lines
from audit.rules.elected_brokers import ELECTED_IS_LIVE
from state_log.chain import DUPLICATE_SEQUENCE, OUT_OF_ORDER, IncarnationLog

LOG = "controller-1001/1.1"


def state(*missing: tuple[int, int], malformed: str = "", fault: str = "chain-break") -> ClusterState:
    logs = {LOG: IncarnationLog(next_seq=9, missing=[*missing])}
    return ClusterState(incarnations=logs, malformed={malformed}, faults={LOG: {fault: ChainFaults("drawn")}})


@pytest.mark.parametrize(
    ("known", "lacks_lines"),
    [
        (state(), False),
        # Retention has deleted the first segments: what they said is not known, and nothing follows from it.
        (state((0, 3)), False),
        (state((0, 3), (5, 6)), True),
        (state(malformed="controller-1001-1.1"), True),
        (state(fault=OUT_OF_ORDER), True),
        (state(fault=DUPLICATE_SEQUENCE), True),
    ],
)
def test_lines_between_others_are_missing_or_unclear(known: ClusterState, lacks_lines: bool) -> None:
    assert lacking_lines(known, ()) == ({LOG} if lacks_lines else set())


def test_logs_of_two_processes_under_one_id_lack_lines() -> None:
    doubled = AuditFinding("two-processes", "drawn", "drawn", (f"{LOG}/3", "controller-1001/2.1/0"))
    assert lacking_lines(state(), [doubled]) == {LOG, "controller-1001/2.1"}


@pytest.mark.parametrize(
    ("rule", "record", "explained"),
    [
        (ELECTED_IS_LIVE, f"{LOG}/8", True),
        (ELECTED_IS_LIVE, "controller-1002/1.1/8", False),
        ("one-leader-per-epoch", f"{LOG}/8", False),
        ("a-rule-of-a-later-version", f"{LOG}/8", False),
    ],
)
def test_only_findings_of_these_logs_that_rest_on_earlier_lines_are_explained(
    rule: str, record: str, explained: bool
) -> None:
    assert is_explained_by({"rule": rule, "records": [record]}, frozenset({LOG})) == explained
