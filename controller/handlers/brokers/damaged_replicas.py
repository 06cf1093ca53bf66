"""Handles reports of damaged replicas: other replicas lead, or the damaged ones wait before they are elected.

Source: klamm; Kafka's controller elects such a replica, and the others truncate to it. D-40, D-41, D-119, D-120
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import structlog
from msgspec.structs import replace

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.model.state_machines import PartitionState
from cluster.requests.agents import (
    RECOVERY,
    SCRUB,
    UNCLEAN_SHUTDOWN,
    DamagedReplicaResult,
    ReportDamagedReplicasRequest,
    ReportDamagedReplicasResponse,
)
from cluster.znodes.paths import state_path, topic_path
from controller.active_controller import ActiveController
from controller.changes import (
    DamagedReplicasHealed,
    DamagedReplicasReleased,
    DamagedReplicasReplaced,
    DamagedReplicasReported,
)
from controller.decisions.brokers.damaged_replicas import (
    DamagePlan,
    choose_longest,
    is_decided,
    partition_of,
    plan_damaged_replicas,
)
from controller.decisions.partitions.leader_election import Damaged, ElectionFailure
from controller.events import DamagedReplicaElection
from controller.handlers.brokers.broker_changes import broker_change
from controller.handlers.partitions.partition_transitions import Results, move_partitions, trigger_online_elections

_log = structlog.stdlib.get_logger()


async def report_damaged_replicas(
    active: ActiveController, request: ReportDamagedReplicasRequest
) -> ReportDamagedReplicasResponse:
    """Let the broker join, and elect others than its damaged replicas; those without others wait, or lead where nobody
    can have more.

    The response is sent once the decisions are in ZooKeeper. Raises ControllerMovedError when a write is fenced.
    """
    context, broker = active.context, request.broker_id
    damages = {partition_of(damage): damage for damage in request.replicas}
    if not await _joins(active, request):
        return ReportDamagedReplicasResponse(ErrorCode.STALE_BROKER_EPOCH)
    plan = plan_damaged_replicas(context, broker, damages.values(), _unreadable(active, damages))
    _hold(active, request, plan)
    # What waits for another report is in each, as long as the broker has it.
    again = {tp for tp, held in context.damage.held_on(broker).items() if not held.is_scheduled}
    active.commit(DamagedReplicasReleased(broker, tuple((damages.keys() | again) - plan.not_to_be_elected)))
    results = await _replace(active, broker, plan)
    failed = {tp for tp, result in results.items() if isinstance(result, ElectionFailure)}
    # Of a replica in doubt nothing is known to be damaged that could be healed.
    replaced = tuple(tp for tp in results if tp not in failed and damages[tp].found_by != UNCLEAN_SHUTDOWN)
    if replaced:
        active.commit(DamagedReplicasReplaced(broker, replaced))
    if _release_longest(active, plan.held) or plan.alone:
        await trigger_online_elections(active)
    waiting = {tp for tp in plan.held if not is_decided(context, broker, tp)}
    counts = {"replaced": len(results) - len(failed), "held": len(waiting), "leading": len(plan.leading)}
    doubts = sum(damage.found_by == UNCLEAN_SHUTDOWN for damage in damages.values())
    message = "Broker reported damaged replicas, or such that may lack records after an unclean shutdown"
    _log.warning(message, broker=broker, reported=len(damages), unclean_shutdown=doubts, **counts)
    return ReportDamagedReplicasResponse(ErrorCode.NONE, _answer(request, plan, failed | waiting))


async def _joins(active: ActiveController, request: ReportDamagedReplicasRequest) -> bool:
    """Whether the broker is registered with this epoch and has joined; it joins here if it had only to report.

    All that it names is held at first: joining elects leaders.
    """
    context, broker, epoch = active.context, request.broker_id, request.broker_epoch
    if context.brokers.epochs.get(broker) == epoch:
        return True
    if await active.store.registered_epoch(broker) != epoch:
        return False
    held = {partition_of(damage): damage for damage in request.replicas}
    await broker_change(active, DamagedReplicasReported(broker, epoch, held))
    return context.brokers.epochs.get(broker) == epoch


def _unreadable(active: ActiveController, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Find the partitions of which it is not known who leads, because a znode is malformed; of a topic with a known
    assignment only partitions that it has.
    """
    malformed, assignments = active.store.malformed, active.context.topics.assignments
    return {
        tp
        for tp in partitions
        if (topic_path(tp.topic) in malformed or state_path(tp) in malformed)
        and tp.partition in assignments.get(tp.topic, (tp.partition,))
    }


def _hold(active: ActiveController, request: ReportDamagedReplicasRequest, plan: DamagePlan) -> None:
    """Hold what is not to be elected for now, and see to it that it is elected if nothing better comes.

    What is replaced is held until that is written, as ZooKeeper may refuse it.
    """
    broker, epoch = request.broker_id, request.broker_epoch
    delay_ms = active.config.settings.klamm_damaged_replica_election_delay_ms
    damages = {partition_of(damage): damage for damage in request.replicas}
    waiting = {tp for tp, held in active.context.damage.held_on(broker).items() if tp in damages and held.is_scheduled}
    timed = {tp: damages[tp] for tp in plan.not_to_be_elected if tp not in plan.unknown}
    until_ms = active.clock.now_ms() + delay_ms
    if timed:
        active.commit(DamagedReplicasReported(broker, epoch, timed, until_ms))
    if plan.unknown:
        active.commit(DamagedReplicasReported(broker, epoch, {tp: damages[tp] for tp in plan.unknown}))
    late = tuple(tp for tp in timed if tp not in waiting)
    if late:
        active.enqueue_later(delay_ms / 1000, DamagedReplicaElection(broker, epoch, late, until_ms))


async def elect_damaged(active: ActiveController, event: DamagedReplicaElection) -> None:
    """Elect damaged replicas that have waited for others, unless others lead or the broker registered again.

    Where replicas are in doubt the longest of those that are online is elected, on whichever broker.
    """
    broker = event.broker
    if not active.context.damage.has_reported(broker, event.broker_epoch):
        return
    held = active.context.damage.held_on(broker)
    late = [tp for tp in event.partitions if tp in held and held[tp].until_ms == event.until_ms]
    if late:
        _log.error("Electing damaged replicas, the only ones in sync", broker=broker, partitions=len(late))
        longest = _release_longest(active, late, of_those_online=True)
        others_lead = tuple(tp for tp in late if longest.get(tp, broker) != broker)
        active.commit(DamagedReplicasReleased(broker, tuple(tp for tp in late if longest.get(tp, broker) == broker)))
        await trigger_online_elections(active)
        if others_lead:
            # Should the other one be gone before that is written, it is this one's turn.
            delay_s = active.config.settings.klamm_damaged_replica_election_delay_ms / 1000
            active.enqueue_later(delay_s, replace(event, partitions=others_lead))


def forget_healed(active: ActiveController, written: Mapping[TopicPartition, LeaderAndIsr]) -> None:
    """Forget the damaged replicas that have been fetched again and are in these ISRs now."""
    context = active.context
    for tp, leadership in written.items():
        for broker in context.damage.healed_replicas(tp, leadership.isr):
            active.commit(DamagedReplicasHealed(broker, (tp,)))
            _log.info("Damaged replica is healed: in the ISR again", partition=str(tp), broker=broker)


def _release_longest(
    active: ActiveController, partitions: Iterable[TopicPartition], *, of_those_online: bool = False
) -> dict[TopicPartition, BrokerId]:
    """Let the longest of the replicas in doubt be elected, and return it for each partition that has one.

    The others continue to wait, and so leave the ISR when it leads.
    """
    chosen = {tp: choose_longest(active.context, tp, of_those_online=of_those_online) for tp in partitions}
    longest = {tp: broker for tp, broker in chosen.items() if broker is not None}
    released: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for tp, broker in longest.items():
        released[broker].append(tp)
    for broker, on_broker in released.items():
        active.commit(DamagedReplicasReleased(broker, tuple(on_broker)))
    return longest


async def _replace(active: ActiveController, broker: BrokerId, plan: DamagePlan) -> Results:
    results: Results = {}
    for found_by, partitions in plan.replaced.items():
        strategy = Damaged(broker, found_by if found_by in (SCRUB, UNCLEAN_SHUTDOWN) else RECOVERY)
        results |= await move_partitions(active, partitions, PartitionState.ONLINE, strategy)
    return results


def _answer(
    request: ReportDamagedReplicasRequest, plan: DamagePlan, undecided: AbstractSet[TopicPartition]
) -> tuple[DamagedReplicaResult, ...]:
    again = {*plan.unknown, *undecided}
    # One that leads after it was held is not asked about again; one that the scrub found gets another chance.
    found = {partition_of(damage): damage.found_by for damage in request.replicas}
    again |= {tp for tp in plan.leading if found[tp] == SCRUB}
    return tuple(
        DamagedReplicaResult(*tp, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if tp in again else ErrorCode.NONE)
        for tp in found
    )
