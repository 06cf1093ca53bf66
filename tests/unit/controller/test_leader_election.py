"""The election strategies, case by case, as values in and values out."""

import copy
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.bounds import LEADER_EPOCH_IN_ZNODE
from cluster.model.partition import RECOVERED, RECOVERING, LeaderAndIsr, TopicPartition
from controller.changes import ReassignmentsWritten
from controller.decisions.partitions.leader_election import (
    NEWER_CONTROLLER,
    NO_LEADER_EPOCH_LEFT,
    NO_STATE_ZNODE,
    ControlledShutdown,
    ElectionFailure,
    ElectionPlan,
    LeaderChoice,
    Offline,
    Preferred,
    Reassign,
    Strategy,
    choose_leader_for_shutdown,
    choose_offline_leader,
    choose_preferred_leader,
    choose_reassigned_leader,
    plan_elections,
)
from tests.controllers.contexts import EPOCH, assignment, context, facts, ids, leadership, tp


@pytest.mark.rule("PS-20", "PS-22")
@pytest.mark.parametrize(
    ("replicas", "isr", "online", "unclean", "expected"),
    [
        ([2, 4], [2, 4], {4}, False, LeaderChoice(4, (4,))),
        ([2, 4], [2], {4}, False, None),
        ([2, 4], [2], {4}, True, LeaderChoice(4, (4,), unclean=True)),
        ([3, 1, 2], [1, 2, 3], {1, 2}, True, LeaderChoice(1, (1, 2))),
        ([3, 1, 2], [1, 2, 3], {1, 2}, False, LeaderChoice(1, (1, 2))),
        ([2, 4], [2], set(), True, None),
        # An online ISR member outside the replicas forbids an unclean choice, and cannot lead itself.
        ([2, 4], [9], {4, 9}, True, None),
        ([1, 2, 3], [3, 2], {1, 2, 3}, False, LeaderChoice(2, (3, 2))),
    ],
)
def test_offline_takes_the_first_assigned_replica_in_sync(
    replicas: Sequence[int], isr: Sequence[int], online: set[int], unclean: bool, expected: LeaderChoice | None
) -> None:
    assert choose_offline_leader(ids(*replicas), ids(*isr), set(ids(*online)), allow_unclean=unclean) == expected


@pytest.mark.parametrize(
    ("target", "isr", "online", "expected"),
    [
        ([2, 4], [2, 4], {4}, LeaderChoice(4, (2, 4))),
        ([2, 4], [2], set(), None),
        ([2, 4], [], {2}, None),
    ],
)
def test_reassign_keeps_the_isr(
    target: Sequence[int], isr: Sequence[int], online: set[int], expected: LeaderChoice | None
) -> None:
    assert choose_reassigned_leader(ids(*target), ids(*isr), set(ids(*online))) == expected


@pytest.mark.rule("PS-23")
@pytest.mark.parametrize(
    ("replicas", "isr", "online", "expected"),
    [
        ([2, 4], [2, 4], {2, 4}, LeaderChoice(2, (2, 4))),
        ([2, 4], [2], set(), None),
        ([2, 4], [4], {2, 4}, None),
        ([], [], {2}, None),
    ],
)
def test_preferred_takes_the_first_replica_or_none(
    replicas: Sequence[int], isr: Sequence[int], online: set[int], expected: LeaderChoice | None
) -> None:
    assert choose_preferred_leader(ids(*replicas), ids(*isr), set(ids(*online))) == expected


@pytest.mark.parametrize(
    ("replicas", "isr", "leaving", "expected"),
    [
        ([2, 4], [2, 4], {2}, LeaderChoice(4, (4,))),
        ([2, 4], [2], {2}, None),
        ([2, 4], [2, 4], {2, 4}, None),
    ],
)
def test_controlled_shutdown_drops_leaving_brokers_from_the_isr(
    replicas: Sequence[int], isr: Sequence[int], leaving: set[int], expected: LeaderChoice | None
) -> None:
    online = set(ids(2, 4))
    assert choose_leader_for_shutdown(ids(*replicas), ids(*isr), online, set(ids(*leaving))) == expected


def plan(
    strategy: Strategy,
    current: dict[TopicPartition, LeaderAndIsr | None],
    *,
    unclean: dict[str, bool | ElectionFailure] | None = None,
    mark_recovering: bool = True,
) -> ElectionPlan:
    cluster = context([1, 2, 3], {"t-0": [1, 2, 4]})
    before = copy.deepcopy(facts(cluster))
    made = plan_elections(cluster, current, strategy, unclean or {}, mark_recovering=mark_recovering)
    assert facts(cluster) == before
    return made


@pytest.mark.rule("PS-13", "PS-15", "RQ-12")
@pytest.mark.parametrize(
    ("strategy", "leader", "isr", "recipients"),
    [
        (Offline(), 1, (1, 2), (1, 2)),
        (Reassign(), 1, (4, 1, 2), (1, 2, 4)),
        (Preferred(), 1, (4, 1, 2), (1, 2, 4)),
        (ControlledShutdown(), 1, (4, 1, 2), (1, 2)),
    ],
)
def test_each_strategy_has_its_own_recipients_and_raises_the_epoch_by_one(
    strategy: Strategy, leader: int, isr: tuple[int, ...], recipients: tuple[int, ...]
) -> None:
    old = leadership(4, [4, 1, 2], leader_epoch=5, partition_epoch=9, recovery=RECOVERING)
    (election,) = plan(strategy, {tp("t-0"): old}).elections
    assert election.leadership == leadership(
        leader, isr, leader_epoch=6, partition_epoch=10, controller_epoch=EPOCH, recovery=RECOVERING
    )
    assert (election.recipients, election.unclean) == (recipients, False)


def test_reassign_considers_the_target_replicas_only() -> None:
    cluster = context([1, 2, 3], {"t-0": [1]})
    cluster.apply(ReassignmentsWritten({tp("t-0"): assignment([3, 2, 1], adding=[3, 2], removing=[1])}))
    current: dict[TopicPartition, LeaderAndIsr | None] = {tp("t-0"): leadership(1, [1, 2, 3])}
    (election,) = plan_elections(cluster, current, Reassign(), {}, mark_recovering=True).elections
    assert (election.leadership.leader, election.recipients) == (3, (3, 2))


@pytest.mark.rule("D-96")
def test_reassign_hands_leadership_to_a_replica_that_stays_and_keeps_no_unassigned_one_in_the_isr() -> None:
    cluster = context([1, 2, 3, 4], {"t-0": [1]})
    cluster.apply(ReassignmentsWritten({tp("t-0"): assignment([3, 4, 1, 2], adding=[3, 4], removing=[1, 2])}))
    staying = Reassign({tp("t-0"): ids(5, 2, 1)})

    def elected(isr: list[int]) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
        current: dict[TopicPartition, LeaderAndIsr | None] = {tp("t-0"): leadership(3, isr)}
        made = plan_elections(cluster, current, staying, {}, mark_recovering=True).elections
        return None if not made else (made[0].leadership.leader, made[0].leadership.isr, made[0].recipients)

    assert elected([1, 2, 3]) == (2, (1, 2, 3), (3, 4, 1, 2))
    assert elected([1, 3]) == (1, (1, 3), (3, 4, 1, 2))
    assert elected([3, 4]) is None
    # As a controller finds it that died between the topic znode and the ISR.
    cluster.apply(ReassignmentsWritten({tp("t-0"): assignment([1, 2])}))
    assert elected([1, 2, 3]) == (2, (1, 2), (1, 2))


@pytest.mark.rule("PS-11", "PS-12", "FN-5")
def test_partitions_without_state_or_of_a_newer_controller_fail() -> None:
    newer = leadership(4, [4], controller_epoch=EPOCH + 1)
    made = plan(Offline(), {tp("t-0"): None, tp("t-1"): newer})
    assert made.failures == {tp("t-0"): NO_STATE_ZNODE, tp("t-1"): NEWER_CONTROLLER}
    assert made.elections == ()


@pytest.mark.rule("D-43")
@pytest.mark.parametrize("strategy", [Offline(), Preferred(), Reassign(), ControlledShutdown()])
def test_the_last_leader_epoch_of_a_state_znode_is_never_passed(strategy: Strategy) -> None:
    last = LEADER_EPOCH_IN_ZNODE.maximum
    (election,) = plan(strategy, {tp("t-0"): leadership(4, [4, 1, 2], leader_epoch=last - 1)}).elections
    assert election.leadership.leader_epoch == last
    made = plan(strategy, {tp("t-0"): election.leadership})
    assert (made.elections, made.failures) == ((), {tp("t-0"): NO_LEADER_EPOCH_LEFT})


@pytest.mark.rule("PS-20", "IS-20")
@pytest.mark.parametrize("mark", [True, False])
def test_an_unclean_leader_is_alone_in_its_isr_and_recovering(mark: bool) -> None:
    made = plan(Offline(), {tp("t-0"): leadership(4, [4])}, unclean={"t": True}, mark_recovering=mark)
    (election,) = made.elections
    assert election.unclean
    assert (election.leadership.leader, election.leadership.isr) == (1, (1,))
    assert election.leadership.leader_recovery_state == (RECOVERING if mark else RECOVERED)


@pytest.mark.rule("PS-20")
def test_an_explicit_unclean_election_needs_no_configuration() -> None:
    made = plan(Offline(allow_unclean=True), {tp("t-0"): leadership(4, [4])})
    (election,) = made.elections
    assert election.unclean
    assert made.writes == {tp("t-0"): election.leadership}


@pytest.mark.rule("PS-20", "D-18")
def test_unreadable_settings_fail_only_partitions_that_needed_them() -> None:
    why = ElectionFailure("settings of topic t cannot be read")
    made = plan(Offline(), {tp("t-0"): leadership(4, [4]), tp("t-1"): leadership(4, [2])}, unclean={"t": why})
    assert made.failures[tp("t-0")] == why
    # t-1 has an online ISR member that is not assigned: it fails for that reason, not for its settings.
    assert made.failures[tp("t-1")] != why


def test_nobody_to_elect_is_a_failure_that_names_the_strategy_and_the_replicas() -> None:
    made = plan(Offline(), {tp("t-0"): leadership(4, [4])})
    said = "no leader can be elected under strategy Offline: replicas 1, 2, 4, of which 1, 2 alive, ISR 4"
    assert made.failures[tp("t-0")].reason == said


@pytest.mark.parametrize("strategy", [Offline(allow_unclean=True), Offline(), Preferred()])
def test_where_no_replica_is_alive_the_failure_names_those_that_could_be_started(strategy: Strategy) -> None:
    cluster = context([1], {"t-0": [2, 4]})
    made = plan_elections(cluster, {tp("t-0"): leadership(4, [4])}, strategy, {}, mark_recovering=True)
    assert made.failures[tp("t-0")].reason == "none of the replicas is alive: start one of the brokers 2, 4"


broker_ids = st.integers(1, 5)
broker_lists = st.lists(broker_ids, unique=True, min_size=1, max_size=5)


@pytest.mark.rule("INV-2", "INV-3", "INV-4")
@given(broker_lists, broker_lists, st.sets(broker_ids), st.booleans())
def test_no_election_picks_a_dead_broker_or_empties_an_isr(
    replicas: list[int], isr: list[int], live: set[int], unclean: bool
) -> None:
    cluster = context(sorted(live), {"t-0": replicas})
    current: dict[TopicPartition, LeaderAndIsr | None] = {tp("t-0"): leadership(-1, isr)}
    made = plan_elections(cluster, current, Offline(), {"t": unclean}, mark_recovering=True)
    for election in made.elections:
        new = election.leadership
        assert new.leader in live
        assert new.leader in new.isr
        assert new.leader in replicas
        assert set(election.recipients) <= live
        if election.unclean:
            assert unclean
            assert not live & set(isr)
            assert len(new.isr) == 1
        else:
            assert set(new.isr) <= set(isr)
