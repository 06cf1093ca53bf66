"""Decisions of a reassignment: validation, assignments to write, completion, description."""

from collections.abc import Sequence

import pytest

from cluster.model.bounds import LEADER_EPOCH_IN_ZNODE
from cluster.model.broker import BrokerEpoch, BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicAssignment, TopicPartition
from controller.changes import (
    BrokerShuttingDown,
    DeletionsQueued,
    LeadershipsRead,
    ReassignmentsStarted,
    ReassignmentsWritten,
)
from controller.context.controller_context import ControllerContext
from controller.decisions.partitions.leader_election import NEWER_CONTROLLER, NO_LEADER_EPOCH_LEFT, NO_STATE_ZNODE
from controller.decisions.reassignment.phases import (
    BEING_DELETED,
    NO_REPLICAS,
    NOBODY_IN_SYNC,
    NOTHING_TO_CANCEL,
    UNKNOWN_PARTITION,
    RefusedMove,
    is_complete,
    is_entry_for,
    keeps_leader,
    led_by_unneeded,
    plan_epoch_raises,
    plan_recording,
    plan_submission,
    plan_znode_submission,
    reassigned_on,
    refuse_trigger,
    remaining_entries,
    stray_replicas,
    with_replica_in_sync,
)
from tests.controllers.contexts import EPOCH, assignment, context, ids, leadership, tp

T0, T1, U0 = tp("t-0"), tp("t-1"), tp("u-0")


def moving(brokers: Sequence[int] = (1, 2, 3, 4)) -> ControllerContext:
    """t-0 on its way from 1, 2 to 3, 4; t-1 and u-0 at rest."""
    built = context(
        brokers,
        {"t-0": [1, 2], "t-1": [1, 2], "u-0": [2, 1]},
        {"t-0": leadership(1, [1, 2]), "t-1": leadership(1, [1, 2]), "u-0": leadership(2, [2, 1])},
    )
    built.apply(ReassignmentsWritten({T0: assignment([3, 4, 1, 2], [3, 4], [1, 2])}))
    built.apply(ReassignmentsStarted((T0,)))
    return built


@pytest.mark.parametrize(
    ("partition", "target", "expected"),
    [
        ("u-0", [1, 3], assignment([1, 3, 2], [3], [2])),
        ("u-0", [1, 2], assignment([1, 2])),
        # A second move replaces the first, from the list before it.
        ("t-0", [5, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t-0", [2, 3], assignment([2, 3, 1], [3], [1])),
        ("t-0", None, assignment([1, 2])),
        ("u-0", None, NOTHING_TO_CANCEL),
        ("x-0", None, NOTHING_TO_CANCEL),
        ("u-0", [], NO_REPLICAS),
        ("u-0", [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("u-0", [1, -1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("u-0", [1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_may_be_asked_for_through_the_api(
    partition: str, target: list[int] | None, expected: ReplicaAssignment | RefusedMove | ErrorCode
) -> None:
    result = plan_submission(moving(), tp(partition), None if target is None else ids(*target))
    if isinstance(expected, ErrorCode):
        assert isinstance(result, RefusedMove)
        assert result.code is expected
    else:
        assert result == expected


@pytest.mark.rule("RA-1")
def test_a_replica_that_stays_need_not_be_alive() -> None:
    assert plan_submission(moving([1, 3, 4]), U0, ids(2, 3)) == assignment([2, 3, 1], [3], [1])


def test_a_broker_that_is_shutting_down_is_not_added() -> None:
    view = moving()
    view.apply(BrokerShuttingDown(BrokerId(3), BrokerEpoch(103)))
    result = plan_submission(view, U0, ids(1, 3))
    assert isinstance(result, RefusedMove)
    assert "3" in result.message


@pytest.mark.rule("RA-30", "D-4")
def test_an_entry_of_the_request_node_may_name_brokers_that_nobody_knows_but_not_no_brokers() -> None:
    assert plan_znode_submission(moving(), U0, ids(9, 1)) == assignment([9, 1, 2], [9], [2])
    assert plan_znode_submission(moving(), U0, ()) == NO_REPLICAS


@pytest.mark.rule("RA-3")
def test_partitions_of_doomed_and_unknown_topics_are_not_moved() -> None:
    view = moving()
    assert refuse_trigger(view, T0, assignment([1, 2])) is None
    assert refuse_trigger(view, tp("t-9"), assignment([1, 2])) == UNKNOWN_PARTITION
    view.apply(DeletionsQueued(("t",)))
    assert refuse_trigger(view, T0, assignment([1, 2])) == BEING_DELETED


@pytest.mark.rule("RA-60")
def test_the_only_replica_in_sync_is_not_cancelled_away() -> None:
    view = moving()
    view.apply(LeadershipsRead({T0: leadership(3, [3])}))
    result = refuse_trigger(view, T0, assignment([1, 2]))
    assert result is not None
    assert (result.code, "3" in result.message) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, True)
    assert refuse_trigger(view, T0, assignment([3, 5, 1, 2], [3, 5], [1, 2])) is None
    # Without a state node there is nothing to lose.
    view = context((1, 2), {"t-0": [1, 2]})
    assert refuse_trigger(view, T0, assignment([2, 1])) is None


@pytest.mark.rule("D-96")
@pytest.mark.parametrize(
    ("leader", "isr", "brokers", "wanted", "is_refused"),
    [
        # 3 leads, and goes: 1 or 2 takes over.
        (3, [1, 2, 3], (1, 2, 3, 4), assignment([1, 2]), False),
        (3, [1, 2, 3], (2, 3), assignment([1, 2]), False),
        (3, [1, 2, 3], (3, 4), assignment([1, 2]), True),
        (3, [1, 3, 4], (3, 4), assignment([1, 5, 2], [5], [2]), True),
        # 4, which stays, is in sync.
        (3, [1, 3, 4], (3, 4), assignment([4, 5, 1, 2], [4, 5], [1, 2]), False),
        # A leader that is dead, one that stays, and none: nothing becomes worse.
        (3, [1, 3], (4,), assignment([1, 2]), False),
        (1, [1, 3], (3, 4), assignment([1, 2]), False),
        (-1, [1], (3, 4), assignment([1, 2]), False),
        # Not assigned at all: it is not this move that removes it.
        (6, [1, 6], (3, 6), assignment([1, 2]), False),
    ],
)
def test_a_leader_is_removed_only_if_another_one_can_follow(
    leader: int, isr: list[int], brokers: tuple[int, ...], wanted: ReplicaAssignment, is_refused: bool
) -> None:
    view = moving(brokers)
    view.apply(LeadershipsRead({T0: leadership(leader, isr)}))
    result = refuse_trigger(view, T0, wanted)
    assert (result is not None) is is_refused
    if result is not None:
        assert result.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert "3" in result.message


@pytest.mark.rule("D-96")
def test_a_leader_that_is_shutting_down_serves_clients_still() -> None:
    view = moving((3, 4))
    view.apply(LeadershipsRead({T0: leadership(3, [1, 3])}))
    view.apply(BrokerShuttingDown(BrokerId(3), BrokerEpoch(103)))
    assert refuse_trigger(view, T0, assignment([1, 2])) is not None


@pytest.mark.rule("D-96")
def test_leaders_that_are_not_needed_are_found_with_the_replicas_that_stay() -> None:
    view = moving()
    replaced = assignment([4, 5, 1, 2], [4, 5], [1, 2])
    assert led_by_unneeded(view, {T0: replaced, T1: assignment([1, 3, 2], [3], [2])}) == {}
    view.apply(LeadershipsRead({T0: leadership(3, [1, 2, 3]), U0: leadership(2, [2, 1])}))
    assert led_by_unneeded(view, {T0: replaced, U0: assignment([2, 1])}) == {T0: (4, 5, 1, 2)}
    assert led_by_unneeded(view, {T0: assignment([3, 1, 2], [3], [1, 2])}) == {}
    assert led_by_unneeded(view, {tp("x-0"): assignment([1])}) == {}
    nobody = moving((3, 4))
    nobody.apply(LeadershipsRead({T0: leadership(3, [1, 2, 3])}))
    assert led_by_unneeded(nobody, {T0: replaced}) == {}


@pytest.mark.rule("D-96")
def test_a_replica_in_sync_raises_the_epoch_by_leaving() -> None:
    leaderships = {T0: leadership(1, [1, 2, 3]), T1: leadership(1, [1, 2])}
    unneeded = {BrokerId(3): [T0, T1], BrokerId(4): [T0, U0]}
    assert with_replica_in_sync(unneeded, leaderships) == {T0}
    assert with_replica_in_sync({BrokerId(4): [T0, U0]}, leaderships) == set()


@pytest.mark.rule("RA-22", "RA-40")
def test_only_the_matching_entries_leave_the_request_node() -> None:
    entries = {T0: ids(3, 4), T1: ids(3, 4), U0: ids(3, 3, 4)}
    done = ReplicaAssignment(ids(3, 4))
    assert remaining_entries(entries, lambda p, target: p == T0 and is_entry_for(target, done)) == {
        T1: ids(3, 4),
        U0: ids(3, 3, 4),
    }
    assert not is_entry_for(ids(3, 3, 4), done)
    assert not is_entry_for(ids(4, 3), done)


@pytest.mark.rule("RA-11")
def test_one_node_per_topic_is_written_with_all_its_partitions() -> None:
    view = moving()
    wanted = {T0: assignment([1, 2]), T1: assignment([1, 3, 2], [3], [2]), U0: assignment([2, 1])}
    plan = plan_recording(view, wanted)
    assert plan.changed == (T0, T1)
    assert plan.topics == {"t": TopicAssignment({0: wanted[T0], 1: wanted[T1]}, "id-of-t")}
    assert plan.unneeded == {3: [T0], 4: [T0]}
    # A single change keeps its neighbours.
    assert plan_recording(view, {T1: wanted[T1]}).topics["t"].partitions[0] == view.topics.assignment(T0)


@pytest.mark.parametrize(
    ("lists", "isr", "complete"),
    [
        (assignment([3, 4, 1, 2], [3, 4], [1, 2]), [1, 2, 3], False),
        (assignment([3, 4, 1, 2], [3, 4], [1, 2]), [4, 1, 3], True),
        (assignment([3, 4, 1, 2], [3, 4], [1, 2]), None, False),
        (assignment([1, 2]), None, True),
        (assignment([1, 2]), [3], True),
        (assignment([1, 2], [], [2]), [2], False),
    ],
)
def test_a_move_is_complete_when_all_targets_are_in_sync(
    lists: ReplicaAssignment, isr: list[int] | None, complete: bool
) -> None:
    assert is_complete(lists, None if isr is None else leadership(-1, isr)) is complete


@pytest.mark.rule("RA-18")
def test_a_leader_that_is_a_target_and_online_stays() -> None:
    view = moving()
    assert keeps_leader(view, T0, ids(1, 3))
    assert not keeps_leader(view, T0, ids(3, 4))
    assert not keeps_leader(view, tp("x-0"), ids(1))
    assert not keeps_leader(moving([2, 3, 4]), T0, ids(1, 3))


@pytest.mark.rule("RA-14")
def test_raising_an_epoch_changes_nothing_else() -> None:
    before = leadership(1, [2, 1], leader_epoch=4, partition_epoch=9, controller_epoch=3, recovery=1)
    newer = leadership(1, [1], controller_epoch=EPOCH + 1)
    nobody = leadership(1, [], controller_epoch=3)
    plan = plan_epoch_raises(moving(), {T0: before, T1: None, U0: newer, tp("u-1"): nobody})
    assert plan.writes == {
        T0: leadership(1, [2, 1], leader_epoch=5, partition_epoch=10, controller_epoch=EPOCH, recovery=1)
    }
    assert plan.failures == {T1: NO_STATE_ZNODE, U0: NEWER_CONTROLLER, tp("u-1"): NOBODY_IN_SYNC}


@pytest.mark.rule("D-43")
def test_an_epoch_that_none_can_follow_is_not_raised() -> None:
    last = LEADER_EPOCH_IN_ZNODE.maximum
    before, at_end = (leadership(1, [1], leader_epoch=epoch) for epoch in (last - 1, last))
    plan = plan_epoch_raises(moving(), {T0: before, T1: at_end})
    assert {p: w.leader_epoch for p, w in plan.writes.items()} == {T0: last}
    assert plan.failures == {T1: NO_LEADER_EPOCH_LEFT}


@pytest.mark.rule("RA-52")
@pytest.mark.parametrize(
    ("isr", "strays"),
    [
        ([1, 2], {}),
        ([1, 2, 3, 4], {3: [T1], 4: [T1]}),
        ([2, 3], {3: [T1]}),
        ([1, 2, 3], {3: [T1]}),
        # Nobody else has the data.
        ([3], {}),
        ([3, 4], {}),
        # In sync before an assigned replica: nobody was added here, somebody rewrote the topic node.
        ([3, 2], {}),
        ([1, 3, 2], {}),
    ],
)
def test_replicas_that_joined_the_isr_last_without_being_assigned_are_strays(
    isr: list[int], strays: dict[int, list[TopicPartition]]
) -> None:
    view = moving()
    view.apply(LeadershipsRead({T1: leadership(isr[0], isr)}))
    assert stray_replicas(view) == strays
    view.apply(DeletionsQueued(("t",)))
    assert stray_replicas(view) == {}


@pytest.mark.rule("BK-15")
def test_a_starting_broker_concerns_the_moves_that_it_is_a_target_of() -> None:
    view = moving()
    view.apply(ReassignmentsWritten({T1: assignment([3, 1, 2], [3], [2])}))
    view.apply(ReassignmentsStarted((T1,)))
    assert reassigned_on(view, ids(3)) == [T0, T1]
    assert reassigned_on(view, ids(4)) == [T0]
    assert reassigned_on(view, ids(2)) == []
    assert reassigned_on(view, [BrokerId(1)]) == [T1]
