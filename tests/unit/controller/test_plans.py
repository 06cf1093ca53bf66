"""Decisions and descriptions in full: every field of an answer, and what broker 0, -1 and absent items do."""

import base64
import uuid
from random import Random

import pytest

from cluster.model.broker import BrokerId, ControllerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import RECOVERING, LeaderAndIsr, TopicAssignment, TopicPartition
from cluster.model.state_machines import ReplicaState
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest
from cluster.requests.reassignments import DescribedReassignment, TargetReplica
from cluster.requests.topics import NewTopic
from controller.changes import (
    BrokersDied,
    DeletionsIneligible,
    DeletionsQueued,
    ReassignmentsWritten,
    ReplicasMoved,
)
from controller.decisions.broker_requests import ControlBatch, RequestSettings
from controller.decisions.partitions.isr_change import plan_isr_changes
from controller.decisions.partitions.leader_election import ElectionFailure, Offline, plan_elections
from controller.decisions.partitions.partition_states import plan_initialisations
from controller.decisions.partitions.replica_states import plan_isr_removals
from controller.decisions.reassignment.phases import RefusedMove, plan_submission, topic_znodes
from controller.decisions.reassignment.progress import describe_reassignment
from controller.decisions.topics.creation import (
    TakenNames,
    check_assignments,
    check_topic_name,
    new_topic_id,
    plan_new_topic,
)
from controller.decisions.topics.deletion_progress import describe_deletion
from tests.controllers.contexts import EPOCH, assignment, broker, context, ids, leadership, tp

ME = ControllerId(1001)
SETTINGS = RequestSettings()
T0 = tp("t-0")


def test_a_described_move_carries_its_lists() -> None:
    view = context([1, 2], {"t-0": [1], "t-1": [1]}, {"t-0": leadership(1, [1])})
    view.apply(ReassignmentsWritten({T0: assignment([2, 1], [2], [1])}))
    targets = (TargetReplica(BrokerId(2), False, True),)
    assert describe_reassignment(view, T0) == DescribedReassignment(
        "t", 0, BrokerId(1), ids(1), ids(2, 1), ids(2), ids(1), targets, ""
    )


def test_a_deletion_that_waits_goes_on_or_is_held_is_distinguished() -> None:
    view = context([1, 2], {"t-0": [1, 2]}, {"t-0": leadership(1, [1])})
    view.apply(DeletionsQueued(("t",)))
    waiting = describe_deletion(view, "t")
    assert waiting.topic == "t"
    assert [(w.partition, w.broker_id, w.state) for w in waiting.waiting] == [
        (0, 1, "NonExistentReplica"),
        (0, 2, "NonExistentReplica"),
    ]
    assert (waiting.state, waiting.reason, waiting.deleted_replicas, waiting.replicas) == ("waiting", "", 0, 2)
    for target in (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED):
        view.apply(ReplicasMoved(BrokerId(1), {T0: ReplicaState.NON_EXISTENT}, target))
    assert (describe_deletion(view, "t").state, describe_deletion(view, "t").reason) == ("in progress", "")
    assert describe_deletion(view, "t").waiting[0].reason == "broker 1 has not answered yet"
    view.apply(ReplicasMoved(BrokerId(1), {T0: ReplicaState.NON_EXISTENT}, ReplicaState.DELETION_SUCCESSFUL))
    assert describe_deletion(view, "t").deleted_replicas == 1
    view.apply(DeletionsIneligible(frozenset(["t"])))
    view.apply(BrokersDied(ids(1, 2)))
    held = describe_deletion(view, "t")
    assert held.state == "on hold"
    assert held.reason == "replicas offline on broker 2"


@pytest.mark.rule("RQ-3")
def test_broker_zero_is_a_broker_and_a_negative_one_is_passed_over() -> None:
    view = context([0, 1], {"t-0": [0, 1]}, {"t-0": leadership(0, [0, 1])})
    batch = ControlBatch(view)
    wanted = assignment([0, 1], [0], [1])
    batch.add_leader_and_isr(ids(-1, 0, 1), T0, view.leaderships.known[T0], wanted, is_new=False)
    batch.add_stop_replica(BrokerId(0), T0, delete=False)
    batch.add_stop_replica(BrokerId(-1), T0, delete=False)
    requests = batch.requests(ME, SETTINGS)
    orders = [(b, r) for b, r in requests if isinstance(r, LeaderAndIsrRequest)]
    assert [b for b, _ in orders] == [0, 1]
    state = orders[0][1].topic_states[0].partition_states[0]
    assert (state.adding_replicas, state.removing_replicas) == ((0,), (1,))
    (leader,) = orders[1][1].live_leaders
    assert (leader.broker_id, leader.host, leader.port) == (0, "host0", 9092)
    assert [b for b, r in requests if isinstance(r, StopReplicaRequest)] == [0]
    check_assignments({0: ids(0, 1)})
    assert not isinstance(plan_submission(view, T0, ids(1, 0)), RefusedMove)


@pytest.mark.rule("PS-11", "PS-12", "PS-20")
def test_a_partition_that_fails_does_not_keep_those_after_it_from_their_election() -> None:
    view = context([1, 2], {f"t-{n}": [1, 2] for n in range(4)})
    last = leadership(1, [1, 2])
    broken: dict[str, bool | ElectionFailure] = {"t": ElectionFailure("unreadable")}
    current: dict[TopicPartition, LeaderAndIsr | None] = {
        T0: None,
        tp("t-1"): leadership(1, [1], controller_epoch=EPOCH + 1),
        tp("t-2"): leadership(9, [9]),
        tp("t-3"): last,
    }
    plan = plan_elections(view, current, Offline(), broken, mark_recovering=True)
    assert [e.topic_partition for e in plan.elections] == [tp("t-3")]
    assert list(plan.failures) == [T0, tp("t-1"), tp("t-2")]
    # What cannot be read allows nothing, also where nobody in sync is assigned.
    stranger = {T0: leadership(3, [3])}
    view = context([1, 3], {"t-0": [1, 2]})
    assert plan_elections(view, stranger, Offline(), broken, mark_recovering=True).elections == ()


@pytest.mark.rule("PS-7")
def test_a_partition_without_live_replicas_says_so() -> None:
    plan = plan_initialisations(context([1], {"t-0": [9]}), [T0])
    assert plan.failures[T0].reason == "no assigned replica is live"


@pytest.mark.rule("IS-9a", "IS-9b", "IS-9e")
def test_every_answer_names_its_partition_and_one_refusal_does_not_end_the_request() -> None:
    view = context([1, 2], {"t-0": [1, 2]}, {"t-0": leadership(1, [1], recovery=RECOVERING, partition_epoch=3)})

    def item(topic_id: str | None, partition: int, isr: tuple[int, ...]) -> AlterPartitionItem:
        return AlterPartitionItem("t", topic_id, partition, 0, ids(*isr), 3, RECOVERING)  # type: ignore[arg-type]

    items = (item("nobody's", 5, (1,)), item("id-of-t", 7, (1,)), item("id-of-t", 0, (1,)), item(None, 0, (1, 2)))
    plan = plan_isr_changes(view, AlterPartitionRequest(BrokerId(1), view.brokers.epochs[BrokerId(1)], items))
    answers = [(r.topic_name, r.topic_id, r.partition_index, r.error_code) for r in plan.results if r is not None]
    assert answers == [
        ("t", "nobody's", 5, ErrorCode.UNKNOWN_TOPIC_ID),
        ("t", "id-of-t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", "id-of-t", 0, ErrorCode.NONE),
        ("t", None, 0, ErrorCode.INVALID_REQUEST),
    ]
    same = plan.results[2]
    assert same is not None
    assert (same.leader_id, same.isr, same.leader_recovery_state, same.partition_epoch) == (1, (1,), RECOVERING, 3)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ((), None),
        ((1, 1), "The list of replicas names a broker twice: 1, 1."),
        ((2, -1), "The list of replicas has a negative id: 2, -1."),
    ],
)
def test_a_refused_move_says_why(target: tuple[int, ...], message: str | None) -> None:
    view = context([1, 2], {"t-0": [1]}, {"t-0": leadership(1, [1])})
    refused = plan_submission(view, T0, ids(*target))
    assert isinstance(refused, RefusedMove)
    assert refused.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if message is not None:
        assert refused.message == message


NO_NAME = "invalid topic name 'a b': use 1 to 249 of a-z, A-Z, 0-9, '.', '_', '-'; '.' and '..' are reserved"
ONCE = "partition 0 needs at least one replica, each broker once: 1:1"


@pytest.mark.rule("TP-1")
@pytest.mark.parametrize(
    ("topic", "message", "field", "value"),
    [
        (NewTopic("a b"), NO_NAME, "name", "a b"),
        (NewTopic("taken"), "topic taken already exists", "name", "taken"),
        (NewTopic("a.b"), "topic a.b collides with a_b: '.' and '_' are the same in metric names", "name", "a.b"),
        (
            NewTopic("t", 1, assignments={0: ids(1)}),
            "an explicit assignment and counts exclude each other",
            "assignments",
            "0",
        ),
        (
            NewTopic("t", assignments={1: ids(1)}),
            "partitions must be numbered from 0 without gaps: 1",
            "assignments",
            "1",
        ),
        (NewTopic("t", assignments={0: ids(1, 1)}), ONCE, "assignments", "1:1"),
        (
            NewTopic("t", assignments={0: ids(1, 1), 1: ids(2), 2: ids()}),
            f"{ONCE}; partition 1 needs as many replicas as partition 0, 2: 2;"
            " partition 2 needs at least one replica, each broker once: ",
            "assignments",
            "1:1",
        ),
        (
            NewTopic("t", assignments={0: ids(1), 1: ids(1, 2)}),
            "partition 1 needs as many replicas as partition 0, 1: 1:2",
            "assignments",
            "1:2",
        ),
    ],
)
def test_a_refused_topic_gets_a_code_and_a_reason(topic: NewTopic, message: str, field: str, value: object) -> None:
    with pytest.raises(ApiError) as refused:
        plan_new_topic(
            topic,
            TakenNames(["a_b", "taken"]),
            [broker(1)],
            default_partitions=1,
            default_replication_factor=1,
            random=Random(1),
        )
    assert (refused.value.message, refused.value.field, refused.value.value) == (message, field, value)


@pytest.mark.rule("ZK-22")
def test_topic_ids_are_version_four() -> None:
    random = Random(7)
    for _ in range(100):
        drawn = uuid.UUID(bytes=base64.urlsafe_b64decode(new_topic_id(random) + "=="))
        assert (drawn.version, drawn.variant) == (4, uuid.RFC_4122)


def test_a_name_that_differs_in_more_than_its_dots_does_not_collide() -> None:
    check_topic_name("a.b", TakenNames(["a-b", "ab", "a_b_c"]))


@pytest.mark.rule("RM-9", "RM-10")
def test_what_this_controller_wrote_itself_may_be_written_again() -> None:
    view = context([2], {"t-0": [1, 2]})
    current: dict[TopicPartition, LeaderAndIsr | None] = {T0: leadership(2, [2, 1], controller_epoch=EPOCH)}
    assert plan_isr_removals(view, BrokerId(1), current, shrinks_to_last=False).writes[T0].isr == (2,)
    first_node = topic_znodes(view, {tp("new-0"): assignment([1])})
    assert first_node == {"new": TopicAssignment({0: assignment([1])})}
