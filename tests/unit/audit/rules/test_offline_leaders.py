"""Replicas that become offline, and whether they lead by what their controller knew then."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from msgspec.structs import replace

from audit.rules.offline_leaders import OFFLINE_LEADS
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId
from state_log.record import Kind, LoadedPartition, LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit


def record(seq: int, kind: Kind, epoch: int = 1, node: str = "controller-1", **fields: object) -> LoggedStateChange:
    given = {"topic": "t", "topic_id": TopicId("id"), "partition": 0, "at_ms": 1_000 + seq, **fields}
    return LoggedStateChange(
        v=2,
        seq=seq,
        kind=kind,
        node=node,
        incarnation="1700000000000.1",
        controller_epoch=ControllerEpoch(epoch),
        **given,  # type: ignore[arg-type]
    )


def state(seq: int, leader: int, version: int, epoch: int = 1, node: str = "controller-1") -> LoggedStateChange:
    fields = {"leader": BrokerId(leader), "leader_epoch": LeaderEpoch(version), "isr": (BrokerId(1), BrokerId(2))}
    return record(seq, Kind.ISR, epoch, node, partition_epoch=PartitionEpoch(version), replicas=(1, 2), **fields)


def offline(seq: int, broker: int | None = 1, epoch: int = 1, node: str = "controller-1") -> LoggedStateChange:
    states = {"from_state": "OnlineReplica", "to_state": "OfflineReplica"}
    return record(seq, Kind.REPLICA, epoch, node, broker=broker, **states)


def loaded(seq: int, epoch: int, leader: int, version: int) -> LoggedStateChange:
    found = LoadedPartition(
        0, BrokerId(leader), LeaderEpoch(version), PartitionEpoch(version), (BrokerId(1),), (), ControllerEpoch(1)
    )
    return replace(record(seq, Kind.LOADED, epoch, "controller-2"), partition=None, partitions=(found,))


def found(*batches: Sequence[LoggedStateChange]) -> list[tuple[str, ...]]:
    audit = ColumnarAudit()
    for batch in batches:
        audit.check(batch)
    return [f.records for f in audit.findings.values() if f.rule == OFFLINE_LEADS]


LEADS, GONE = state(0, 1, 0), offline(5)
NAMES = (GONE.reference,)


@pytest.mark.parametrize(
    ("records", "is_found"),
    [
        ((LEADS, GONE), True),
        ((LEADS, state(1, 2, 1), GONE), False),
        ((LEADS, state(1, -1, 1), GONE), False),
        # The election comes too late, or another broker's replica is offline, or of no broker.
        ((LEADS, GONE, state(6, 2, 1)), True),
        ((LEADS, offline(5, 2)), False),
        ((LEADS, offline(5, None)), False),
        ((LEADS, replace(GONE, to_state="OnlineReplica")), False),
        # Nobody knows who led; or another log, or another term, of which nothing was loaded, says it.
        ((GONE,), False),
        ((LEADS, offline(5, node="controller-2")), False),
        ((LEADS, offline(5, epoch=2)), False),
    ],
)
def test_a_replica_that_becomes_offline_does_not_lead(records: Sequence[LoggedStateChange], is_found: bool) -> None:
    for batches in ([records], [[each] for each in records]):
        assert found(*batches) == ([NAMES] if is_found else [])


def test_a_later_controller_goes_by_what_it_has_loaded() -> None:
    records = [LEADS, loaded(0, 2, 1, 0), offline(5, epoch=2, node="controller-2")]
    other = [LEADS, state(3, 2, 1), loaded(0, 2, 2, 1), offline(5, epoch=2, node="controller-2")]
    for cut in range(len(records) + 1):
        assert found(records[:cut], records[cut:]) == [(records[-1].reference,)]
    # Whose log comes first does not matter.
    assert found(records[1:], records[:1]) == [(records[-1].reference,)]
    assert found(other) == []


def test_what_later_controllers_wrote_does_not_matter() -> None:
    later = state(0, 2, 9, epoch=3, node="controller-3")
    records = [later, LEADS, GONE]
    for before, after in pairwise([0, 1, 2, 3]):
        assert found(records[:before], records[before:after], records[after:]) == [NAMES]
