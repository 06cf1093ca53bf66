"""Replicas that become offline, and whether they lead by what their controller knew then."""

from collections.abc import Sequence
from itertools import permutations

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


def loaded(seq: int, epoch: int, leader: int, version: int, node: str = "controller-2") -> LoggedStateChange:
    found = LoadedPartition(
        0, BrokerId(leader), LeaderEpoch(version), PartitionEpoch(version), (BrokerId(1),), (), ControllerEpoch(1)
    )
    return replace(record(seq, Kind.LOADED, epoch, node), partition=None, partitions=(found,))


def found(*batches: Sequence[LoggedStateChange]) -> list[tuple[str, ...]]:
    audit = ColumnarAudit()
    for batch in batches:
        audit.check(batch)
    return [f.records for f in audit.findings.values() if f.rule == OFFLINE_LEADS]


LEADS, GONE = state(0, 1, 0), offline(5)
ENDED = record(3, Kind.PARTITION, from_state="OfflinePartition", to_state="NonExistentPartition")
NAMES = (LEADS.reference, GONE.reference)


@pytest.mark.parametrize(
    ("records", "is_found"),
    [
        ((LEADS, GONE), True),
        ((LEADS, state(1, 2, 1), GONE), False),
        ((LEADS, state(1, -1, 1), GONE), False),
        ((LEADS, ENDED, GONE), False),
        # The election comes too late, or another broker's replica is offline, or of no broker.
        ((LEADS, GONE, state(6, 2, 1)), True),
        ((LEADS, offline(5, 2)), False),
        ((LEADS, offline(5, None)), False),
        ((state(0, -1, 0), offline(5, -1)), False),
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


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_later_controller_goes_by_what_it_has_loaded(order: Sequence[int]) -> None:
    """Whose log comes first does not matter, nor what later controllers wrote."""
    logs = [
        [LEADS, state(3, 2, 1)],
        [loaded(0, 2, 2, 1), state(1, 1, 2, 2, "controller-2"), offline(5, 1, 2, "controller-2")],
        [loaded(0, 3, -1, 3, "controller-3"), offline(5, 1, 3, "controller-3")],
    ]
    names = (logs[1][1].reference, logs[1][2].reference)
    assert found(*(logs[number] for number in order)) == [names]
    assert found([each for number in order for each in logs[number]]) == [names]


def test_of_each_partition_that_one_record_names_the_leader_is_known() -> None:
    first = loaded(0, 2, 1, 1)
    assert first.partitions is not None
    both = replace(first, partitions=tuple(replace(first.partitions[0], partition=number) for number in (0, 1)))
    gone = [replace(offline(5 + number, 1, 2, "controller-2"), partition=number) for number in (0, 1)]
    assert sorted(found([both, *gone])) == [(both.reference, each.reference) for each in gone]
