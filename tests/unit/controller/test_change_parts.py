"""A change of many partitions is applied and recorded in parts, so that its records are not all held at once."""

import pytest

from cluster.model.broker import BrokerId
from cluster.model.partition import ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from controller.changes import (
    Change,
    PartitionsMoved,
    ReassignmentsCompleted,
    ReassignmentsWritten,
    ReplicasMoved,
    TopicsListed,
    in_parts,
)

PARTITIONS = [TopicPartition("t", number) for number in range(5)]
ASSIGNED = {tp: ReplicaAssignment((BrokerId(tp.partition),)) for tp in PARTITIONS}


@pytest.mark.parametrize(
    "change",
    [
        PartitionsMoved(dict.fromkeys(PARTITIONS, PartitionState.NEW)),
        ReplicasMoved(BrokerId(1), dict.fromkeys(PARTITIONS, ReplicaState.ONLINE), ReplicaState.OFFLINE),
    ],
)
def test_the_parts_have_all_partitions_in_their_order_and_all_else_of_the_change(change: Change) -> None:
    parts = list(in_parts(change, 2))
    field = "targets" if isinstance(change, PartitionsMoved) else "partitions"
    assert [len(getattr(part, field)) for part in parts] == [2, 2, 1]
    assert [tp for part in parts for tp in getattr(part, field)] == PARTITIONS
    assert {type(part) for part in parts} == {type(change)}
    assert {part.recorded for part in parts} == {change.recorded}


@pytest.mark.parametrize(
    "change", [TopicsListed(("a", "b", "c")), PartitionsMoved({}), PartitionsMoved({PARTITIONS[0]: PartitionState.NEW})]
)
def test_what_is_small_or_not_of_partitions_stays_one(change: Change) -> None:
    assert list(in_parts(change, 2)) == [change]


@pytest.mark.parametrize("kind", [ReassignmentsWritten, ReassignmentsCompleted])
def test_assignments_of_many_partitions_are_recorded_in_parts_too(
    kind: type[ReassignmentsWritten | ReassignmentsCompleted],
) -> None:
    parts = list(in_parts(kind(ASSIGNED), 2))
    assert [len(part.assignments) for part in parts if isinstance(part, kind)] == [2, 2, 1]
    assert [item for part in parts if isinstance(part, kind) for item in part.assignments.items()] == [
        *ASSIGNED.items()
    ]
