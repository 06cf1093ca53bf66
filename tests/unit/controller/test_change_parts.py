"""A change of many partitions is applied and recorded in parts, so that its records are not all held at once."""

import pytest

from cluster.model.broker import BrokerId
from cluster.model.partition import TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from controller.changes import Change, PartitionsMoved, ReplicasMoved, TopicsListed, in_parts

PARTITIONS = [TopicPartition("t", number) for number in range(5)]


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
