"""Topic deletion: which topics and replicas are ready, and why others wait."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.broker import BrokerId, ControllerEpoch, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.model.state_machines import ReplicaState
from cluster.znodes.left_replicas import LeftReplicas
from controller.changes import (
    BrokersGivenUp,
    DeletionsEligible,
    DeletionsIneligible,
    DeletionsQueued,
    DeletionsStarted,
    LeftReplicasDeleted,
    LeftReplicasRecorded,
    ReassignmentsStarted,
    ReassignmentsWritten,
    ReplicasMoved,
    TopicsRemoved,
)
from controller.context.controller_context import ControllerContext
from controller.decisions.topics.deletion import (
    DeletionSteps,
    deletable_replicas,
    deleted_left_replicas,
    failed_replicas,
    filter_queued,
    is_given_up,
    next_steps,
    plan_left_replicas,
    plan_start,
    superseded_records,
    topics_with_offline_replicas,
    withdrawn_records,
)
from controller.decisions.topics.deletion_progress import describe_deletion
from tests.controllers.contexts import assignment, context, ids, leadership, tp

S = ReplicaState
ONLINE, OFFLINE = S.ONLINE, S.OFFLINE
ID = TopicId("A" * 21 + "Q")
LEFT = LeftReplicas(ID, (0,))
STARTED, DELETED, FAILED = S.DELETION_STARTED, S.DELETION_SUCCESSFUL, S.DELETION_INELIGIBLE


def queued(states: Mapping[str, Mapping[int, ReplicaState]], *, live: tuple[int, ...] = (1, 2, 3)) -> ControllerContext:
    """`states`: "t-0" -> broker -> state of its replica there; all topics are queued."""
    cluster = context(live, {name: list(replicas) for name, replicas in states.items()})
    for name, replicas in states.items():
        for broker, state in replicas.items():
            cluster.apply(ReplicasMoved(BrokerId(broker), {tp(name): ReplicaState.NON_EXISTENT}, state))
    cluster.apply(DeletionsQueued(tuple(sorted(cluster.topics.names))))
    return cluster


STEPS: list[tuple[str, dict[int, ReplicaState], bool, DeletionSteps]] = [
    ("all are deleted", {1: DELETED, 2: DELETED}, False, DeletionSteps(("t",), (), ())),
    ("all are deleted, though on hold", {1: DELETED, 2: DELETED}, True, DeletionSteps(("t",), (), ())),
    ("nothing has begun", {1: ONLINE, 2: OFFLINE}, False, DeletionSteps((), (), ("t",))),
    ("on hold", {1: ONLINE, 2: OFFLINE}, True, DeletionSteps((), (), ())),
    ("one is on its way", {1: STARTED, 2: DELETED}, False, DeletionSteps((), (), ())),
    ("one has failed, one is on its way", {1: FAILED, 2: STARTED}, False, DeletionSteps((), (), ())),
    ("one has failed, on hold", {1: FAILED, 2: DELETED}, True, DeletionSteps((), ("t",), ())),
    ("one has failed, released", {1: FAILED, 2: DELETED}, False, DeletionSteps((), ("t",), ("t",))),
]


@pytest.mark.rule("TD-9", "TD-25")
@pytest.mark.parametrize(("_case", "replicas", "on_hold", "steps"), STEPS, ids=[case for case, *_ in STEPS])
def test_the_states_of_its_replicas_say_what_a_topic_is_ready_for(
    _case: str, replicas: dict[int, ReplicaState], on_hold: bool, steps: DeletionSteps
) -> None:
    cluster = queued({"t-0": replicas})
    if on_hold:
        cluster.apply(DeletionsIneligible(frozenset(["t"])))
    assert next_steps(cluster) == steps


@pytest.mark.rule("TD-9")
def test_a_topic_without_replicas_is_finished() -> None:
    cluster = context([1])
    cluster.apply(DeletionsQueued(("nothing",)))
    assert next_steps(cluster) == DeletionSteps(("nothing",), (), ())


@pytest.mark.rule("TD-2")
def test_only_queued_topics_can_be_held() -> None:
    cluster = queued({"t-0": {1: ONLINE}})
    cluster.apply(DeletionsIneligible(frozenset(["t", "other"])))
    assert cluster.deletions.ineligible == {"t"}
    cluster.apply(DeletionsEligible(("t",)))
    assert cluster.deletions.ineligible == set()


@pytest.mark.rule("TD-13")
def test_the_living_are_deleted_and_the_dead_put_their_topics_on_hold() -> None:
    cluster = queued(
        {"t-0": {1: ONLINE, 3: OFFLINE}, "t-1": {1: DELETED, 2: ONLINE}, "u-0": {1: OFFLINE, 2: DELETED}}, live=(1, 2)
    )
    cluster.apply(DeletionsStarted(("u",)))
    plan = plan_start(cluster, ["t", "u"])
    assert plan.partitions == (tp("t-0"), tp("t-1")), "u has lost its states before"
    assert plan.dead == {3: [tp("t-0")]}
    assert plan.alive == {1: [tp("t-0"), tp("u-0")], 2: [tp("t-1")]}
    assert plan.held == ("t",)


@pytest.mark.rule("TD-13", "TD-8")
def test_a_dead_replica_that_cannot_fail_any_more_holds_its_topic_all_the_same() -> None:
    cluster = queued({"t-0": {1: DELETED, 2: ONLINE}}, live=())
    plan = plan_start(cluster, ["t"])
    assert (plan.dead, plan.alive, plan.held) == ({}, {}, ("t",))
    replicas = {BrokerId(1): [tp("t-0")], BrokerId(2): [tp("t-0")]}
    assert deletable_replicas(cluster, replicas) == {1: [], 2: []}


@pytest.mark.rule("TD-8", "TD-9")
def test_failed_replicas_are_those_of_the_named_topics_in_that_state() -> None:
    cluster = queued({"t-0": {1: FAILED, 2: DELETED}, "u-0": {1: FAILED}})
    assert failed_replicas(cluster, ["t"]) == {1: [tp("t-0")]}
    started = queued({"t-0": {1: STARTED, 2: OFFLINE, 3: DELETED}})
    everywhere = {BrokerId(b): [tp("t-0")] for b in (1, 2, 3)}
    assert deletable_replicas(started, everywhere) == {1: [tp("t-0")], 2: [tp("t-0")], 3: []}


def test_replicas_of_other_topics_are_none_of_the_deletions_business() -> None:
    cluster = context([1], {"t-0": [1], "u-0": [1]})
    cluster.apply(DeletionsQueued(("t",)))
    assert filter_queued(cluster, {BrokerId(1): [tp("t-0"), tp("u-0")], BrokerId(2): [tp("u-0")]}) == {1: [tp("t-0")]}


@pytest.mark.rule("FO-7", "D-98")
def test_what_holds_a_topic_at_a_failover() -> None:
    cluster = context([1, 2], {"dead-0": [1, 3], "given-0": [1, 4], "left-0": [1, 3], "fine-0": [1, 2]})
    cluster.apply(BrokersGivenUp(ids(4)))
    cluster.apply(LeftReplicasRecorded({BrokerId(3): {"left": LeftReplicas(None, (0,))}}))
    topics = ["dead", "given", "left", "fine", "unknown"]
    assert topics_with_offline_replicas(cluster, topics) == {"dead"}


@pytest.mark.rule("D-1")
def test_a_topic_that_is_queued_is_not_reassigned_any_more() -> None:
    cluster = context([1, 2], {"t-0": [1], "u-0": [1]})
    for name in ("t-0", "u-0"):
        cluster.apply(ReassignmentsWritten({tp(name): assignment([2, 1], adding=[2], removing=[1])}))
        cluster.apply(ReassignmentsStarted((tp(name),)))
    cluster.apply(DeletionsQueued(("t",)))
    assert cluster.topics.being_reassigned == {tp("u-0")}


@pytest.mark.rule("D-1", "TD-13")
def test_replicas_that_a_reassignment_had_not_added_yet_are_distinguished() -> None:
    plan = plan_start(queued({"t-0": {1: ONLINE, 2: S.NON_EXISTENT}}), ["t"])
    assert (plan.unborn, plan.alive) == ({2: [tp("t-0")]}, {1: [tp("t-0")], 2: [tp("t-0")]})


@pytest.mark.rule("D-98")
def test_replicas_on_brokers_that_are_given_up_hold_nothing() -> None:
    cluster = queued({"t-0": {1: ONLINE, 3: FAILED}, "t-1": {3: DELETED, 4: OFFLINE}}, live=(1,))
    cluster.apply(BrokersGivenUp(ids(3)))
    plan = plan_start(cluster, ["t"])
    assert (plan.left, plan.dead, plan.alive) == ({3: [tp("t-0")]}, {4: [tp("t-1")]}, {1: [tp("t-0")]})
    assert plan.held == ("t",), "for broker 4"
    assert not is_given_up(queued({"t-0": {3: ONLINE}}, live=(3,)), BrokerId(3), "t")


@pytest.mark.rule("D-98", "D-99")
def test_the_first_record_of_a_name_stays() -> None:
    cluster = queued({"t-0": {3: OFFLINE}, "t-2": {3: OFFLINE}, "u-0": {3: OFFLINE}, "u-1": {4: OFFLINE}}, live=(1,))
    cluster.apply(LeftReplicasRecorded({BrokerId(3): {"u": LeftReplicas(ID, (7,))}}))
    left = {BrokerId(3): [tp("t-0"), tp("t-2"), tp("u-0")], BrokerId(4): [tp("u-1")]}
    assert plan_left_replicas(cluster, {BrokerId(3): [tp("u-0")]}) == {}
    assert plan_left_replicas(cluster, left) == {
        3: {"t": LeftReplicas(TopicId("id-of-t"), (0, 2))},
        4: {"u": LeftReplicas(TopicId("id-of-u"), (1,))},
    }


SUPERSEDED: list[tuple[str, list[int], LeaderAndIsr | None, TopicId | None, bool]] = [
    ("no topic of the name has a replica there", [1, 2], leadership(1, [1, 2], controller_epoch=9), ID, False),
    ("the topic has no leader yet", [1, 3], None, ID, False),
    ("under controllers that keep to the records", [1, 3], leadership(1, [1], controller_epoch=5), ID, False),
    ("another controller took it into the ISR", [1, 3], leadership(1, [1, 3], controller_epoch=5), ID, True),
    ("another controller wrote the state", [1, 3], leadership(1, [1], controller_epoch=6), None, True),
    ("the very topic, half deleted", [1, 3], leadership(1, [1, 3], controller_epoch=6), TopicId("id-of-t"), False),
]


@pytest.mark.rule("D-100")
@pytest.mark.parametrize(("_case", "replicas", "state", "topic_id", "is_superseded"), SUPERSEDED, ids=lambda x: x)
def test_a_record_ends_when_another_controller_may_have_made_a_newer_topic(
    _case: str, replicas: list[int], state: LeaderAndIsr | None, topic_id: TopicId | None, is_superseded: bool
) -> None:
    cluster = context([1, 2], {"t-0": replicas}, {} if state is None else {"t-0": state})
    cluster.apply(LeftReplicasRecorded({BrokerId(3): {"t": LeftReplicas(topic_id, (0,)), "gone": LEFT}}))
    expected = {3: ["t"]} if is_superseded else {}
    assert superseded_records(cluster, ControllerEpoch(5)) == expected


@pytest.mark.rule("D-98")
@pytest.mark.parametrize(
    ("case", "state", "topic_id", "is_queued", "is_withdrawn"),
    [
        ("its marker is gone, and the broker may have the only good copy", leadership(-1, [3]), "id-of-t", False, True),
        ("it is still to be deleted", leadership(-1, [3]), "id-of-t", True, False),
        ("another one of the name", leadership(-1, [3]), "id-before", False, False),
        ("the broker is in no ISR", leadership(1, [1]), "id-of-t", False, False),
        ("nobody has led it", None, "id-of-t", False, False),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_a_record_ends_when_its_topic_is_not_deleted_after_all(
    case: str, state: LeaderAndIsr | None, topic_id: str, is_queued: bool, is_withdrawn: bool
) -> None:
    cluster = context([1], {"t-0": [1, 3], "t-1": [3, 1]}, {} if state is None else {"t-0": state, "t-1": state})
    cluster.apply(LeftReplicasRecorded({BrokerId(3): {"t": LeftReplicas(TopicId(topic_id), (0, 1))}}))
    if is_queued:
        cluster.apply(DeletionsQueued(("t",)))
    assert withdrawn_records(cluster) == ({3: ["t"]} if is_withdrawn else {}), case


@pytest.mark.rule("D-99")
def test_what_a_broker_has_deleted_follows_from_its_answer_about_every_partition() -> None:
    cluster = context([3])
    three = BrokerId(3)
    names = {name: LeftReplicas(ID, (0, 1)) for name in ("done", "refused", "other", "half")}
    cluster.apply(LeftReplicasRecorded({three: names}))
    results = {tp(name): ErrorCode.NONE for name in ("done-0", "done-1", "half-0", "refused-0", "other-1")}
    results |= {tp("refused-1"): ErrorCode.KAFKA_STORAGE_ERROR, tp("other-0"): ErrorCode.INCONSISTENT_TOPIC_ID}
    assert deleted_left_replicas(cluster, three, results) == ["done", "other"]


@pytest.mark.rule("D-99")
def test_a_broker_with_left_replicas_is_no_home_for_a_newer_topic_of_the_name() -> None:
    cluster = context([1, 3], {"t-0": [3, 1], "u-0": [3]})
    cluster.apply(LeftReplicasRecorded({BrokerId(3): {"t": LeftReplicas(ID, (0,))}, BrokerId(9): {"t": LEFT}}))
    assert cluster.brokers.online_for(tp("t-0")) == cluster.damage.electable_brokers(tp("t-0")) == {1}
    assert cluster.brokers.online_for(tp("u-0"), include_shutting_down=True) == {1, 3}
    cluster.apply(LeftReplicasDeleted(BrokerId(3), ("t", "never")))
    assert cluster.brokers.online_for(tp("t-0")) == {1, 3}
    assert cluster.deletions.left_replicas == {9: {"t": LEFT}}


REASONS: list[tuple[dict[int, ReplicaState], tuple[int, ...], str, str, list[str]]] = [
    ({1: STARTED, 2: DELETED}, (1, 2), "in progress", "", ["broker 1 has not answered yet"]),
    ({1: ONLINE}, (1,), "waiting", "", [""]),
]


@pytest.mark.parametrize(("replicas", "live", "state", "reason", "waits"), REASONS)
def test_a_deletion_that_is_not_held_tells_how_far_it_is(
    replicas: dict[int, ReplicaState], live: tuple[int, ...], state: str, reason: str, waits: list[str]
) -> None:
    described = describe_deletion(queued({"t-0": replicas}, live=live), "t")
    assert (described.state, described.reason) == (state, reason)
    assert [replica.reason for replica in described.waiting] == waits


def test_a_held_deletion_tells_all_that_holds_it() -> None:
    cluster = queued({"t-0": {1: OFFLINE, 2: OFFLINE}, "t-1": {2: DELETED, 3: OFFLINE}}, live=(1, 2))
    cluster.brokers.offline_directories[BrokerId(2)] = {tp("t-0")}
    cluster.apply(DeletionsIneligible(frozenset(["t"])))
    described = describe_deletion(cluster, "t")
    assert described.reason == "replicas offline on brokers 2, 3"
    assert (described.deleted_replicas, described.replicas) == (1, 4)
    assert [(r.partition, r.broker_id, r.reason) for r in described.waiting] == [
        (0, 1, ""),
        (0, 2, "the log directory on broker 2 has failed"),
        (1, 3, "broker 3 is not alive"),
    ]


def test_a_deletion_says_when_it_ends_without_a_broker_and_which_one_has_to_answer_first() -> None:
    cluster = queued({"t-0": {1: OFFLINE, 3: OFFLINE}}, live=(1,))
    cluster.apply(LeftReplicasRecorded({BrokerId(1): {"t": LEFT}}))
    cluster.apply(DeletionsIneligible(frozenset(["t"])))
    assert [r.reason for r in describe_deletion(cluster, "t", {BrokerId(3): 1_700_000_000_000}).waiting] == [
        "broker 1 has not deleted an earlier topic of the name yet",
        "broker 3 is not alive; the topic is deleted without it at 22:13:20 UTC",
    ]


def test_a_refused_deletion_says_what_it_is_tried_again_upon() -> None:
    cluster = queued({"t-0": {1: OFFLINE, 2: DELETED}})
    cluster.apply(DeletionsIneligible(frozenset(["t"])))
    assert describe_deletion(cluster, "t").reason.startswith("refused by broker 1;")


partitions = st.builds(TopicPartition, st.sampled_from("tu"), st.integers(0, 2))
brokers = st.integers(1, 3).map(BrokerId)
operations = st.one_of(
    st.tuples(st.just("assign"), partitions, st.lists(brokers, unique=True, max_size=3)),
    st.tuples(st.just("state"), partitions, st.tuples(brokers, st.sampled_from(list(ReplicaState)))),
    st.tuples(st.just("remove"), partitions, brokers),
    st.tuples(st.just("queue"), partitions, st.none()),
    st.tuples(st.just("forget"), partitions, st.none()),
)


@pytest.mark.rule("INV-10")
@given(st.lists(operations, max_size=40))
def test_the_count_of_replicas_by_state_always_equals_a_recount(
    steps: list[tuple[str, TopicPartition, object]],
) -> None:
    cluster = context([1, 2, 3], {"t-0": [1, 2], "u-0": [1]})
    for step, partition, value in steps:
        _do(cluster, step, partition, value)
        for topic in cluster.deletions.queued:
            recount = Counter(
                cluster.replicas.state(broker, known)
                for known in cluster.topics.partitions_of(topic)
                for broker in cluster.topics.assignment(known).replicas
            )
            assert +Counter(cluster.replicas.by_state(topic)) == recount


def _do(cluster: ControllerContext, step: str, partition: TopicPartition, value: object) -> None:
    match step, value:
        case "assign", list():
            cluster.apply(ReassignmentsWritten({partition: assignment(value)}))
        case "state", (int() as broker, ReplicaState() as state):
            cluster.apply(ReplicasMoved(BrokerId(broker), {partition: ReplicaState.NON_EXISTENT}, state))
        case "remove", int() as broker:
            before = {partition: cluster.replicas.state(BrokerId(broker), partition)}
            cluster.apply(ReplicasMoved(BrokerId(broker), before, ReplicaState.NON_EXISTENT))
        case "queue", _:
            cluster.apply(DeletionsQueued((partition.topic,)))
        case _:
            cluster.apply(TopicsRemoved((partition.topic,), deleted=True))
