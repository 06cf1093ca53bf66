"""Replicas that brokers deleted wait until a controller's record of the order was read; moves between directories."""

from collections.abc import Sequence
from itertools import permutations

import pytest
from msgspec.structs import replace

from audit.rules.directory_moves import DIRECTORY_MOVE_ENDS_ONCE
from cluster.model.broker import ControllerEpoch, ControllerId, TopicId
from state_log.record import Cause, Kind, LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit
from tests.unit.audit.rules.test_cut_logs import record


def deleted(seq: int = 5, broker: int = 1, epoch: int = 3, **fields: object) -> LoggedStateChange:
    cause = Cause("TopicDeletion", 7, ControllerId(9), ControllerEpoch(epoch))
    return record(seq, Kind.ROLE, broker, **{"to_state": "deleted", "cause": cause, **fields})


def ordered(
    seq: int = 2, broker: int = 1, epoch: int = 3, to_state: str = "ReplicaDeletionStarted"
) -> LoggedStateChange:
    found = record(seq, Kind.REPLICA, broker, to_state=to_state, controller_epoch=ControllerEpoch(epoch))
    return replace(found, node="controller-9")


def of_topic_that_is_gone() -> LoggedStateChange:
    states = {"from_state": "OfflinePartition", "to_state": "NonExistentPartition"}
    return replace(record(8, Kind.PARTITION, controller_epoch=ControllerEpoch(3), **states), node="controller-9")


@pytest.mark.parametrize(
    ("records", "waits"),
    [
        ([deleted()], [5]),
        ([deleted(), deleted(6, 2)], [5, 6]),
        ([deleted(), ordered()], []),
        ([deleted(), deleted(6, 2), ordered()], [6]),
        ([deleted(), ordered(broker=2)], [5]),
        ([deleted(), ordered(epoch=2)], [5]),
        ([deleted(), ordered(to_state="OfflineReplica")], [5]),
        ([deleted(), of_topic_that_is_gone()], []),
        # Brokers of earlier releases do not name the id; others did not say by whose request.
        ([deleted(topic_id=None)], []),
        ([deleted(cause=None)], []),
        ([deleted(to_state="stopped")], []),
    ],
)
def test_a_deletion_waits_for_its_order(records: Sequence[LoggedStateChange], waits: Sequence[int]) -> None:
    for batch in permutations(records):
        for batches in ([batch], [[each] for each in batch]):
            audit = ColumnarAudit()
            for each in batches:
                audit.check(each)
            rows = audit.waiting["unordered"].to_pylist()
            assert sorted(row["sub"] for row in rows) == list(waits)
            assert {(row["topic"], row["topic_id"], row["partition"]) for row in rows} <= {("t", TopicId("id"), 0)}


def moved(seq: int, to_state: str, incarnation: str = "1700000000000.1") -> LoggedStateChange:
    return record(seq, Kind.DIRECTORY_MOVE, to_state=to_state, incarnation=incarnation)


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([moved(1, "started"), moved(2, "completed")], []),
        ([moved(1, "started"), moved(2, "started"), moved(3, "abandoned")], []),
        # A restart interrupted it.
        ([moved(1, "completed"), moved(2, "started")], []),
        ([moved(1, "completed"), moved(2, "completed", "1700000000000.2")], []),
        ([moved(1, "started"), moved(2, "completed"), moved(4, "abandoned")], [(2, 4)]),
    ],
)
def test_a_move_between_directories_ends_once(
    records: Sequence[LoggedStateChange], found: Sequence[tuple[int, int]]
) -> None:
    for batch in permutations(records):
        for batches in ([batch], [[each] for each in batch]):
            audit = ColumnarAudit()
            for each in batches:
                audit.check(each)
            findings = [f for f in audit.findings.values() if f.rule == DIRECTORY_MOVE_ENDS_ONCE]
            assert [tuple(int(r.rpartition("/")[2]) for r in f.records) for f in findings] == list(found)


def test_the_finding_says_when_a_move_had_ended_before() -> None:
    audit = ColumnarAudit()
    audit.check([moved(2, "completed"), moved(4, "abandoned")])
    (finding,) = (f for f in audit.findings.values() if f.rule == DIRECTORY_MOVE_ENDS_ONCE)
    assert finding.message == (
        "broker-1 recorded that a move to another log directory is abandoned, and none had started since record 2, "
        "where it was completed"
    )
