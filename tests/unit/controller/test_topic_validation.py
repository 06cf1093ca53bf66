"""Validation of topic names, numbers, deletions and elections: the rare cases."""

from random import Random

import pytest

from cluster.model.broker import ControllerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import RECOVERING, LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.model.state_machines import ReplicaState
from cluster.requests.elections import UNCLEAN
from cluster.requests.topics import NewPartitions
from controller.changes import DeletionsQueued, ReplicasMoved
from controller.decisions.cluster_events import cluster_events
from controller.decisions.partitions.leader_election import Preferred, plan_elections
from controller.decisions.partitions.requested_elections import classify_elections
from controller.decisions.topics.creation import TakenNames, check_topic_name, new_topic_id
from controller.decisions.topics.deletion import DeletionSteps, next_steps
from controller.decisions.topics.expansion import plan_expansion
from state_log.record import Kind, StateChange
from tests.controllers.contexts import EPOCH, assignment, broker, context, ids, leadership, tp

E = ErrorCode
ME = ControllerId(1001)
ONE, TWO = ReplicaAssignment(ids(1)), ReplicaAssignment(ids(2))


@pytest.mark.rule("TP-2")
@pytest.mark.parametrize(
    ("partitions", "count", "expected"),
    [
        (
            {0: ONE, 2: assignment([1, 2], [2]), 1: assignment([2], [], [2])},
            9,
            (E.REASSIGNMENT_IN_PROGRESS, "partitions [1, 2] are being reassigned", None, None),
        ),
        (
            {0: ONE},
            1,
            (E.INVALID_PARTITIONS, "the topic has 1 partition; the new number must be above that", "count", 1),
        ),
        (
            {0: ONE},
            0,
            (E.INVALID_PARTITIONS, "the topic has 1 partition; the new number must be above that", "count", 0),
        ),
        (
            {0: ONE, 2: ONE},
            3,
            (E.INVALID_PARTITIONS, "the topic's partitions are not numbered from 0 without gaps", None, None),
        ),
        (
            {1: ONE, 2: ONE},
            3,
            (E.INVALID_PARTITIONS, "the topic's partitions are not numbered from 0 without gaps", None, None),
        ),
        (
            {-1: ONE, 1: ONE},
            3,
            (E.INVALID_PARTITIONS, "the topic's partitions are not numbered from 0 without gaps", None, None),
        ),
    ],
)
def test_a_topic_that_cannot_grow_says_why(
    partitions: dict[int, ReplicaAssignment], count: int, expected: tuple[ErrorCode, str, str | None, object]
) -> None:
    with pytest.raises(ApiError) as refused:
        plan_expansion(NewPartitions("t", count, None), TopicAssignment(partitions), [broker(1)])
    error = refused.value
    assert (error.code, error.message, error.field, error.value) == expected


@pytest.mark.rule("TP-1")
@pytest.mark.parametrize(("name", "taken"), [("a_b", "a.b"), ("a.b", "a_b"), ("a.b_c", "a_b.c")])
def test_names_that_collide_exclude_each_other_both_ways(name: str, taken: str) -> None:
    with pytest.raises(ApiError, match="collides with"):
        check_topic_name(name, TakenNames([taken]))


@pytest.mark.parametrize("names", [("a.b_c", "a_b.c"), ("a_b.c", "a.b_c")])
def test_of_several_collisions_the_first_by_name_is_reported(names: tuple[str, ...]) -> None:
    with pytest.raises(ApiError, match=r"a_b_c collides with a\.b_c:"):
        check_topic_name("a_b_c", TakenNames(names))


@pytest.mark.rule("ZK-22")
def test_a_topic_id_loses_nothing_but_its_padding() -> None:
    random = Random(3)
    drawn = [new_topic_id(random) for _ in range(2000)]
    assert {len(topic_id) for topic_id in drawn} == {22}
    assert {topic_id[-1] for topic_id in drawn} == set("AQgw")


@pytest.mark.rule("TD-9")
def test_a_topic_that_is_done_or_under_way_does_not_keep_those_after_it_waiting() -> None:
    view = context([1], {"a-0": [1], "b-0": [1], "c-0": [1], "d-0": [1]})
    path = [ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL]
    for name, states in (("a-0", path), ("b-0", path[:1]), ("c-0", [ReplicaState.DELETION_INELIGIBLE])):
        for state in [ReplicaState.OFFLINE, *states]:
            view.apply(ReplicasMoved(ids(1)[0], {tp(name): ReplicaState.NON_EXISTENT}, state))
    view.apply(DeletionsQueued(("a", "b", "c", "d")))
    assert next_steps(view) == DeletionSteps(finish=("a",), retry=("c",), start=("c", "d"))


@pytest.mark.rule("PS-12", "PS-15")
def test_a_controller_elects_again_where_it_decided_last() -> None:
    view = context([1, 2], {"t-0": [1, 2]})
    current: dict[TopicPartition, LeaderAndIsr | None] = {tp("t-0"): leadership(2, [1, 2], controller_epoch=EPOCH)}
    plan = plan_elections(view, current, Preferred(), {}, mark_recovering=True)
    assert [election.leadership.leader for election in plan.elections] == [1]


@pytest.mark.rule("IS-20", "EP-3")
@pytest.mark.parametrize("marks", [True, False])
def test_an_unclean_election_on_request_leaves_a_leader_to_recover(marks: bool) -> None:
    view = context([1], {"t-0": [1, 9]}, {"t-0": leadership(9, [9])})
    elections = classify_elections(view, UNCLEAN, [tp("t-0")])
    current: dict[TopicPartition, LeaderAndIsr | None] = {tp("t-0"): view.leaderships.known[tp("t-0")]}
    plan = plan_elections(view, current, elections.strategy, {}, mark_recovering=marks)
    (elected,) = [election.leadership for election in plan.elections]
    assert (elected.leader, elected.isr, elected.leader_recovery_state == RECOVERING) == (1, (1,), marks)


def test_only_a_new_topic_keeps_its_partitions_from_being_reported() -> None:
    view = context([1], {"t-0": [1]}, {"t-0": leadership(1, [1])})
    grown = StateChange(kind=Kind.PARTITION, topic="t", partition=1, to_state="NewPartition")
    for kind, to_state in ((Kind.TOPIC, "queued for deletion"), (Kind.REPLICA, "created")):
        other = StateChange(kind=kind, topic="t", to_state=to_state)
        assert "partitions_added" in [event.kind for event in cluster_events(view, [other, grown], ME, 1)]
    moved = [
        StateChange(kind=Kind.ISR, topic="t", partition=p, broker=ids(b)[0], leader=ids(1)[0])
        for p, b in ((0, 7), (0, 8), (1, 7))
    ]
    assert [(e.kind, e.partition) for e in cluster_events(view, moved, ME, 1)] == [
        ("isr_changed", 0),
        ("isr_changed", 1),
    ]
