"""What still holds at the end of the logs, by the records and by the clock of whoever asks."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from audit.records.findings import CLEAN, FINDINGS
from audit.report.lasting_conditions import lasting_conditions
from audit.report.report import all_findings, cluster_state, read_result
from audit.rules.durations import LEADERLESS
from audit.rules.limits import Limits
from audit.rules.unfinished_work import DELETION_STALLED, REASSIGNMENT_STALLED
from audit.storage.output_folder import OutputFolder
from cluster.model.broker import ControllerEpoch
from state_log.record import Cause, Kind, Stamper, StateChange
from state_log.writer import SegmentName
from tests.audits.columnar_audits import ColumnarAudit
from tests.audits.log_audits import audit_folder
from tests.examples import examples
from tests.unit.audit.rules.test_unclean_elections import record

HOUR_MS = 3_600_000
NODE, INCARNATION, START_MS = "controller-1001", "1700000000000.1", 1_700_000_000_000


def change(kind: Kind, **fields: object) -> StateChange:
    common = {"cause": Cause("BrokerChange", 1), "controller_epoch": ControllerEpoch(1), **fields}
    return StateChange(kind=kind, **common)  # type: ignore[arg-type]


ACTIVE = change(Kind.CONTROLLER, broker=1001, to_state="active")
LOST = change(Kind.ISR, topic="t", partition=0, leader=-1, leader_epoch=1, partition_epoch=1, isr=(1,), replicas=(1, 2))
BACK = replace(LOST, leader=1, leader_epoch=2, partition_epoch=2)
GONE = change(Kind.PARTITION, topic="t", partition=0, from_state="OfflinePartition", to_state="NonExistentPartition")
STARTED = change(Kind.ASSIGNMENT, topic="t", partition=0, to_state="started", replicas=(1, 2))
DELETING = change(Kind.DELETION, topic="t", to_state="started")


def audited(folder: Path, *changes: tuple[StateChange, int], limits: Limits | None = None) -> OutputFolder:
    """An audit of a controller's log with these changes, each at so many ms from the start."""
    stamper = Stamper(NODE, INCARNATION)
    logs = folder / "logs"
    logs.mkdir()
    lines = [line for item, ms in changes for line in stamper.stamp([item], START_MS + ms)]
    (logs / str(SegmentName(NODE, INCARNATION, 0))).write_bytes(b"".join(line + b"\n" for line in lines))
    audit_folder(logs, folder / "output", limits=limits)
    return OutputFolder(folder / "output")


def lasting(folder: OutputFolder, now_ms: int) -> list[tuple[str, int, int]]:
    commit = folder.last_commit()
    found = lasting_conditions(folder, commit, cluster_state(folder, commit), START_MS + now_ms)
    return [(c.rule, c.by_records_ms, c.until_now_ms) for c in found]


def test_what_only_the_clock_shows_changes_no_verdict(tmp_path: Path) -> None:
    folder = audited(tmp_path, (ACTIVE, 0), (LOST, 1000))
    assert lasting(folder, 2000) == []
    assert lasting(folder, HOUR_MS) == [(LEADERLESS, 0, HOUR_MS - 1000)]
    assert read_result(tmp_path / "output").verdict == CLEAN


def test_what_a_record_shows_is_a_finding(tmp_path: Path) -> None:
    folder = audited(tmp_path, (ACTIVE, 0), (LOST, 1000), (ACTIVE, HOUR_MS))
    assert lasting(folder, 0) == [(LEADERLESS, HOUR_MS - 1000, 0)]
    assert read_result(tmp_path / "output").verdict == FINDINGS
    assert [finding["subject"] for finding in all_findings(folder) if finding["rule"] == LEADERLESS] == [
        "t-0 partition-epoch 1"
    ]


def test_the_limits_are_those_of_the_audit(tmp_path: Path) -> None:
    folder = audited(tmp_path, (ACTIVE, 0), (LOST, 1000), (ACTIVE, HOUR_MS), limits=Limits(leaderless_ms=2 * HOUR_MS))
    assert lasting(folder, HOUR_MS) == []


@pytest.mark.parametrize("last", [BACK, GONE])
def test_what_has_ended_is_not_open(tmp_path: Path, last: StateChange) -> None:
    assert lasting(audited(tmp_path, (ACTIVE, 0), (LOST, 1000), (last, 2000)), HOUR_MS) == []


@pytest.mark.parametrize(("begun", "rule"), [(STARTED, REASSIGNMENT_STALLED), (DELETING, DELETION_STALLED)])
def test_work_that_does_not_end_is_open(tmp_path: Path, begun: StateChange, rule: str) -> None:
    assert lasting(audited(tmp_path, (begun, 0)), 48 * HOUR_MS) == [(rule, 0, 48 * HOUR_MS)]


@examples(20, deep=50)
@given(seed=st.integers(0, 2**32))
def test_reassignments_depend_on_the_records_and_not_on_their_order(seed: int) -> None:
    random = Random(seed)
    records = [
        record(
            NODE, seq, Kind.ASSIGNMENT, to_state=random.choice(["started", "completed", None]), replicas=(1, 2),
            at_ms=random.randrange(100 * HOUR_MS), partition=random.randrange(2),
        )
        for seq in range(random.randrange(1, 12))
    ]  # fmt: skip
    whole, parts = ColumnarAudit(), ColumnarAudit()
    whole.check(records)
    random.shuffle(records)
    for one in records:
        parts.check([one])
    assert parts.findings == whole.findings
    tables = (sorted(map(str, audit.waiting["reassigning"].to_pylist())) for audit in (parts, whole))
    assert len({str(rows) for rows in tables}) == 1
