"""A copy of some topics answers as the original does, and changes of the copy do not affect the original."""

import copy as copies
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster.model.broker import BrokerEpoch, BrokerId, Offset, ZkVersion
from cluster.model.partition import TopicPartition
from cluster.model.state_machines import PartitionState, ReplicaState
from cluster.requests.agents import RECOVERY, ReportedDamage
from cluster.znodes.left_replicas import LeftReplicas
from controller.changes import (
    BrokersDied,
    BrokersGivenUp,
    BrokerShuttingDown,
    BrokersJoined,
    BrokersNotAdmitted,
    Change,
    DamagedReplicasHealed,
    DamagedReplicasReleased,
    DamagedReplicasReplaced,
    DamagedReplicasReported,
    DamageReportsAwaited,
    DeletionsEligible,
    DeletionsIneligible,
    DeletionsQueued,
    DeletionsStarted,
    LeadershipsRead,
    LeftReplicasDeleted,
    LeftReplicasRecorded,
    OfflineReplicasReported,
    PartitionStatesDerived,
    ReassignmentsCompleted,
    ReassignmentsStarted,
    ReassignmentsWritten,
    ReplicaStatesDerived,
    TopicsRemoved,
)
from controller.context import ControllerContext
from controller.context_copy import copy_of
from controller.decisions.brokers.known_damage import AwaitedReport
from controller.partition_image import PartitionImage
from simulator.recount import recount
from tests.controllers.contexts import EPOCH, assignment, context, ids, leadership, registered, tp

BROKERS = ids(1, 2, 3, 4)
PARTITIONS = [tp(name) for name in ("a-0", "a-1", "b-0", "c-0")]
TOPICS = ["a", "b", "c"]


def _damage(found: TopicPartition) -> ReportedDamage:
    return ReportedDamage(found.topic, None, found.partition, Offset(1), Offset(2), 0, RECOVERY)


partitions = st.sampled_from(PARTITIONS)
topics = st.sampled_from(TOPICS)
replicas = st.lists(st.sampled_from(BROKERS), unique=True, min_size=1, max_size=4)
brokers = st.sampled_from(BROKERS)
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(lambda b: BrokersJoined((registered(b, 500),)), brokers),
    st.builds(lambda b: BrokersDied((b,)), brokers),
    st.builds(lambda b: BrokerShuttingDown(b, BrokerEpoch(500)), brokers),
    st.builds(lambda b, tps: OfflineReplicasReported(b, frozenset(tps)), brokers, st.lists(partitions)),
    st.builds(lambda b, p: DamagedReplicasReported(b, BrokerEpoch(500), {p: _damage(p)}), brokers, partitions),
    st.builds(lambda b, p: DamagedReplicasReleased(b, (p,)), brokers, partitions),
    st.builds(lambda b, p: DamagedReplicasReplaced(b, (p,)), brokers, partitions),
    st.builds(lambda b, p: DamagedReplicasHealed(b, (p,)), brokers, partitions),
    st.builds(lambda b: BrokersNotAdmitted({b: "has no listener"}), brokers),
    st.builds(lambda b: DamageReportsAwaited({b: AwaitedReport(BrokerEpoch(500), 7)}), brokers),
    st.builds(lambda p, r, n: ReassignmentsWritten({p: assignment(r, r[:n])}), partitions, replicas, st.integers(0, 2)),
    st.builds(lambda p: ReassignmentsStarted((p,)), partitions),
    st.builds(lambda p, r: ReassignmentsCompleted({p: assignment(r)}), partitions, replicas),
    st.builds(
        lambda p, leader, isr: LeadershipsRead({p: leadership(leader, isr)}), partitions, st.integers(-1, 4), replicas
    ),
    st.builds(lambda p, s: PartitionStatesDerived({p: s}), partitions, st.sampled_from(list(PartitionState))),
    st.builds(lambda b, p, s: ReplicaStatesDerived(b, (p,), s), brokers, partitions, st.sampled_from(ReplicaState)),
    st.builds(lambda t: DeletionsQueued((t,)), topics),
    st.builds(lambda b: BrokersGivenUp((b,)), brokers),
    st.builds(lambda b, t: LeftReplicasRecorded({b: {t: LeftReplicas(None, (0, 1))}}), brokers, topics),
    st.builds(lambda b, t: LeftReplicasDeleted(b, (t,)), brokers, topics),
    st.builds(lambda t: DeletionsIneligible(frozenset([t])), topics),
    st.builds(lambda t: DeletionsEligible((t,)), topics),
    st.builds(lambda t: DeletionsStarted((t,)), topics),
    st.builds(lambda t: TopicsRemoved((t,), deleted=True), topics),
)


def _possible(view: ControllerContext, change: Change) -> bool:
    """Whether handlers could come to make the change now."""
    match change:
        case BrokerShuttingDown(broker) | OfflineReplicasReported(broker):
            possible = broker in view.broker_epochs
        case DamagedReplicasReplaced(broker) | DamagedReplicasHealed(broker):
            possible = broker in view.damage_reports
        case ReassignmentsWritten(found) | ReassignmentsCompleted(found):
            possible = all(p.topic in view.topics for p in found)
        case LeadershipsRead(known) | PartitionStatesDerived(known):
            possible = all(view.assignment(p).replicas for p in known)
        case ReassignmentsStarted(started):
            possible = all(view.assignment(p).replicas and p.topic not in view.topics_to_be_deleted for p in started)
        case ReplicaStatesDerived(broker, derived):
            possible = all(broker in view.assignment(p).replicas for p in derived)
        case BrokersGivenUp(absent):
            possible = all(b not in view.broker_epochs for b in absent)
        case DeletionsQueued(queued):
            possible = all(t in view.topics and t not in view.topics_to_be_deleted for t in queued)
        case DeletionsEligible(queued):
            possible = all(t in view.topics_to_be_deleted for t in queued)
        case DeletionsStarted(started_topics):
            # Their partitions are made NonExistent first (TD-13).
            possible = all(
                t in view.topics_to_be_deleted
                and all(view.partition_state(p) is PartitionState.NON_EXISTENT for p in view.partitions_of(t))
                for t in started_topics
            )
        case _:
            possible = True
    return possible


def _carry_out(view: ControllerContext, made: Iterable[Change]) -> ControllerContext:
    for change in made:
        if _possible(view, change):
            view.apply(change)
    return view


def _cluster() -> ControllerContext:
    return context([1, 2, 3], {"a-0": [1, 2], "a-1": [2, 3], "b-0": [1], "c-0": [3, 1]})


def _answers(view: ControllerContext, of: list[str]) -> dict[str, Any]:
    """Every question of ClusterView, and what handlers ask beside it, about these topics."""
    concerned = [p for topic in of for p in view.partitions_of(topic)]

    def some(found: Iterable[TopicPartition]) -> set[TopicPartition]:
        return {p for p in found if p.topic in of}

    asked: dict[str, Any] = {
        "epoch": (view.epoch, view.epoch_zk_version),
        "topics": set(view.topics),
        "topic_ids": {t: view.topic_ids.get(t) for t in of},
        "topic_names": {name: t for name, t in view.topic_names.items() if t in of},
        "brokers": view.brokers,
        "broker_epochs": view.broker_epochs,
        "live_broker_ids": view.live_broker_ids,
        "live_or_shutting_down_ids": view.live_or_shutting_down_ids,
        "shutting_down": view.shutting_down_since,
        "offline_directories": view.offline_directories,
        "damage_reports": view.damage_reports,
        "awaited_reports": view.awaited_reports,
        "not_admitted": view.not_admitted,
        "brokers_given_up": view.brokers_given_up,
        "left_replicas": view.left_replicas,
        "has_left_replicas": {(b, t): view.has_left_replicas(b, t) for b in BROKERS for t in of},
        "controllers": view.controllers,
        "assignments": {t: view.assignments.get(t) for t in of},
        "leaderships": {p: known for p, known in view.leaderships.items() if p.topic in of},
        "partitions_being_reassigned": some(view.partitions_being_reassigned),
        "partitions_awaiting_leader": some(view.partitions_awaiting_leader()),
        "partitions_with_leaders": some(view.partitions_with_leaders()),
        "partitions_with_offline_leader": some(view.partitions_with_offline_leader()),
        "partition_states": {p: view.partition_state(p) for p in concerned},
        "partitions_of": {t: view.partitions_of(t) for t in of},
        "on_brokers": {b: some(view.partitions_on_broker(b)) for b in BROKERS},
        "led": {b: some(view.partition_leaders_on_broker(b)) for b in BROKERS},
        "led_by_others": {b: some(view.preferred_leaders.led_by_others(b)) for b in BROKERS},
        "online": {p: (view.online_brokers(p), view.online_brokers(p, include_shutting_down=True)) for p in concerned},
        "epochs_for_stop": {p: view.leader_epoch_for_stop(p) for p in concerned},
        "replica_states": {(b, p): view.replica_state(b, p) for p in concerned for b in view.assignment(p).replicas},
    }
    for question in (
        "topics_to_be_deleted",
        "topics_ineligible_for_deletion",
        "topics_with_deletion_started",
    ):
        asked[question] = getattr(view, question).intersection(of)
    asked["replicas_by_state"] = {
        t: {state: count for state, count in view.replicas_by_state(t).items() if count}
        for t in asked["topics_to_be_deleted"]
    }
    return asked


@pytest.mark.rule("INV-10")
@given(st.lists(changes, max_size=30), st.sets(topics), st.lists(changes, max_size=10))
@example(
    [
        ReplicaStatesDerived(ids(1)[0], (tp("a-0"),), ReplicaState.NON_EXISTENT),
        OfflineReplicasReported(ids(1)[0], frozenset([tp("a-0")])),
    ],
    set(),
    [TopicsRemoved(("a",), deleted=True)],
)
def test_a_copy_answers_as_the_original_and_is_independent_of_it(
    before: list[Change], copied: set[str], after: list[Change]
) -> None:
    original = _carry_out(_cluster(), before)
    of = sorted(copied)
    copy = copy_of(original, [*of, "unknown"])
    assert _answers(copy, of) == _answers(original, of)
    assert recount(copy) == (copy.offline_partition_count, copy.preferred_replica_imbalance_count)
    assert set(copy.assignments) == original.assignments.keys() & copied
    if copied == set(TOPICS):
        assert recount(copy) == recount(original)
        assert copy.preferred_leaders == original.preferred_leaders
    untouched = copies.deepcopy(vars(original))
    _carry_out(copy, after)
    assert vars(original) == untouched
    assert recount(copy) == (copy.offline_partition_count, copy.preferred_replica_imbalance_count)
    # What follows is the same on both, too.
    assert _answers(_carry_out(copy_of(original, TOPICS), after), TOPICS) == _answers(
        _carry_out(original, after), TOPICS
    )


def test_no_fact_of_the_original_is_left_out_by_error() -> None:
    """A new field of the image must be copied, or be derived from what is."""
    assert set(vars(PartitionImage(EPOCH, ZkVersion(3)))) == {
        *(
            "brokers",
            "broker_epochs",
            "shutting_down",
            "shutting_down_since",
            "offline_directories",
            "damage_reports",
            "awaited_reports",
            "not_admitted",
            "brokers_given_up",
            "left_replicas",
            "_with_left_replicas",
            "registered_controllers",
            "former_controllers",
            "_live",
            "_registered",
        ),
        *("epoch", "epoch_zk_version", "topics", "topic_ids", "topic_names", "assignments", "leaderships"),
        *("partitions_being_reassigned", "partition_states", "replica_states"),
        *("topics_to_be_deleted", "topics_with_deletion_started"),
        *("topics_ineligible_for_deletion", "offline_partition_count", "preferred_replica_imbalance_count"),
        *("preferred_leaders", "_led_by", "_hosted_by", "_awaiting_leader", "_deleting"),
    }


def test_a_replica_in_sync_that_is_not_assigned_is_copied_with_its_state() -> None:
    original = _cluster()
    original.apply(LeadershipsRead({tp("b-0"): leadership(1, [1, 3])}))
    original.apply(ReplicaStatesDerived(BrokerId(3), (tp("b-0"),), ReplicaState.OFFLINE))
    assert copy_of(original, ["b"]).replica_state(BrokerId(3), tp("b-0")) is ReplicaState.OFFLINE
