"""Replica state machine: carries out planned transitions and removes offline replicas from ISRs.

Source: Kafka ZkReplicaStateMachine.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import structlog

from cluster.model.broker import BrokerId
from cluster.model.errors import ControllerMovedError, SessionExpiredError, ZooKeeperError
from cluster.model.hash_order import in_hash_order
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.model.state_machines import ReplicaState
from controller.active_controller import ActiveController
from controller.changes import Assignments, LeadershipsRead, LeadershipsWritten, ReplicasMoved
from controller.context.controller_context import ControllerContext
from controller.decisions.broker_requests import NO_ASSIGNMENTS, ControlBatch
from controller.decisions.partitions.replica_states import IsrRemovalPlan, plan_isr_removals, plan_replica_moves
from controller.handlers.partitions.state_writes import Current, Leaderships, write_in_rounds
from state_log.reasons import REPLICA_OFFLINE, REPLICA_REMOVED

_log = structlog.stdlib.get_logger()

Replicas = Mapping[BrokerId, Sequence[TopicPartition]]
"""Broker -> partitions whose replicas on it are concerned; processed in the order of Kafka's hash table."""


def replicas_of(
    context: ControllerContext, partitions: Iterable[TopicPartition]
) -> dict[BrokerId, list[TopicPartition]]:
    """Broker -> partitions, for all assigned replicas of the partitions."""
    by_broker: dict[BrokerId, list[TopicPartition]] = {}
    for tp in partitions:
        for broker in context.topics.assignment(tp).replicas:
            by_broker.setdefault(broker, []).append(tp)
    return by_broker


Removing = Mapping[TopicPartition, tuple[BrokerId, ...]]
"""Partition -> replicas that are no longer assigned but still have data and may be in the ISR."""
_NONE: Final[Removing] = MappingProxyType({})


async def move_replicas(
    active: ActiveController,
    replicas: Replicas,
    target: ReplicaState,
    *,
    recorded: bool = True,
    removing: Removing = _NONE,
    announced: Assignments = NO_ASSIGNMENTS,
) -> None:
    """Move replicas to a target state and send the requests that follow from it (RM-1 to RM-3).

    A ZooKeeper error is logged and the replicas concerned keep their state; ControllerMovedError and
    SessionExpiredError are raised. `recorded`: False if the records of the partitions cover the transition. `removing`:
    all replicas that a reassignment removes. `announced`: assignments sent to brokers before the topic znodes hold
    them.
    """
    batch = active.new_batch(announced)
    shrinks, online = _Shrinks(), dict[BrokerId, list[TopicPartition]]()
    try:
        # The order decides who remains where the brokers are Kafka's: if all members of an ISR go offline, the last one
        # stays in it and may be elected.
        for broker in in_hash_order(replicas):
            if replicas[broker]:
                await _move_on_broker(
                    active,
                    batch,
                    broker,
                    replicas[broker],
                    target,
                    shrinks=shrinks,
                    online=online,
                    recorded=recorded,
                    removing=removing,
                )
    except (ControllerMovedError, SessionExpiredError):
        raise
    except ZooKeeperError as error:
        _log.error("Replica state transition failed", target=target.value, error=str(error))
        active.resume_later()
    # Also after an error: brokers must get what was written before it.
    shrinks.add_to(batch)
    batch.add_known_leader_and_isr(online)
    active.send(batch)


async def start_replica_machine(active: ActiveController) -> None:
    """Derive every replica's state, send every broker the partitions it hosts, remove offline replicas from ISRs.

    A replica that is not online starts as ineligible for deletion, so that topic deletion does not count it as
    deletable (RM-20, RM-21).
    """
    context = active.context
    online: dict[BrokerId, list[TopicPartition]] = {}
    offline: dict[BrokerId, list[TopicPartition]] = {}
    for broker in context.topics.hosting_brokers():
        hosted = context.topics.partitions_on(broker)
        # Offline log directories are not known yet: a new controller learns them from the responses of brokers.
        state = ReplicaState.ONLINE if broker in context.brokers.live_ids else ReplicaState.DELETION_INELIGIBLE
        active.commit(ReplicasMoved(broker, dict.fromkeys(hosted, ReplicaState.NON_EXISTENT), state, recorded=False))
        (online if state is ReplicaState.ONLINE else offline)[broker] = hosted
    await move_replicas(active, online, ReplicaState.ONLINE)
    await move_replicas(active, offline, ReplicaState.OFFLINE)


async def _move_on_broker(
    active: ActiveController,
    batch: ControlBatch,
    broker: BrokerId,
    partitions: Sequence[TopicPartition],
    target: ReplicaState,
    *,
    shrinks: "_Shrinks",
    online: dict[BrokerId, list[TopicPartition]],
    recorded: bool,
    removing: Removing,
) -> None:
    moves = plan_replica_moves(active.context, broker, partitions, target)
    if moves.refused:
        first, state = next(iter(moves.refused.items()))
        _log.error(
            "Invalid replica state transition",
            broker=broker,
            target=target.value,
            count=len(moves.refused),
            first=str(first),
            state=state,
        )
    match target:
        case ReplicaState.NEW:
            started = _start_new(active, batch, broker, moves.valid)
            moved = {tp: moves.valid[tp] for tp in started}
        case ReplicaState.ONLINE:
            # A replica in NewReplica was sent the current leadership already (PS-24).
            online[broker] = [tp for tp, state in moves.valid.items() if state is not ReplicaState.NEW]
            moved = moves.valid
        case ReplicaState.OFFLINE:
            taken = await _take_offline(active, batch, broker, moves.valid, shrinks=shrinks, removing=removing)
            moved = {tp: moves.valid[tp] for tp in taken}
        case ReplicaState.DELETION_STARTED:
            for tp in moves.valid:
                batch.add_stop_replica(broker, tp, delete=True)
            moved = moves.valid
        case _:
            moved = moves.valid
    active.commit(ReplicasMoved(broker, moved, target, recorded))


def _start_new(
    active: ActiveController, batch: ControlBatch, broker: BrokerId, partitions: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Send LeaderAndIsr for new replicas of partitions with a leader; others wait for the first election."""
    context = active.context
    moved: list[TopicPartition] = []
    for tp in partitions:
        leadership = context.leaderships.known.get(tp)
        if leadership is not None:
            if leadership.leader == broker:
                _log.error(
                    "Cannot create a new replica on the broker recorded as leader", partition=str(tp), broker=broker
                )
                continue
            batch.add_leader_and_isr((broker,), tp, leadership, context.topics.assignment(tp), is_new=True)
        moved.append(tp)
    return moved


class _Shrinks:
    """Holds what the replicas of partitions are sent after others went offline, one after the other.

    Each replica gets the last leadership in which another one was removed. Kept until all are offline: sent after each
    of them, it would take the square of the replicas.
    """

    def __init__(self) -> None:
        self._last: dict[TopicPartition, tuple[BrokerId, LeaderAndIsr]] = {}
        self._for_last_removed: dict[TopicPartition, LeaderAndIsr] = {}

    def record(self, tp: TopicPartition, removed: BrokerId, leadership: LeaderAndIsr) -> None:
        earlier = self._last.get(tp)
        if earlier is not None:
            self._for_last_removed[tp] = earlier[1]
        self._last[tp] = removed, leadership

    def add_to(self, batch: ControlBatch) -> None:
        for tp, (removed, leadership) in self._last.items():
            assignment = batch.assignment(tp)
            others = [broker for broker in assignment.replicas if broker != removed]
            batch.add_leader_and_isr(others, tp, leadership, assignment, is_new=False)
            if tp in self._for_last_removed and removed in assignment.replicas:
                batch.add_leader_and_isr((removed,), tp, self._for_last_removed[tp], assignment, is_new=False)


async def _take_offline(
    active: ActiveController,
    batch: ControlBatch,
    broker: BrokerId,
    partitions: Mapping[TopicPartition, ReplicaState],
    *,
    shrinks: "_Shrinks",
    removing: Removing,
) -> list[TopicPartition]:
    """Send StopReplica for the replicas and remove them from their ISRs (RM-4 to RM-7)."""
    context = active.context
    # A dead broker is told nothing.
    for tp in partitions if broker in context.brokers.epochs else ():
        # Before the ISR changes: the request carries the leader epoch that the broker may know.
        batch.add_stop_replica(broker, tp, delete=False)
    led = [tp for tp in partitions if tp in context.leaderships.known]
    never_led = [tp for tp in partitions if tp not in context.leaderships.known]
    shrunk = await _remove_from_isrs(active, broker, led, removing) if led else {}
    for tp, leadership in shrunk.items():
        if tp.topic not in context.deletions.queued:
            shrinks.record(tp, broker, leadership)
    if never_led:
        batch.add_update_metadata_for_all(never_led)
    return [*shrunk, *never_led]


async def _remove_from_isrs(
    active: ActiveController, broker: BrokerId, partitions: Sequence[TopicPartition], removing: Removing
) -> dict[TopicPartition, LeaderAndIsr]:
    """Write the ISR of each partition without the broker; returns the resulting leadership of each (RM-8 to RM-12)."""
    context = active.context
    unchanged: dict[TopicPartition, LeaderAndIsr] = {}

    async def decide(current: Current) -> IsrRemovalPlan:
        plan = plan_isr_removals(context, broker, current, shrinks_to_last=active.config.governs_kafka)
        unchanged.update(plan.unchanged)
        return plan

    def apply(written: Leaderships) -> None:
        removed = {tp for tp in written if broker in removing.get(tp, ()) or tp.topic in context.deletions.queued}
        for reason, is_removed in ((REPLICA_REMOVED, True), (REPLICA_OFFLINE, False)):
            part = {tp: leadership for tp, leadership in written.items() if (tp in removed) is is_removed}
            if part:
                active.commit(LeadershipsWritten(part, reason, broker, removing))

    removed, failures = await write_in_rounds(active, partitions, decide, apply)
    active.commit(LeadershipsRead(unchanged))
    for tp, failure in failures.items():
        _log.error("Removing a replica from the ISR failed", partition=str(tp), broker=broker, reason=failure.reason)
    return unchanged | removed
