"""Replays what wrote a leadership: elections, first leaderships, ISR changes, and raised leader epochs."""

from collections.abc import Iterator
from typing import Final

from cluster.model.broker import UNKNOWN_BROKER_EPOCH, BrokerId, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr
from cluster.requests.agents import (
    RECOVERY,
    SCRUB,
    UNCLEAN_SHUTDOWN,
    AlterPartitionItem,
    AlterPartitionRequest,
)
from controller.decisions.partitions.isr_change import plan_isr_changes, refuse_alter_partition
from controller.decisions.partitions.leader_election import (
    ControlledShutdown,
    Damaged,
    ElectionFailure,
    Offline,
    Preferred,
    Reassign,
    Strategy,
    plan_elections,
)
from controller.decisions.partitions.partition_states import plan_initialisations
from controller.decisions.partitions.replica_states import plan_isr_removals
from controller.decisions.reassignment.phases import is_complete, keeps_leader, plan_epoch_raises
from controller.replay.case import DecisionCase
from controller.replay.verdicts import (
    NO_ANSWERS,
    NO_DAMAGE,
    NO_MOVE,
    NO_PERMISSION,
    NO_STATE_BEFORE,
    Differs,
    OtherDecision,
    Undecided,
    Verdict,
    leadership_text,
)
from state_log.causes import READ_FROM_LEADER
from state_log.reasons import (
    ASKED_BY_BROKER,
    INITIALISED,
    OTHER_REPLICAS,
    READ_AFTER_REPAIR,
    RECOVERED,
    REPLICA_OFFLINE,
    REPLICA_REMOVED,
)
from state_log.record import Kind

_READ: Final = (READ_FROM_LEADER, READ_AFTER_REPAIR)
_ASKED_BY_LEADER: Final = "asked by the leader"
"""In logs of klamm before 0.3."""
ASKED_BY: Final = "asked by "
_FOUND_BY: Final = (RECOVERY, SCRUB, UNCLEAN_SHUTDOWN)
_REQUESTED: Final = "ElectLeadersReceived"
_ELECTED_FIRST: Final = ("BrokerChange", "LeaderAndIsrResponseReceived")
"""Events in which partitions get another leader before the replicas that went offline leave their ISRs."""


def check_leadership(case: DecisionCase) -> Verdict:
    """Replay the decision that wrote the leadership in the record."""
    record, reason = case.record, case.record.reason or ""
    if reason in _READ:
        return None
    if reason == RECOVERED:
        return Undecided(record.reference, reason, NO_ANSWERS)
    is_first = reason == INITIALISED or (case.before is None and record.partition_epoch == 0)
    with case.term.with_inputs(case.tp, record.inputs):
        if record.kind is Kind.PARTITION and is_first:
            return _check_first(case)
        if case.before is None:
            earlier = case.decided.partition_epoch - 1
            return Undecided(record.reference, case.name, f"{NO_STATE_BEFORE}, of partition epoch {earlier}")
        return _check_election(case, case.before) if record.kind is Kind.PARTITION else _check_isr(case, case.before)


def _check_first(case: DecisionCase) -> Verdict:
    plan = plan_initialisations(case.view, [case.tp])
    return case.against(plan.failures.get(case.tp) or plan.creations[case.tp])


# Elections


def _check_election(case: DecisionCase, before: LeaderAndIsr) -> Verdict:
    strategies = list(_strategies(case))
    if not strategies:
        return Undecided(case.record.reference, case.name, NO_DAMAGE)
    if (why := _why_not_needed(case, before, strategies[0])) is not None:
        return case.against(ElectionFailure(why))
    inputs = case.record.inputs
    is_allowed = inputs is not None and inputs.unclean is not None
    outcomes = [_elected(case, before, strategy, unclean_allowed=is_allowed) for strategy in strategies]
    if case.decided in outcomes:
        return None
    if (missing := _missing(case, before, strategies[0], outcomes[0])) is not None:
        return Undecided(case.record.reference, case.name, missing)
    return case.against(outcomes[0])


def _why_not_needed(case: DecisionCase, before: LeaderAndIsr, strategy: Strategy) -> str | None:
    if isinstance(strategy, Preferred) and before.leader == next(iter(case.assignment.replicas), None):
        return "the preferred replica leads already"
    if strategy == Offline(allow_unclean=True) and before.leader in case.view.brokers.live_ids:
        return "the partition has a live leader"
    return None


def _missing(
    case: DecisionCase, before: LeaderAndIsr, strategy: Strategy, made: LeaderAndIsr | ElectionFailure
) -> str | None:
    """Say which input could explain that the decision differs from the one that was made here."""
    if isinstance(strategy, Reassign) and not any(r.kind is Kind.ASSIGNMENT for r in case.rest_of_partition):
        is_step = isinstance(made, ElectionFailure) or made.leader_epoch == case.decided.leader_epoch
        return NO_MOVE if is_step else None
    if not case.term.records_inputs and isinstance(strategy, Offline):
        is_explained = case.decided == _elected(case, before, strategy, unclean_allowed=True)
        return NO_PERMISSION if is_explained else None
    return None


def _elected(
    case: DecisionCase, before: LeaderAndIsr, strategy: Strategy, *, unclean_allowed: bool
) -> LeaderAndIsr | ElectionFailure:
    allowed = {case.tp.topic: unclean_allowed}
    plan = plan_elections(case.view, {case.tp: before}, strategy, allowed, mark_recovering=False)
    return plan.failures.get(case.tp) or plan.writes[case.tp]


def _strategies(case: DecisionCase) -> Iterator[Strategy]:
    """The strategies that the record may be of; the most probable one first."""
    record, reason = case.record, case.record.reason
    if reason == Reassign.__name__:
        yield Reassign()
        for wanted in (r for r in case.rest_of_partition if r.kind is Kind.ASSIGNMENT):
            yield Reassign({case.tp: wanted.replicas or ()})
        yield Reassign({case.tp: case.assignment.replicas})
    elif reason in _FOUND_BY:
        for broker in () if record.inputs is None else record.inputs.held:
            yield Damaged(broker, reason)
    elif reason == Preferred.__name__:
        yield Preferred()
    elif reason == ControlledShutdown.__name__:
        yield ControlledShutdown()
    else:
        yield Offline(allow_unclean=case.cause == _REQUESTED)


# ISR


def _check_isr(case: DecisionCase, before: LeaderAndIsr) -> Verdict:
    reason = case.record.reason or ""
    if reason in {REPLICA_OFFLINE, REPLICA_REMOVED}:
        return _check_removal(case, before)
    if reason == OTHER_REPLICAS:
        return _check_raise(case, before)
    if reason.startswith(ASKED_BY_BROKER) or reason == _ASKED_BY_LEADER:
        return _check_grant(case, before)
    return Undecided(case.record.reference, case.name, f"what {reason!r} means: another version of klamm wrote it")


def _check_removal(case: DecisionCase, before: LeaderAndIsr) -> Verdict:
    if case.record.broker is None:
        return Undecided(case.record.reference, case.name, "whose replica it was")
    if (first := _election_first(case, before)) is not None:
        return first
    broker, known = BrokerId(case.record.broker), case.term.governs_kafka
    plans = [
        plan_isr_removals(case.view, broker, {case.tp: before}, shrinks_to_last=each)
        for each in ((False, True) if known is None else (known,))
    ]
    if any(plan.writes.get(case.tp) == case.decided for plan in plans):
        return None
    is_out = ElectionFailure(f"broker {broker} is not in the ISR")
    return case.against(plans[0].writes.get(case.tp) or plans[0].failures.get(case.tp) or is_out)


def _election_first(case: DecisionCase, before: LeaderAndIsr) -> OtherDecision | None:
    """Find that the leader leaves the ISR although another one could have been elected before."""
    is_queued = case.tp.topic in case.view.deletions.queued
    if case.record.reason != REPLICA_OFFLINE or before.leader != case.record.broker or is_queued:
        return None
    made = _elected(case, before, Offline(), unclean_allowed=False)
    if case.cause not in _ELECTED_FIRST or isinstance(made, ElectionFailure):
        return None
    return case.differs(Differs.ORDER, leadership_text(case.decided), f"first an election: {leadership_text(made)}")


def _check_raise(case: DecisionCase, before: LeaderAndIsr) -> Verdict:
    target = case.assignment.target
    # Where leaders write the ISR, it may have grown after it was read to see whether the move is complete.
    is_known = case.view.leaderships.known.get(case.tp) == before
    if is_known and is_complete(case.assignment, before) and not keeps_leader(case.view, case.tp, target):
        made = _elected(case, before, Reassign(), unclean_allowed=False)
        if not isinstance(made, ElectionFailure):
            return case.against(made)
    plan = plan_epoch_raises(case.view, {case.tp: before})
    return case.against(plan.failures.get(case.tp) or plan.writes[case.tp])


def _check_grant(case: DecisionCase, before: LeaderAndIsr) -> Verdict:
    decided, tp = case.decided, case.tp
    sender = (case.record.reason or "").removeprefix(ASKED_BY_BROKER)
    broker = BrokerId(int(sender)) if sender.isdecimal() else decided.leader
    item = AlterPartitionItem(
        topic_name=tp.topic,
        topic_id=case.view.topics.ids.get(tp.topic),
        partition_index=tp.partition,
        leader_epoch=decided.leader_epoch,
        new_isr=decided.isr,
        partition_epoch=PartitionEpoch(decided.partition_epoch - 1),
        leader_recovery_state=before.leader_recovery_state,
    )
    epoch = case.view.brokers.epochs.get(broker, UNKNOWN_BROKER_EPOCH)
    request = AlterPartitionRequest(broker, epoch, (item,))
    plan = plan_isr_changes(case.view, request)
    if (code := refuse_alter_partition(case.view, request)) is ErrorCode.NONE:
        if plan.accepted:
            return case.against(plan.accepted[0].leadership)
        (result,) = plan.results
        code = ErrorCode.NONE if result is None else result.error_code
    why = "the state is so already" if code is ErrorCode.NONE else f"the proposal is refused with {code.name}"
    return case.against(ElectionFailure(why))
