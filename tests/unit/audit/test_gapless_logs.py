"""Findings that lines which are missing may explain do not stand."""

import pytest

from audit.batches.cluster_state import ClusterState
from audit.report.gapless_logs import logs_with_gaps, may_be_explained
from audit.rules.elected_brokers import ELECTED_IS_LIVE
from state_log.chain import IncarnationLog

LOG = "controller-1001/1.1"


def state(*missing: tuple[int, int], malformed: str = "") -> ClusterState:
    return ClusterState(incarnations={LOG: IncarnationLog(next_seq=9, missing=[*missing])}, malformed={malformed})


@pytest.mark.parametrize(
    ("known", "has_gaps"),
    [
        (state(), False),
        # Retention has deleted the first segments: what they said is not known, and nothing follows from it.
        (state((0, 3)), False),
        (state((0, 3), (5, 6)), True),
        (state(malformed="controller-1001-1.1"), True),
    ],
)
def test_lines_between_others_are_missing(known: ClusterState, has_gaps: bool) -> None:
    assert logs_with_gaps(known) == ({LOG} if has_gaps else set())


@pytest.mark.parametrize(
    ("rule", "record", "explained"),
    [
        (ELECTED_IS_LIVE, f"{LOG}/8", True),
        (ELECTED_IS_LIVE, "controller-1002/1.1/8", False),
        ("one-leader-per-epoch", f"{LOG}/8", False),
    ],
)
def test_only_findings_of_these_logs_that_rest_on_earlier_lines_may_be_explained(
    rule: str, record: str, explained: bool
) -> None:
    assert may_be_explained({"rule": rule, "records": [record]}, {LOG}) == explained
