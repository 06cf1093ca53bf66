"""The context's derived values, indexes and counters; the counters against a recount after every step."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.broker import BrokerEpoch, BrokerId, RegisteredBroker, TopicId
from cluster.model.partition import ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from controller.changes import (
    BrokerModified,
    BrokersDied,
    BrokerShuttingDown,
    BrokersJoined,
    DeletionsIneligible,
    DeletionsQueued,
    DeletionsStarted,
    LeadersElected,
    LeadershipsRead,
    LeadershipsWritten,
    OfflineReplicasReported,
    PartitionsMoved,
    ReassignmentsCompleted,
    ReassignmentsStarted,
    ReassignmentsWritten,
    ReplicasMoved,
    TopicIdRead,
    TopicsRemoved,
)
from controller.context.controller_context import ControllerContext
from controller.context.leaderships import PreferredLeaders, is_imbalanced
from controller.context.topics import TopicIdConflictError
from simulator.recount import recount
from tests.controllers.contexts import assignment, broker, context, ids, leadership, registered, tp
from tests.examples import examples


@pytest.mark.rule("CX-1", "CX-2")
def test_online_means_live_and_on_a_healthy_disk() -> None:
    cluster = context([1, 2, 3], {"t-0": [1, 2, 3]})
    cluster.apply(BrokerShuttingDown(BrokerId(2), BrokerEpoch(102)))
    cluster.brokers.offline_directories[BrokerId(3)] = {tp("t-0")}
    assert cluster.brokers.live_ids == {1, 3}
    assert cluster.brokers.registered_ids == {1, 2, 3}
    assert cluster.brokers.online_for(tp("t-0")) == {1}
    assert cluster.brokers.online_for(tp("t-0"), include_shutting_down=True) == {1, 2}
    assert cluster.brokers.online_for(tp("t-1")) == {1, 3}
    cluster.apply(BrokersJoined((registered(3, 500),)))
    assert cluster.brokers.online_for(tp("t-0")) == {1, 3}


@pytest.mark.rule("CX-3", "CX-8")
def test_replicas_of_a_reassignment_count_as_hosted() -> None:
    cluster = context([1], {"t-0": [1, 2]})
    cluster.apply(ReassignmentsWritten({tp("t-0"): assignment([3, 1, 2], adding=[3], removing=[1])}))
    assert [cluster.topics.partitions_on(BrokerId(b)) for b in (1, 2, 3, 4)] == [[tp("t-0")]] * 3 + [[]]
    assert cluster.topics.hosting_brokers() == [1, 2, 3]
    cluster.apply(ReassignmentsWritten({tp("t-0"): assignment([3])}))
    assert cluster.topics.hosting_brokers() == [3]
    assert cluster.topics.assignment(tp("unknown-0")).replicas == ()
    assert cluster.topics.partitions_of("unknown") == []


@pytest.mark.rule("CX-4", "CX-5", "CX-6", "CX-7")
def test_questions_about_leaders_leave_out_topics_queued_for_deletion() -> None:
    cluster = context(
        [1, 2],
        {"t-0": [1, 2], "t-1": [9, 2], "t-2": [1], "t-3": [2, 1], "gone-0": [9, 1]},
        {
            "t-0": leadership(1, [1], leader_epoch=3),
            "t-1": leadership(9, [9]),
            "t-2": leadership(1, [1]),
            "t-3": leadership(-1, [2]),
            "gone-0": leadership(9, [9], leader_epoch=4),
        },
    )
    assert cluster.leaderships.leader_epoch_for_stop(tp("gone-0")) == 4
    cluster.apply(DeletionsQueued(("gone",)))
    assert cluster.leaderships.partitions_with_leaders() == [tp(f"t-{p}") for p in range(4)]
    assert set(cluster.leaderships.partitions_with_offline_leader()) == {tp("t-1"), tp("t-3")}
    assert cluster.leaderships.partition_leaders_on_broker(BrokerId(1)) == [tp("t-0")]
    assert [cluster.leaderships.leader_epoch_for_stop(tp(p)) for p in ("t-0", "gone-0", "t-9")] == [3, -2, -1]
    cluster.brokers.offline_directories[BrokerId(1)] = {tp("t-0")}
    assert set(cluster.leaderships.partitions_with_offline_leader()) == {tp("t-0"), tp("t-1"), tp("t-3")}


@pytest.mark.rule("CX-9", "TI-4")
@pytest.mark.parametrize(("topic", "topic_id"), [("absent", "x"), ("a", "x"), ("b", "id-of-a")])
def test_topic_ids_may_not_contradict_each_other(topic: str, topic_id: str) -> None:
    cluster = context([1], {"a-0": [1], "b-0": [1]})
    cluster.apply(TopicIdRead("a", TopicId("id-of-a")))
    with pytest.raises(TopicIdConflictError):
        cluster.apply(TopicIdRead(topic, TopicId(topic_id)))


@pytest.mark.rule("CX-10", "D-8")
def test_a_removed_topic_leaves_nothing_behind() -> None:
    cluster = context([1], {"t-0": [1], "t-1": [1]}, {"t-0": leadership(1, [1])})
    cluster.apply(PartitionsMoved({tp("t-0"): PartitionState.NEW}))
    cluster.apply(PartitionsMoved({tp("t-0"): PartitionState.OFFLINE}))
    cluster.apply(ReplicasMoved(BrokerId(1), {tp("t-0"): ReplicaState.NON_EXISTENT}, ReplicaState.ONLINE))
    cluster.apply(ReassignmentsStarted((tp("t-0"),)))
    cluster.apply(DeletionsQueued(("t",)))
    cluster.apply(DeletionsIneligible(frozenset({"t"})))
    cluster.apply(TopicsRemoved(("t",), deleted=True))
    assert not cluster.topics.names
    assert not cluster.topics.ids
    assert not cluster.topics.names_by_id
    assert not cluster.topics.assignments
    assert not cluster.leaderships.known
    assert not cluster.deletions.queued
    assert cluster.topics.partitions_on(BrokerId(1)) == []
    assert not cluster.topics.being_reassigned
    assert not cluster.deletions.ineligible
    assert cluster.leaderships.partition_state(tp("t-0")) is PartitionState.NON_EXISTENT
    assert cluster.replicas.state(BrokerId(1), tp("t-0")) is ReplicaState.NON_EXISTENT
    assert (
        recount(cluster)
        == (cluster.leaderships.offline_partition_count, cluster.leaderships.preferred_replica_imbalance_count)
        == (0, 0)
    )


def test_a_deleted_replica_is_forgotten_and_stays_assigned_until_the_topic_znode_says_otherwise() -> None:
    cluster = context([1, 2], {"t-0": [1, 2]})
    successful, gone = ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT
    cluster.apply(ReplicasMoved(BrokerId(2), {tp("t-0"): ReplicaState.NON_EXISTENT}, successful))
    cluster.apply(OfflineReplicasReported(BrokerId(2), frozenset([tp("t-0")])))
    cluster.apply(ReplicasMoved(BrokerId(2), {tp("t-0"): successful}, gone))
    assert cluster.topics.assignment(tp("t-0")).replicas == (1, 2)
    assert cluster.replicas.state(BrokerId(2), tp("t-0")) is gone
    assert cluster.brokers.offline_directories == {}
    cluster.apply(ReassignmentsCompleted({tp("t-0"): assignment([1])}))
    assert cluster.topics.partitions_on(BrokerId(2)) == []


def test_brokers_come_change_and_go() -> None:
    cluster = context([1, 2])
    cluster.apply(BrokerModified(RegisteredBroker(broker(1, "rack-a"), BrokerEpoch(101))))
    assert cluster.brokers.registered[BrokerId(1)].rack == "rack-a"
    cluster.apply(BrokersJoined((registered(2, 500),)))
    assert cluster.brokers.epochs[BrokerId(2)] == 500
    cluster.apply(BrokersDied(ids(1, 9)))
    assert cluster.brokers.live_ids == {2}
    with pytest.raises(AssertionError, match="not registered"):
        cluster.apply(BrokerModified(registered(1)))


@pytest.mark.rule("CX-14")
@pytest.mark.parametrize(
    ("start", "target", "expected"),
    [
        (([1, 2, 3], [], []), [4, 5, 6], ([4, 5, 6, 1, 2, 3], [4, 5, 6], [1, 2, 3])),
        (([4, 5, 6, 1, 2, 3], [4, 5, 6], [1, 2, 3]), [7, 8, 9], ([7, 8, 9, 1, 2, 3], [7, 8, 9], [1, 2, 3])),
        (([4, 5, 6, 1, 2, 3], [4, 5, 6], [1, 2, 3]), [1, 2, 3], ([1, 2, 3], [], [])),
        (([1, 2, 3, 4], [], []), [4, 2, 5, 3], ([4, 2, 5, 3, 1], [5], [1])),
        (([1, 2, 3], [], []), [3, 1, 2], ([3, 1, 2], [], [])),
        (([1, 2, 3], [], []), [3, 4, 2], ([3, 4, 2, 1], [4], [1])),
    ],
)
def test_a_reassignment_starts_from_the_original_replicas(start: Any, target: list[int], expected: Any) -> None:
    assert assignment(*start).reassign_to(ids(*target)) == assignment(*expected)


@pytest.mark.rule("CX-14")
def test_a_cancelled_reassignment_does_not_recover_the_original_order() -> None:
    waiting = assignment([1, 2, 3]).reassign_to(ids(3, 4, 2))
    assert waiting.original == (3, 2, 1)
    assert waiting.reassign_to(waiting.original) == assignment([3, 2, 1])


@pytest.mark.rule("CX-21")
@pytest.mark.parametrize(
    ("of", "leader", "isr", "expected"),
    [
        (assignment([1, 2]), 1, [1], False),
        (assignment([1, 2]), 2, [1, 2], True),
        (assignment([1, 2]), -1, [1], True),
        (assignment([3, 1], adding=[3]), 1, [1], False),
        (assignment([3, 1], adding=[3]), 1, [1, 3], True),
        (assignment([1, 3], adding=[3]), 3, [1, 3], True),
        (ReplicaAssignment(()), 1, [1], False),
    ],
)
def test_imbalance_counts_a_preferred_replica_from_the_moment_it_could_lead(
    of: ReplicaAssignment, leader: int, isr: list[int], expected: bool
) -> None:
    assert is_imbalanced(of, leadership(leader, isr)) is expected


@pytest.mark.rule("CX-20")
def test_partitions_of_a_topic_whose_deletion_started_are_not_counted_as_offline() -> None:
    cluster = context([1], {"t-0": [1], "u-0": [1]})
    cluster.deletions.started.add("u")
    for name in ("t-0", "u-0"):
        cluster.apply(PartitionsMoved({tp(name): PartitionState.OFFLINE}))
        cluster.apply(PartitionsMoved({tp(name): PartitionState.OFFLINE}))
    assert cluster.leaderships.offline_partition_count == 1
    cluster.apply(PartitionsMoved({tp("t-0"): PartitionState.ONLINE}))
    assert cluster.leaderships.offline_partition_count == 0


@pytest.mark.rule("D-97", "CX-20")
def test_a_partition_without_a_leader_is_offline_whatever_its_state_says() -> None:
    cluster = context([1], {"t-0": [1], "u-0": [1]}, {"t-0": leadership(1, [1]), "u-0": leadership(1, [1])})
    for name in ("t-0", "u-0"):
        cluster.apply(PartitionsMoved({tp(name): PartitionState.ONLINE}))
        cluster.apply(LeadershipsWritten({tp(name): leadership(-1, [1])}, "replica removed"))
    assert cluster.leaderships.offline_partition_count == 2
    assert cluster.leaderships.partitions_awaiting_leader() == [tp("t-0"), tp("u-0")]
    cluster.apply(PartitionsMoved({tp("t-0"): PartitionState.OFFLINE}))
    assert cluster.leaderships.offline_partition_count == 2
    cluster.apply(LeadersElected({tp("t-0"): leadership(1, [1])}, "Offline"))
    assert cluster.leaderships.offline_partition_count == 1
    cluster.apply(DeletionsStarted(("u", "u")))
    assert cluster.leaderships.offline_partition_count == 0
    cluster.apply(TopicsRemoved(("u",), deleted=True))
    assert (cluster.leaderships.offline_partition_count, cluster.leaderships.partitions_awaiting_leader()) == (0, [])
    assert recount(cluster)[0] == 0


names = st.sampled_from(["a-0", "a-1", "b-0"])
replica_lists = st.lists(st.integers(1, 4), unique=True, min_size=1, max_size=3)
steps = st.one_of(
    st.tuples(st.just("assign"), names, replica_lists),
    st.tuples(st.just("lead"), names, st.integers(-1, 4)),
    st.tuples(st.just("state"), names, st.sampled_from(list(PartitionState))),
    st.tuples(st.just("queue"), st.sampled_from(["a", "b"]), st.none()),
    st.tuples(st.just("delete"), st.sampled_from(["a", "b"]), st.none()),
    st.tuples(st.just("remove"), st.sampled_from(["a", "b"]), st.none()),
)


def take(cluster: ControllerContext, step: tuple[str, str, Any]) -> None:
    kind, name, value = step
    match kind:
        case "assign":
            cluster.topics.names.add(name[0])
            cluster.apply(ReassignmentsWritten({tp(name): assignment(value)}))
        case "lead":
            if cluster.topics.assignment(tp(name)).replicas:
                cluster.apply(LeadershipsRead({tp(name): leadership(value, [1])}))
        case "state":
            cluster.apply(PartitionsMoved({tp(name): value}))
        case "queue":
            if name in cluster.topics.names:
                cluster.apply(DeletionsQueued((name,)))
        case "delete":
            of_topic = {p for p in cluster.leaderships.partition_states if p.topic == name}
            if name in cluster.deletions.queued and of_topic <= set(cluster.topics.partitions_of(name)):
                cluster.apply(DeletionsStarted((name,)))
        case "remove":
            cluster.apply(TopicsRemoved((name,), deleted=True))


def count_preferred_leaders(cluster: ControllerContext) -> PreferredLeaders:
    """The index made from scratch, of all topics that are not queued for deletion."""
    counted = PreferredLeaders()
    for topic in cluster.topics.assignments.keys() - cluster.deletions.queued:
        for partition in cluster.topics.partitions_of(topic):
            replicas, leadership = (
                cluster.topics.assignment(partition).replicas,
                cluster.leaderships.known.get(partition),
            )
            if replicas:
                counted.count(replicas[0], +1)
                if leadership is not None and leadership.leader != replicas[0]:
                    counted.mark(replicas[0], partition, +1)
    return counted


@pytest.mark.rule("CX-20", "CX-22", "INV-10", "D-97")
@examples(80, deep=200)
@given(st.lists(steps, max_size=30))
def test_counters_and_indexes_equal_a_recount_after_every_step(taken: list[tuple[str, str, Any]]) -> None:
    cluster = context([1, 2])
    for step in taken:
        take(cluster, step)
        assert recount(cluster) == (
            cluster.leaderships.offline_partition_count,
            cluster.leaderships.preferred_replica_imbalance_count,
        )
        assert cluster.leaderships.preferred_leaders == count_preferred_leaders(cluster)
        for number in range(1, 5):
            hosted = {
                tp(f"{topic}-{partition}")
                for topic, of_topic in cluster.topics.assignments.items()
                for partition, found in of_topic.items()
                if number in found.replicas
            }
            assert set(cluster.topics.partitions_on(BrokerId(number))) == hosted
        for topic, of_topic in cluster.topics.assignments.items():
            assert cluster.topics.partitions_of(topic) == [TopicPartition(topic, number) for number in of_topic]
        assert len(cluster.topics.all_partitions()) == sum(map(len, cluster.topics.assignments.values()))
        offline = {
            p
            for p, found in cluster.leaderships.known.items()
            if found.leader not in cluster.brokers.live_ids and p.topic not in cluster.deletions.queued
        }
        assert set(cluster.leaderships.partitions_with_offline_leader()) == offline
        waiting = {
            p
            for p, state in cluster.leaderships.partition_states.items()
            if p.topic not in cluster.deletions.queued
            and (
                state in {PartitionState.NEW, PartitionState.OFFLINE}
                or (
                    state is PartitionState.ONLINE
                    and p in cluster.leaderships.known
                    and cluster.leaderships.known[p].leader == -1
                )
            )
        }
        assert set(cluster.leaderships.partitions_awaiting_leader()) == waiting
