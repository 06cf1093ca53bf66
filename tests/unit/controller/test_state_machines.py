"""Every (state, target) pair of both state machines, and the plans of the transitions."""

import pytest

from cluster.model.bounds import LEADER_EPOCH_IN_ZNODE
from cluster.model.broker import NO_LEADER, BrokerEpoch, BrokerId
from cluster.model.partition import RECOVERING, LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from controller.changes import BrokersNotAdmitted, DeletionsQueued, ReassignmentsWritten, ReplicasMoved
from controller.decisions.brokers.known_damage import AwaitedReport
from controller.decisions.partitions.leader_election import NEWER_CONTROLLER, NO_STATE_ZNODE
from controller.decisions.partitions.partition_states import (
    initial_partition_state,
    plan_initialisations,
    plan_partition_moves,
)
from controller.decisions.partitions.replica_states import plan_isr_removals, plan_replica_moves, remove_from_isr
from tests.controllers.contexts import EPOCH, context, ids, leadership, tp

P, R = PartitionState, ReplicaState

LEGAL_PARTITION_MOVES = {
    (P.NON_EXISTENT, P.NEW),
    (P.NEW, P.ONLINE),
    (P.NEW, P.OFFLINE),
    (P.ONLINE, P.ONLINE),
    (P.ONLINE, P.OFFLINE),
    (P.OFFLINE, P.ONLINE),
    (P.OFFLINE, P.OFFLINE),
    (P.OFFLINE, P.NON_EXISTENT),
}
LEGAL_REPLICA_MOVES = {
    (R.NON_EXISTENT, R.NEW),
    (R.NEW, R.ONLINE),
    (R.NEW, R.OFFLINE),
    (R.ONLINE, R.ONLINE),
    (R.ONLINE, R.OFFLINE),
    (R.OFFLINE, R.ONLINE),
    (R.OFFLINE, R.OFFLINE),
    (R.OFFLINE, R.DELETION_STARTED),
    (R.OFFLINE, R.DELETION_INELIGIBLE),
    (R.DELETION_STARTED, R.DELETION_SUCCESSFUL),
    (R.DELETION_STARTED, R.DELETION_INELIGIBLE),
    (R.DELETION_SUCCESSFUL, R.NON_EXISTENT),
    (R.DELETION_INELIGIBLE, R.ONLINE),
    (R.DELETION_INELIGIBLE, R.OFFLINE),
}


@pytest.mark.rule("PS-4", "PS-5")
@pytest.mark.parametrize("state", P)
@pytest.mark.parametrize("target", P)
def test_partitions_move_only_along_the_table(state: PartitionState, target: PartitionState) -> None:
    moves = plan_partition_moves(lambda _: state, [tp("t-0")], target)
    legal = (state, target) in LEGAL_PARTITION_MOVES
    assert moves.valid == ((tp("t-0"),) if legal else ())
    assert moves.refused == ({} if legal else {tp("t-0"): state})


@pytest.mark.rule("RM-3")
@pytest.mark.parametrize("state", R)
@pytest.mark.parametrize("target", R)
def test_replicas_move_only_along_the_table(state: ReplicaState, target: ReplicaState) -> None:
    cluster = context([1])
    if state is not R.NON_EXISTENT:
        cluster.apply(ReplicasMoved(BrokerId(1), {tp("t-0"): ReplicaState.NON_EXISTENT}, state))
    moves = plan_replica_moves(cluster, BrokerId(1), [tp("t-0")], target)
    legal = (state, target) in LEGAL_REPLICA_MOVES
    assert moves.valid == ({tp("t-0"): state} if legal else {})
    assert moves.refused == ({} if legal else {tp("t-0"): state})


@pytest.mark.rule("PS-30")
@pytest.mark.parametrize(("leader", "expected"), [(1, P.ONLINE), (9, P.OFFLINE), (-1, P.OFFLINE), (None, P.NEW)])
def test_the_first_state_follows_from_the_leader(leader: int | None, expected: PartitionState) -> None:
    known = {} if leader is None else {"t-0": leadership(leader, [1])}
    assert initial_partition_state(context([1], {"t-0": [1, 9]}, known), tp("t-0")) is expected


@pytest.mark.rule("PS-7", "PS-8")
def test_initialisation_takes_live_replicas_in_assignment_order() -> None:
    plan = plan_initialisations(context([1, 2], {"t-0": [9, 2, 1], "t-1": [9]}), [tp("t-0"), tp("t-1")])
    assert plan.creations == {tp("t-0"): leadership(2, [2, 1], controller_epoch=EPOCH)}
    assert list(plan.failures) == [tp("t-1")]


@pytest.mark.rule("RM-10", "RM-11")
@pytest.mark.parametrize(
    ("leader", "isr", "broker", "new_leader", "new_isr"),
    [
        (1, [1, 2, 3], 2, 1, (1, 3)),
        (1, [1, 2, 3], 1, -1, (2, 3)),
        (1, [1], 1, -1, (1,)),
        (-1, [1], 1, -1, (1,)),
        (1, [1, 3], 2, None, None),
    ],
)
def test_taking_a_replica_out_of_an_isr(
    leader: int, isr: list[int], broker: int, new_leader: int | None, new_isr: tuple[int, ...] | None
) -> None:
    old = leadership(leader, isr, leader_epoch=4, partition_epoch=6, recovery=RECOVERING)
    new = remove_from_isr(old, BrokerId(broker), EPOCH)
    if new_leader is None or new_isr is None:
        assert new is None
    else:
        assert new == leadership(
            new_leader, new_isr, leader_epoch=5, partition_epoch=7, controller_epoch=EPOCH, recovery=RECOVERING
        )


@pytest.mark.rule("RM-9", "RM-11", "RM-12", "FN-5")
def test_isr_removals_sort_partitions_by_what_becomes_of_them() -> None:
    cluster = context([1, 2], {"t-0": [1, 2], "t-1": [1, 2], "t-2": [1], "t-3": [1], "gone-0": [1]})
    cluster.apply(DeletionsQueued(("gone",)))
    current: dict[TopicPartition, LeaderAndIsr | None] = {
        tp("t-0"): leadership(2, [2, 1]),
        tp("t-1"): leadership(2, [2], leader_epoch=3),
        tp("t-2"): None,
        tp("t-3"): leadership(1, [1], controller_epoch=EPOCH + 1),
        tp("gone-0"): None,
    }
    plan = plan_isr_removals(cluster, BrokerId(1), current)
    assert {p: w.isr for p, w in plan.writes.items()} == {tp("t-0"): ids(2)}
    assert plan.unchanged == {tp("t-1"): leadership(2, [2], leader_epoch=3, controller_epoch=EPOCH)}
    assert plan.failures == {tp("t-2"): NO_STATE_ZNODE, tp("t-3"): NEWER_CONTROLLER}
    assert plan.ignored == (tp("gone-0"),)
    assert NO_LEADER == -1


@pytest.mark.rule("D-120")
@pytest.mark.parametrize(
    ("what", "live", "awaited", "is_moving", "left"),
    [
        ("nobody is online, and one has to report", [], 2, False, (1, 2)),
        ("it has to report itself", [], 1, False, (1, 2)),
        ("another member is online", [2], 1, False, (2,)),
        ("nobody has to report", [], None, False, (2,)),
        ("the one that has to report is not in sync", [], 3, False, (2,)),
        ("a replica moves away", [], 2, True, (2,)),
    ],
)
def test_members_that_go_offline_stay_while_one_has_to_report(
    what: str, live: list[int], awaited: int | None, is_moving: bool, left: tuple[int, ...]
) -> None:
    cluster = context(live, {"t-0": [1, 2, 3]}, {"t-0": leadership(1, [1, 2])})
    if awaited is not None:
        cluster.apply(BrokersNotAdmitted({}, {BrokerId(awaited): AwaitedReport(BrokerEpoch(9), 0)}))
    if is_moving:
        moved = ReplicaAssignment(ids(1, 2, 3), adding=ids(3), removing=ids(1))
        cluster.apply(ReassignmentsWritten({tp("t-0"): moved}))
    plan = plan_isr_removals(cluster, BrokerId(1), {tp("t-0"): cluster.leaderships.known[tp("t-0")]})
    written = plan.writes[tp("t-0")]
    assert (written.leader, written.isr, written.leader_epoch) == (-1, left, 1), what
    # A follower that goes loses nothing: there is nothing to write.
    of_follower = plan_isr_removals(cluster, BrokerId(2), {tp("t-0"): written})
    assert (of_follower.writes == {}) == (left == (1, 2)), what


@pytest.mark.rule("D-43")
def test_an_offline_replica_stays_in_an_isr_if_no_leader_epoch_can_follow() -> None:
    last = LEADER_EPOCH_IN_ZNODE.maximum
    cluster = context([1, 2], {"t-0": [1, 2], "t-1": [1, 2]})
    before, at_end = (leadership(2, [2, 1], leader_epoch=epoch) for epoch in (last - 1, last))
    plan = plan_isr_removals(cluster, BrokerId(1), {tp("t-0"): before, tp("t-1"): at_end})
    assert {p: w.leader_epoch for p, w in plan.writes.items()} == {tp("t-0"): last}
    assert plan.unchanged == {tp("t-1"): leadership(2, [2, 1], leader_epoch=last, controller_epoch=EPOCH)}
    assert plan.failures == {}
