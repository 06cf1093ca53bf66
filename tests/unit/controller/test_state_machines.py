"""Every (state, target) pair of both state machines, and the plans of the transitions."""

from typing import NamedTuple

import pytest

from cluster.model.bounds import LEADER_EPOCH_IN_ZNODE
from cluster.model.broker import NO_LEADER, BrokerEpoch, BrokerId, Offset
from cluster.model.partition import RECOVERING, LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from cluster.requests.agents import RECOVERY, ReportedDamage
from controller.changes import (
    BrokerShuttingDown,
    DamagedReplicasReported,
    DeletionsQueued,
    ReassignmentsWritten,
    ReplicasMoved,
)
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
    plan = plan_isr_removals(cluster, BrokerId(1), current, shrinks_to_last=False)
    assert {p: w.isr for p, w in plan.writes.items()} == {tp("t-0"): ids(2)}
    assert plan.unchanged == {tp("t-1"): leadership(2, [2], leader_epoch=3, controller_epoch=EPOCH)}
    assert plan.failures == {tp("t-2"): NO_STATE_ZNODE, tp("t-3"): NEWER_CONTROLLER}
    assert plan.ignored == (tp("gone-0"),)
    assert NO_LEADER == -1


class Going(NamedTuple):
    """Broker 1 goes, of the ISR 1, 2, with 3 assigned, too. `left`: the ISR that remains."""

    live: list[int]
    left: tuple[int, ...]
    leader: int = 1
    held: int | None = None
    shutting_down: int | None = None
    moves_away: bool = False


@pytest.mark.rule("D-120", "RM-10")
@pytest.mark.parametrize("shrinks_to_last", [False, True])
@pytest.mark.parametrize(
    "going",
    [
        pytest.param(Going([], (1, 2)), id="nobody is online"),
        pytest.param(Going([2], (2,)), id="the other member is online"),
        pytest.param(Going([3], (2,)), id="only a replica outside of the ISR is online, and none is in doubt"),
        pytest.param(Going([2], (1, 2), held=2), id="the other member is held back"),
        pytest.param(Going([2], (2,), leader=2, held=2), id="the other member leads, though it is held back"),
        pytest.param(Going([2], (2,), shutting_down=2), id="the other member shuts down, and none is in doubt"),
        pytest.param(Going([2], (2,), leader=2, shutting_down=2), id="the other member shuts down, and leads still"),
        pytest.param(Going([2], (2,), leader=2, held=2, shutting_down=2), id="it is held back, and leads still"),
        pytest.param(Going([], (2,), moves_away=True), id="its replica moves away"),
    ],
)
def test_members_of_an_isr_that_all_go_offline_stay_in_it(going: Going, shrinks_to_last: bool) -> None:
    """Where they are klamm's: which of them has the newest log is known when they are back."""
    cluster = context(going.live, {"t-0": [1, 2, 3]}, {"t-0": leadership(going.leader, [1, 2])})
    if going.held is not None:
        damage = ReportedDamage("t", None, 0, Offset(3), Offset(9), 0, RECOVERY)
        cluster.apply(DamagedReplicasReported(BrokerId(going.held), BrokerEpoch(1), {tp("t-0"): damage}))
    if going.shutting_down is not None:
        cluster.apply(BrokerShuttingDown(BrokerId(going.shutting_down), BrokerEpoch(1)))
    if going.moves_away:
        moved = ReplicaAssignment(ids(1, 2, 3), adding=ids(3), removing=ids(1))
        cluster.apply(ReassignmentsWritten({tp("t-0"): moved}))
    current: dict[TopicPartition, LeaderAndIsr | None] = {tp("t-0"): cluster.leaderships.known[tp("t-0")]}
    plan = plan_isr_removals(cluster, BrokerId(1), current, shrinks_to_last=shrinks_to_last)
    written = plan.writes[tp("t-0")]
    assert written.isr == ((2,) if shrinks_to_last else going.left)
    assert (written.leader, written.leader_epoch) == (-1 if going.leader == 1 else 2, 1)


@pytest.mark.rule("D-120", "RM-11")
def test_a_follower_that_stays_in_an_isr_without_a_leader_changes_nothing() -> None:
    now = leadership(-1, [1, 2])
    cluster = context([], {"t-0": [1, 2]}, {"t-0": now})
    plan = plan_isr_removals(cluster, BrokerId(2), {tp("t-0"): now}, shrinks_to_last=False)
    assert plan.writes == {}
    assert list(plan.unchanged) == [tp("t-0")]


@pytest.mark.rule("D-43")
def test_an_offline_replica_stays_in_an_isr_if_no_leader_epoch_can_follow() -> None:
    last = LEADER_EPOCH_IN_ZNODE.maximum
    cluster = context([1, 2], {"t-0": [1, 2], "t-1": [1, 2]})
    before, at_end = (leadership(2, [2, 1], leader_epoch=epoch) for epoch in (last - 1, last))
    plan = plan_isr_removals(cluster, BrokerId(1), {tp("t-0"): before, tp("t-1"): at_end}, shrinks_to_last=False)
    assert {p: w.leader_epoch for p, w in plan.writes.items()} == {tp("t-0"): last}
    assert plan.unchanged == {tp("t-1"): leadership(2, [2, 1], leader_epoch=last, controller_epoch=EPOCH)}
    assert plan.failures == {}
