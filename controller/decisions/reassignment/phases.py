"""Partition reassignment: validation, the first write, and the condition for completion.

An ongoing reassignment is stored only in the topic znode, as the lists replicas, adding and removing. Original and
target replicas follow from them, so any controller can resume it. Source: Kafka
KafkaController.onPartitionReassignment; KIP-455.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from controller.decisions.context_view import ContextView
from controller.decisions.partitions.leader_election import (
    NEWER_CONTROLLER,
    NO_LEADER_EPOCH_LEFT,
    NO_STATE_ZNODE,
    ElectionFailure,
    has_epoch_left,
    next_leadership,
)

Assignments = Mapping[TopicPartition, ReplicaAssignment]


class RefusedMove(NamedTuple):
    """Why a partition is not reassigned, as returned to the caller."""

    code: ErrorCode
    message: str


UNKNOWN_PARTITION = RefusedMove(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
BEING_DELETED = RefusedMove(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic is being deleted.")
NOTHING_TO_CANCEL = RefusedMove(
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No reassignment of the partition is in progress."
)
NOBODY_IN_SYNC = ElectionFailure("nobody is in sync, which only a state node written by hand says")
NO_REPLICAS = RefusedMove(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The list of replicas is empty.")


# Validation


def plan_submission(
    view: ContextView, tp: TopicPartition, target: Sequence[BrokerId] | None
) -> ReplicaAssignment | RefusedMove:
    """The assignment that an API request results in; a target of None cancels the reassignment.

    Only brokers that would be added must be live (RA-1).
    """
    current = view.topics.assignment(tp)
    if target is None:
        return current.reassign_to(current.original) if current.is_being_reassigned else NOTHING_TO_CANCEL
    if not target:
        return NO_REPLICAS
    if len(set(target)) != len(target):
        return RefusedMove(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The list of replicas names a broker twice: {_ids(target)}."
        )
    if min(target) < 0:
        return RefusedMove(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The list of replicas has a negative id: {_ids(target)}."
        )
    wanted = current.reassign_to(target)
    dead = [b for b in wanted.adding if b not in view.brokers.live_ids]
    if dead:
        return RefusedMove(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Brokers to be added are not alive: {_ids(dead)}.")
    return wanted


def plan_znode_submission(
    view: ContextView, tp: TopicPartition, target: Sequence[BrokerId]
) -> ReplicaAssignment | RefusedMove:
    """The same for an entry of `/admin/reassign_partitions`: dead and unknown brokers are allowed, controllers are not
    (RA-30, D-4, TO-11).
    """
    if not target:
        return NO_REPLICAS
    wanted = view.topics.assignment(tp).reassign_to(target)
    controllers = [b for b in wanted.adding if b in view.brokers.controllers]
    if controllers:
        return RefusedMove(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Controllers host no replicas: {_ids(controllers)}.")
    return wanted


def refuse_trigger(view: ContextView, tp: TopicPartition, wanted: ReplicaAssignment) -> RefusedMove | None:
    """Say why the partition cannot be reassigned, whatever the source of the request (RA-3).

    A cancellation or replacement deletes at once the replicas that were being added. If only such replicas are in sync,
    that would delete the only good copy; it is refused, as in Kafka's later controller (PartitionReassignmentRevert).
    So is one that would leave the partition without a leader (D-96).
    """
    if tp.topic in view.deletions.queued:
        return BEING_DELETED
    if not view.topics.assignment(tp).replicas:
        return UNKNOWN_PARTITION
    leadership = view.leaderships.known.get(tp)
    if leadership is None:
        return None
    message = ""
    if set(leadership.isr).isdisjoint(wanted.replicas):
        message = f"Nobody is in sync but replicas that this would remove: {_ids(leadership.isr)}."
    elif _would_stop_leader(view, tp, wanted) and not _can_follow_leader(view, tp, wanted):
        staying = [b for b in leadership.isr if b in wanted.replicas]
        message = (
            f"This would remove the leader, {leadership.leader}, and of the replicas in sync that stay none can lead"
        )
        message += f" now: {_ids(staying)}. Start them, or wait until another one is in sync."
    return RefusedMove(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message) if message else None


def _would_stop_leader(view: ContextView, tp: TopicPartition, wanted: ReplicaAssignment) -> bool:
    """Whether the leader serves clients, and is a replica that the move removes before it can be complete."""
    leader = view.leaderships.known[tp].leader
    removed = leader in view.topics.assignment(tp).replicas and leader not in wanted.replicas
    return removed and leader in view.brokers.online_for(tp, include_shutting_down=True)


def _can_follow_leader(view: ContextView, tp: TopicPartition, wanted: ReplicaAssignment) -> bool:
    in_sync = view.leaderships.known[tp].isr
    electable = view.damage.electable_brokers(tp)
    return any(b in in_sync and b in electable for b in wanted.replicas)


def remaining_entries(
    entries: Mapping[TopicPartition, tuple[BrokerId, ...]],
    is_dropped: Callable[[TopicPartition, tuple[BrokerId, ...]], bool],
) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Entries of `/admin/reassign_partitions` that remain (RA-40)."""
    return {tp: target for tp, target in entries.items() if not is_dropped(tp, target)}


def is_entry_for(target: Sequence[BrokerId], assignment: ReplicaAssignment) -> bool:
    """Whether an entry requested exactly the list that was reached (RA-22).

    An entry with a duplicate broker never matches; as in Kafka, it stays until somebody removes it.
    """
    return tuple(target) == assignment.replicas


# The first write


def led_by_unneeded(view: ContextView, wanted: Assignments) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Partitions led by a replica that the wanted assignment does not have, with the replicas that stay (D-96).

    Not those of which no other replica could lead: an election would only fail.
    """
    return {
        tp: assignment.replicas
        for tp, assignment in wanted.items()
        if tp in view.leaderships.known
        and view.leaderships.known[tp].leader in view.topics.assignment(tp).replicas
        and view.leaderships.known[tp].leader not in assignment.replicas
        and _can_follow_leader(view, tp, assignment)
    }


class RecordingPlan(Struct, frozen=True):
    """`topics`: znodes to write for the `changed` partitions. `unneeded`: broker -> partitions whose replica on it was
    being added and is no longer wanted.
    """

    topics: dict[str, TopicAssignment]
    changed: tuple[TopicPartition, ...]
    unneeded: dict[BrokerId, list[TopicPartition]]


def plan_recording(view: ContextView, wanted: Assignments) -> RecordingPlan:
    """Record the wanted assignments that differ from the current ones, one write per topic (RA-11)."""
    changed = {tp: known for tp, assignment in wanted.items() if (known := view.topics.assignment(tp)) != assignment}
    gone = [(tp, [b for b in before.replicas if b not in wanted[tp].replicas]) for tp, before in changed.items()]
    znodes = topic_znodes(view, {tp: wanted[tp] for tp in changed})
    return RecordingPlan(znodes, tuple(changed), replicas_by_broker(gone))


def with_replica_in_sync(
    replicas: Mapping[BrokerId, Sequence[TopicPartition]], leaderships: Mapping[TopicPartition, LeaderAndIsr]
) -> set[TopicPartition]:
    """The partitions that have one of these replicas in the ISR: its removal raises the leader epoch."""
    return {
        tp
        for broker, partitions in replicas.items()
        for tp in partitions
        if tp in leaderships and broker in leaderships[tp].isr
    }


def topic_znodes(view: ContextView, assignments: Assignments) -> dict[str, TopicAssignment]:
    """The topic znodes of these partitions: new assignments, and the known ones of the topics' other partitions."""
    by_topic: dict[str, dict[int, ReplicaAssignment]] = {}
    for tp, assignment in assignments.items():
        if tp.topic not in by_topic:
            by_topic[tp.topic] = dict(view.topics.assignments.get(tp.topic, {}))
        by_topic[tp.topic][tp.partition] = assignment
    return {topic: TopicAssignment(partitions, view.topics.ids.get(topic)) for topic, partitions in by_topic.items()}


def replicas_by_broker(
    lists: Iterable[tuple[TopicPartition, Iterable[BrokerId]]],
) -> dict[BrokerId, list[TopicPartition]]:
    """Invert (partition, brokers) pairs: broker -> partitions."""
    by_broker: dict[BrokerId, list[TopicPartition]] = {}
    for tp, brokers in lists:
        for broker in brokers:
            by_broker.setdefault(broker, []).append(tp)
    return by_broker


# Completion and leadership


def is_complete(assignment: ReplicaAssignment, leadership: LeaderAndIsr | None) -> bool:
    """Whether every target replica is in sync, or nothing is being reassigned; False without a state znode."""
    if not assignment.is_being_reassigned:
        return True
    return leadership is not None and set(assignment.target) <= set(leadership.isr)


def keeps_leader(view: ContextView, tp: TopicPartition, target: Sequence[BrokerId]) -> bool:
    """Whether the current leader stays leader with the target replicas; otherwise an election follows (RA-18)."""
    leadership = view.leaderships.known.get(tp)
    return leadership is not None and leadership.leader in target and leadership.leader in view.brokers.online_for(tp)


class EpochRaisePlan(Struct, frozen=True):
    """`writes`: to be written if the partition epoch in ZooKeeper is one less."""

    writes: dict[TopicPartition, LeaderAndIsr]
    failures: dict[TopicPartition, ElectionFailure]


def plan_epoch_raises(view: ContextView, current: Mapping[TopicPartition, LeaderAndIsr | None]) -> EpochRaisePlan:
    """Same leader and ISR under the next leader epoch, so that brokers accept the new replica list (RA-14)."""
    writes: dict[TopicPartition, LeaderAndIsr] = {}
    failures: dict[TopicPartition, ElectionFailure] = {}
    for tp, leadership in current.items():
        if leadership is None:
            failures[tp] = NO_STATE_ZNODE
        elif leadership.controller_epoch > view.epoch:
            failures[tp] = NEWER_CONTROLLER
        elif not leadership.isr:
            failures[tp] = NOBODY_IN_SYNC
        elif not has_epoch_left(leadership):
            failures[tp] = NO_LEADER_EPOCH_LEFT
        else:
            recovery_state = leadership.leader_recovery_state
            writes[tp] = next_leadership(leadership, leadership.leader, leadership.isr, view.epoch, recovery_state)
    return EpochRaisePlan(writes, failures)


# Cleanup after a controller failover


def stray_replicas(view: ContextView) -> dict[BrokerId, list[TopicPartition]]:
    """Broker -> partitions that have it in the ISR although it is not assigned.

    A controller that failed after it recorded a cancellation, and before it stopped the replicas no longer wanted,
    leaves such replicas; they joined last, so they are at the end of the ISR. One that precedes an assigned member was
    there first: somebody edited the topic znode, and it is left alone, as in Kafka. It is also left alone if nobody
    else is in sync, as it then has the only good copy.
    """
    found: list[tuple[TopicPartition, list[BrokerId]]] = []
    for tp, leadership in view.leaderships.known.items():
        replicas = view.topics.assignment(tp).replicas
        if leadership.isr == replicas:
            # Nearly all partitions, of which a failover looks at each.
            continue
        strays = [b for b in leadership.isr if b not in replicas]
        if strays and _joined_last(strays, leadership.isr) and tp.topic not in view.deletions.queued:
            found.append((tp, strays))
    return replicas_by_broker(found)


def _joined_last(strays: Sequence[BrokerId], isr: Sequence[BrokerId]) -> bool:
    """Whether the strays are the end of the ISR and not all of it."""
    return len(strays) < len(isr) and tuple(isr[-len(strays) :]) == tuple(strays)


def reassigned_on(view: ContextView, brokers: Iterable[BrokerId]) -> list[TopicPartition]:
    """Partitions being reassigned that have one of the brokers among their targets (BK-15)."""
    starting = set(brokers)
    return [
        tp for tp in sorted(view.topics.being_reassigned) if not starting.isdisjoint(view.topics.assignment(tp).target)
    ]


def _ids(brokers: Iterable[BrokerId]) -> str:
    return ", ".join(map(str, brokers))
