"""Partition state machine: carries out planned transitions and leader elections.

Source: Kafka ZkPartitionStateMachine.
"""

from collections.abc import Mapping, Sequence

import structlog

from cluster.model.errors import ControllerMovedError, MalformedZnodeError, SessionExpiredError, ZooKeeperError
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.model.state_machines import PartitionState
from controller.active_controller import ActiveController
from controller.changes import Assignments, LeadersElected, PartitionsMoved
from controller.decisions.broker_requests import NO_ASSIGNMENTS, ControlBatch
from controller.decisions.configs.topic_configs import parse_unclean_override
from controller.decisions.partitions.leader_election import (
    Election,
    ElectionFailure,
    ElectionPlan,
    Offline,
    Strategy,
    has_isr_member_to_wait_for,
    plan_elections,
    reason_of,
)
from controller.decisions.partitions.partition_states import (
    initial_partition_state,
    plan_initialisations,
    plan_partition_moves,
)
from controller.fenced_writes import Written
from controller.handlers.partitions.state_writes import Current, Leaderships, refusals, write_in_rounds
from state_log.reasons import INITIALISED
from state_log.record import UNCLEAN_BY_CONFIG, UNCLEAN_BY_REQUEST

_log = structlog.stdlib.get_logger()

Results = dict[TopicPartition, LeaderAndIsr | ElectionFailure]
"""Election results; partitions that were skipped or initialised are absent (PS-6)."""


async def move_partitions(
    active: ActiveController,
    partitions: Sequence[TopicPartition],
    target: PartitionState,
    strategy: Strategy | None = None,
    announced: Assignments = NO_ASSIGNMENTS,
    *,
    sends: bool = True,
) -> Results:
    """Move partitions to a target state. For OnlinePartition, new partitions are initialised and others get an
    election.

    `sends`: False if brokers are sent all that they host right afterwards. `announced`: assignments sent to brokers
    before the topic znodes hold them. A ZooKeeper error becomes the result of every partition (PS-3);
    ControllerMovedError and SessionExpiredError are raised.
    """
    if not partitions:
        return {}
    batch = active.new_batch(announced)
    try:
        results = await _move(active, batch, partitions, target, strategy)
    except (ControllerMovedError, SessionExpiredError):
        raise
    except ZooKeeperError as error:
        _log.error(
            "Partition state transition failed", target=target.value, partitions=len(partitions), error=str(error)
        )
        active.resume_later()
        results = dict.fromkeys(partitions, ElectionFailure(str(error), error.code))
    if sends:
        # Also after an error: brokers must get what was written before it.
        active.send(batch)
    return results


async def trigger_online_elections(active: ActiveController, topic: str | None = None) -> Results:
    """Look for a leader for every partition, or those of one topic, that is new or offline."""
    awaiting = active.context.leaderships.partitions_awaiting_leader()
    waiting = [tp for tp in awaiting if topic is None or tp.topic == topic]
    return await move_partitions(active, waiting, PartitionState.ONLINE, Offline())


async def elect_before_sending(active: ActiveController) -> None:
    """Elect leaders for the partitions of offline ones, before anything is sent and before ISRs shrink (D-21).

    The new ISRs are without offline replicas, so one write does what would take two. Nothing is sent here: the replica
    machine sends every broker all that it hosts. New partitions wait for the partition machine.
    """
    _derive_states(active)
    awaiting = active.context.leaderships.partitions_awaiting_leader()
    led_before = [tp for tp in awaiting if active.context.leaderships.partition_state(tp) is PartitionState.OFFLINE]
    await move_partitions(active, led_before, PartitionState.ONLINE, Offline(), sends=False)


async def start_partition_machine(active: ActiveController) -> None:
    """Derive every partition's state, then elect leaders for those without one (PS-30)."""
    _derive_states(active)
    await trigger_online_elections(active)


def _derive_states(active: ActiveController) -> None:
    context = active.context
    states = {tp: initial_partition_state(context, tp) for tp in context.topics.all_partitions()}
    active.commit(PartitionsMoved(states, recorded=False))


async def _move(
    active: ActiveController,
    batch: ControlBatch,
    partitions: Sequence[TopicPartition],
    target: PartitionState,
    strategy: Strategy | None,
) -> Results:
    context = active.context
    moves = plan_partition_moves(context.leaderships.partition_state, partitions, target)
    if moves.refused:
        first, state = next(iter(moves.refused.items()))
        _log.error(
            "Invalid partition state transition",
            target=target.value,
            count=len(moves.refused),
            first=str(first),
            state=state,
        )
    if target is not PartitionState.ONLINE:
        active.commit(PartitionsMoved(dict.fromkeys(moves.valid, target)))
        return {}
    new = [tp for tp in moves.valid if context.leaderships.partition_state(tp) is PartitionState.NEW]
    led_before = [tp for tp in moves.valid if context.leaderships.partition_state(tp) is not PartitionState.NEW]
    if new:
        await _initialise(active, batch, new)
    if not led_before:
        return {}
    assert strategy is not None, "an election needs a strategy"
    return await _elect(active, batch, led_before, strategy)


async def _initialise(active: ActiveController, batch: ControlBatch, partitions: Sequence[TopicPartition]) -> None:
    """Create the state znodes of new partitions (PS-7 to PS-9). `trigger_online_elections` retries failures."""
    context = active.context
    plan = plan_initialisations(context, partitions)
    outcomes = await active.store.create_states(plan.creations)
    written = {tp: leadership for tp, leadership in plan.creations.items() if isinstance(outcomes[tp], Written)}
    active.commit(LeadersElected(written, INITIALISED))
    for tp, leadership in written.items():
        batch.add_leader_and_isr(leadership.isr, tp, leadership, context.topics.assignment(tp), is_new=True)
    _report_failures("Creating partition states failed", plan.failures | refusals(outcomes))


async def _elect(
    active: ActiveController, batch: ControlBatch, partitions: Sequence[TopicPartition], strategy: Strategy
) -> Results:
    """Run elections until no partition is left to retry (PS-10)."""
    context = active.context
    elections: dict[TopicPartition, Election] = {}

    async def decide(current: Current) -> ElectionPlan:
        plan = plan_elections(
            context,
            current,
            strategy,
            await _unclean_allowed(active, current, strategy),
            mark_recovering=active.config.protocol_version.has_leader_recovery_state,
        )
        active.metrics.unclean_elections.mark(sum(election.unclean for election in plan.elections))
        elections.update((election.topic_partition, election) for election in plan.elections)
        return plan

    def conclude(written: Leaderships) -> None:
        allowed_by = UNCLEAN_BY_REQUEST if strategy == Offline(allow_unclean=True) else UNCLEAN_BY_CONFIG
        unclean = {tp: allowed_by for tp in written if elections[tp].unclean}
        active.commit(LeadersElected(written, reason_of(strategy), unclean))
        for tp, leadership in written.items():
            batch.add_leader_and_isr(elections[tp].recipients, tp, leadership, batch.assignment(tp), is_new=False)

    elected, failures = await write_in_rounds(active, partitions, decide, conclude)
    _report_failures("Leader election failed", failures)
    return {**elected, **failures}


async def _unclean_allowed(
    active: ActiveController, current: Current, strategy: Strategy
) -> dict[str, bool | ElectionFailure]:
    """Per topic, for partitions without an ISR member to wait for: whether an unclean leader is configured (PS-20)."""
    if not isinstance(strategy, Offline) or strategy.allow_unclean:
        return {}
    context = active.context
    topics = dict.fromkeys(
        tp.topic
        for tp, leadership in current.items()
        if leadership is not None and not has_isr_member_to_wait_for(context, tp, leadership)
    )
    allowed: dict[str, bool | ElectionFailure] = {}
    for topic, configs in (await active.store.read_topic_configs(list(topics))).items():
        if isinstance(configs, MalformedZnodeError):
            allowed[topic] = ElectionFailure(f"settings of topic {topic} cannot be read")
            continue
        try:
            override = parse_unclean_override(configs)
        except ValueError as error:
            allowed[topic] = ElectionFailure(str(error))
        else:
            default = active.settings.unclean_leader_election_enable
            allowed[topic] = default if override is None else override
    return allowed


def _report_failures(event: str, failures: Mapping[TopicPartition, ElectionFailure]) -> None:
    """Log one line per reason, however many partitions share it."""
    by_reason: dict[str, list[TopicPartition]] = {}
    for tp, failure in failures.items():
        by_reason.setdefault(failure.reason, []).append(tp)
    for reason, partitions in by_reason.items():
        _log.warning(event, reason=reason, count=len(partitions), first=str(partitions[0]))
