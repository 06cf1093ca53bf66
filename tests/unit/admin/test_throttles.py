"""What the throttle of a reassignment concerns."""

from admin.moving.throttles import throttled_moves
from cluster.model.partition import ReplicaAssignment, TopicPartition
from tests.controllers.contexts import ids

A, B, C = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def test_sources_are_throttled_as_leaders_and_new_replicas_as_followers() -> None:
    present = {A: ReplicaAssignment(ids(1, 2)), B: ReplicaAssignment(ids(2, 3)), C: ReplicaAssignment(ids(1))}
    throttled = throttled_moves({A: ids(2, 4), B: ids(3, 2), C: ids(5)}, present)
    assert throttled.topics == {"t": ("0:1,0:2", "0:4"), "u": ("0:1", "0:5")}
    assert throttled.brokers == (1, 2, 4, 5)


def test_what_is_under_way_is_throttled_too_and_a_replaced_move_by_its_new_target() -> None:
    present = {A: ReplicaAssignment(ids(4, 1), ids(4), ids(1)), B: ReplicaAssignment(ids(5, 1), ids(5), ids(1))}
    throttled = throttled_moves({B: ids(6)}, present)
    assert throttled.topics == {"t": ("0:1,1:1", "0:4,1:6")}
    assert throttled.brokers == (1, 4, 6)


def test_nothing_to_copy_is_nothing_to_throttle() -> None:
    present = {A: ReplicaAssignment(ids(1, 2))}
    assert throttled_moves({A: ids(2, 1), C: ids(1)}, present).topics == {}
