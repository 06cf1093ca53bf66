"""The arithmetic of assignments (CX-14) as tables and laws."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment
from cluster.requests.control import UpdateMetadataPartitionState
from state_log.record import LoadedPartition

Ids = tuple[int, ...]


def assignment(replicas: Ids, adding: Ids = (), removing: Ids = ()) -> ReplicaAssignment:
    return ReplicaAssignment(
        tuple(map(BrokerId, replicas)), tuple(map(BrokerId, adding)), tuple(map(BrokerId, removing))
    )


@pytest.mark.rule("CX-14")
@pytest.mark.parametrize(
    ("before", "target", "after"),
    [
        (assignment((1, 2, 3)), (4, 5, 6), assignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))),
        (
            assignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3)),
            (7, 8, 9),
            assignment((7, 8, 9, 1, 2, 3), (7, 8, 9), (1, 2, 3)),
        ),
        (assignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3)), (1, 2, 3), assignment((1, 2, 3))),
        (assignment((1, 2, 3, 4)), (4, 2, 5, 3), assignment((4, 2, 5, 3, 1), (5,), (1,))),
        (assignment((1, 2, 3)), (3, 1, 2), assignment((3, 1, 2))),
        (assignment((1, 2, 3)), (3, 4, 2), assignment((3, 4, 2, 1), (4,), (1,))),
        (assignment((3, 4, 2, 1), (4,), (1,)), (3, 2, 1), assignment((3, 2, 1))),
    ],
)
def test_reassigning_starts_over_from_the_original_list(
    before: ReplicaAssignment, target: Ids, after: ReplicaAssignment
) -> None:
    assert before.reassign_to(tuple(map(BrokerId, target))) == after


def test_cancelling_restores_the_original_set_but_not_its_order() -> None:
    started = assignment((1, 2, 3)).reassign_to((BrokerId(3), BrokerId(4), BrokerId(2)))
    cancelled = started.reassign_to(started.original)
    assert cancelled == assignment((3, 2, 1))
    assert not cancelled.is_being_reassigned


replica_lists = st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True).map(tuple)


@given(replica_lists, replica_lists, replica_lists)
def test_a_reassignment_keeps_original_and_target(original: Ids, first: Ids, second: Ids) -> None:
    once = assignment(original).reassign_to(tuple(map(BrokerId, first)))
    assert set(once.original) == set(original)
    assert once.target == first
    twice = once.reassign_to(tuple(map(BrokerId, second)))
    assert set(twice.original) == set(original)
    assert twice.target == second
    assert len(set(twice.replicas)) == len(twice.replicas)


def test_what_occurs_by_the_hundred_thousand_is_not_tracked_by_garbage_collection() -> None:
    one, leader_epoch, epoch = BrokerId(1), LeaderEpoch(2), ControllerEpoch(3)
    values = (
        assignment((1, 2), (2,)),
        LeaderAndIsr(one, leader_epoch, (one,), epoch, PartitionEpoch(4)),
        UpdateMetadataPartitionState(0, epoch, one, leader_epoch, (one,), PartitionEpoch(4), (one,)),
        LoadedPartition(0, one, leader_epoch, PartitionEpoch(4), (one,), (one,), epoch),
    )
    assert [value for value in values if gc.is_tracked(value)] == []
