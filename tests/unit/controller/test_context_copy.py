"""A copy of some topics answers as the original does, and changes of the copy do not affect the original."""

import copy as copies
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster.model.broker import BrokerEpoch, BrokerId, Offset
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
    DeletionsEligible,
    DeletionsIneligible,
    DeletionsQueued,
    DeletionsStarted,
    LeadershipsRead,
    LeftReplicasDeleted,
    LeftReplicasRecorded,
    OfflineReplicasReported,
    PartitionsMoved,
    ReassignmentsCompleted,
    ReassignmentsStarted,
    ReassignmentsWritten,
    ReplicasMoved,
    TopicsRemoved,
)
from controller.context.controller_context import ControllerContext
from controller.decisions.brokers.known_damage import AwaitedReport
from simulator.recount import recount
from tests.controllers.contexts import PARTS, assignment, context, facts, ids, leadership, registered, tp

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
    st.builds(lambda b: BrokersNotAdmitted({}, {b: AwaitedReport(BrokerEpoch(500), 7)}), brokers),
    st.builds(lambda p, r, n: ReassignmentsWritten({p: assignment(r, r[:n])}), partitions, replicas, st.integers(0, 2)),
    st.builds(lambda p: ReassignmentsStarted((p,)), partitions),
    st.builds(lambda p, r: ReassignmentsCompleted({p: assignment(r)}), partitions, replicas),
    st.builds(
        lambda p, leader, isr: LeadershipsRead({p: leadership(leader, isr)}), partitions, st.integers(-1, 4), replicas
    ),
    st.builds(lambda p, s: PartitionsMoved({p: s}), partitions, st.sampled_from(list(PartitionState))),
    st.builds(
        lambda b, p, s: ReplicasMoved(b, {p: ReplicaState.NON_EXISTENT}, s),
        brokers,
        partitions,
        st.sampled_from(ReplicaState),
    ),
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
            possible = broker in view.brokers.epochs
        case DamagedReplicasReplaced(broker) | DamagedReplicasHealed(broker):
            possible = broker in view.damage.reports
        case ReassignmentsWritten(found) | ReassignmentsCompleted(found):
            possible = all(p.topic in view.topics.names for p in found)
        case LeadershipsRead(known) | PartitionsMoved(known):
            possible = all(view.topics.assignment(p).replicas for p in known)
        case ReassignmentsStarted(started):
            possible = all(view.topics.assignment(p).replicas and p.topic not in view.deletions.queued for p in started)
        case ReplicasMoved(broker, derived):
            possible = all(broker in view.topics.assignment(p).replicas for p in derived)
        case BrokersGivenUp(absent):
            possible = all(b not in view.brokers.epochs for b in absent)
        case DeletionsQueued(queued):
            possible = all(t in view.topics.names and t not in view.deletions.queued for t in queued)
        case DeletionsEligible(queued):
            possible = all(t in view.deletions.queued for t in queued)
        case DeletionsStarted(started_topics):
            # Their partitions are made NonExistent first (TD-13).
            possible = all(
                t in view.deletions.queued
                and all(
                    view.leaderships.partition_state(p) is PartitionState.NON_EXISTENT
                    for p in view.topics.partitions_of(t)
                )
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
    concerned = [p for topic in of for p in view.topics.partitions_of(topic)]

    def some(found: Iterable[TopicPartition]) -> set[TopicPartition]:
        return {p for p in found if p.topic in of}

    asked: dict[str, Any] = {
        "epoch": (view.epoch, view.epoch_zk_version),
        "topics": set(view.topics.names),
        "topic_ids": {t: view.topics.ids.get(t) for t in of},
        "topic_names": {name: t for name, t in view.topics.names_by_id.items() if t in of},
        "brokers": view.brokers.registered,
        "broker_epochs": view.brokers.epochs,
        "live_broker_ids": view.brokers.live_ids,
        "live_or_shutting_down_ids": view.brokers.registered_ids,
        "shutting_down": view.brokers.shutting_down_since,
        "offline_directories": view.brokers.offline_directories,
        "damage_reports": view.damage.reports,
        "awaited_reports": view.damage.awaited_reports,
        "not_admitted": view.brokers.not_admitted,
        "brokers_given_up": view.deletions.brokers_given_up,
        "left_replicas": view.deletions.left_replicas,
        "has_left_replicas": {(b, t): view.deletions.has_left_replicas(b, t) for b in BROKERS for t in of},
        "controllers": view.brokers.controllers,
        "assignments": {t: view.topics.assignments.get(t) for t in of},
        "leaderships": {p: known for p, known in view.leaderships.known.items() if p.topic in of},
        "partitions_being_reassigned": some(view.topics.being_reassigned),
        "partitions_awaiting_leader": some(view.leaderships.partitions_awaiting_leader()),
        "partitions_with_leaders": some(view.leaderships.partitions_with_leaders()),
        "partitions_with_offline_leader": some(view.leaderships.partitions_with_offline_leader()),
        "partition_states": {p: view.leaderships.partition_state(p) for p in concerned},
        "partitions_of": {t: view.topics.partitions_of(t) for t in of},
        "on_brokers": {b: some(view.topics.partitions_on(b)) for b in BROKERS},
        "led": {b: some(view.leaderships.partition_leaders_on_broker(b)) for b in BROKERS},
        "led_by_others": {b: some(view.leaderships.preferred_leaders.led_by_others(b)) for b in BROKERS},
        "online": {
            p: (view.brokers.online_for(p), view.brokers.online_for(p, include_shutting_down=True)) for p in concerned
        },
        "epochs_for_stop": {p: view.leaderships.leader_epoch_for_stop(p) for p in concerned},
        "replica_states": {
            (b, p): view.replicas.state(b, p) for p in concerned for b in view.topics.assignment(p).replicas
        },
    }
    for question in ("queued", "ineligible", "started"):
        asked[question] = getattr(view.deletions, question).intersection(of)
    asked["replicas_by_state"] = {
        t: {state: count for state, count in view.replicas.by_state(t).items() if count} for t in asked["queued"]
    }
    return asked


def _counted(view: ControllerContext) -> tuple[int, int]:
    return view.leaderships.offline_partition_count, view.leaderships.preferred_replica_imbalance_count


@pytest.mark.rule("INV-10")
@given(st.lists(changes, max_size=30), st.sets(topics), st.lists(changes, max_size=10))
@example(
    [
        ReplicasMoved(ids(1)[0], {tp("a-0"): ReplicaState.NON_EXISTENT}, ReplicaState.NON_EXISTENT),
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
    copy = original.copy([*of, "unknown"])
    assert _answers(copy, of) == _answers(original, of)
    assert recount(copy) == _counted(copy)
    assert set(copy.topics.assignments) == original.topics.assignments.keys() & copied
    if copied == set(TOPICS):
        assert recount(copy) == recount(original)
        assert copy.leaderships.preferred_leaders == original.leaderships.preferred_leaders
    untouched = copies.deepcopy(facts(original))
    _carry_out(copy, after)
    assert facts(original) == untouched
    assert recount(copy) == _counted(copy)
    # What follows is the same on both, too.
    assert _answers(_carry_out(original.copy(TOPICS), after), TOPICS) == _answers(_carry_out(original, after), TOPICS)


def test_no_fact_of_the_original_is_left_out_by_error() -> None:
    """A new field of the image must be copied, or be derived from what is."""
    parts = {
        "": {"epoch", "epoch_zk_version"},
        "brokers": {
            *("registered", "epochs", "shutting_down", "shutting_down_since", "offline_directories", "not_admitted"),
            *("registered_controllers", "former_controllers", "_began_at", "_left_at", "live_ids", "registered_ids"),
        },
        "topics": {
            *("names", "ids", "names_by_id", "assignments", "being_reassigned", "reassigned_since", "_hosted_by"),
            "_partitions",
        },
        "leaderships": {
            *("known", "partition_states", "offline_partition_count", "preferred_replica_imbalance_count"),
            *("preferred_leaders", "_led_by", "_awaiting_leader"),
        },
        "replicas": {"states", "_deleting"},
        "deletions": {
            *("queued", "queued_since", "started", "ineligible", "brokers_given_up", "left_replicas"),
            "brokers_with_left_replicas",
        },
        "damage": {"reports", "awaited_reports"},
    }
    view = _cluster()
    assert set(vars(view)) == {*parts[""], "_now", *PARTS}
    assert {part: set(of) for part, of in facts(view).items()} == parts


def test_a_replica_in_sync_that_is_not_assigned_is_copied_with_its_state() -> None:
    original = _cluster()
    original.apply(LeadershipsRead({tp("b-0"): leadership(1, [1, 3])}))
    original.apply(ReplicasMoved(BrokerId(3), {tp("b-0"): ReplicaState.NON_EXISTENT}, ReplicaState.OFFLINE))
    assert original.copy(["b"]).replicas.state(BrokerId(3), tp("b-0")) is ReplicaState.OFFLINE
