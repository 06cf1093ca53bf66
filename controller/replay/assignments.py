"""Replays what rewrote an assignment, and the transitions of the two state machines."""

from typing import Final

from cluster.model.broker import BrokerId
from cluster.model.partition import ReplicaAssignment
from cluster.model.state_machines import PartitionState, ReplicaState
from controller.decisions.cluster_events import REASSIGNMENT_CANCELLED, REASSIGNMENT_COMPLETED, recorded_as
from controller.decisions.partitions.partition_states import plan_partition_moves
from controller.decisions.partitions.replica_states import plan_replica_moves
from controller.decisions.reassignment.phases import RefusedMove, is_complete, plan_submission, refuse_trigger
from controller.replay.case import DecisionCase
from controller.replay.term import assignment_of
from controller.replay.verdicts import NO_ANSWERS, NO_MOVES_BEFORE, Differs, Undecided, Verdict, assignment_text
from state_log.record import Kind

_RECOVERY: Final = "RecoverClusterReceived"
_BY_API: Final = "ApiPartitionReassignment"
_NO_SUCH_STATE: Final = "there is no such state"


def check_assignment(case: DecisionCase) -> Verdict:
    """Replay the step of a reassignment that wrote this assignment."""
    if case.cause == _RECOVERY:
        return Undecided(case.record.reference, case.name, NO_ANSWERS)
    check = _check_completion if case.record.to_state == REASSIGNMENT_COMPLETED else _check_start
    verdict = check(case, assignment_of(case.record))
    if verdict is not None and case.term.may_be_moving(case.tp):
        return Undecided(case.record.reference, case.name, NO_MOVES_BEFORE)
    return verdict


def _check_completion(case: DecisionCase, decided: ReplicaAssignment) -> Verdict:
    known, text = case.assignment, assignment_text(decided)
    target = ReplicaAssignment(known.target)
    if decided != target:
        return case.differs(Differs.ASSIGNMENT, text, assignment_text(target))
    leadership = case.view.leaderships.known.get(case.tp)
    if not is_complete(known, leadership):
        return case.refused(text, "not all of the new replicas are in sync")
    in_sync = () if leadership is None else leadership.isr
    if left := [b for b in known.removing if b in in_sync]:
        return case.differs(
            Differs.ORDER, text, f"first the removed replicas leave the ISR: {', '.join(map(str, left))}"
        )
    return None


def _check_start(case: DecisionCase, decided: ReplicaAssignment) -> Verdict:
    known, text = case.assignment, assignment_text(decided)
    wanted: ReplicaAssignment | RefusedMove = known.reassign_to(decided.target)
    if case.cause == _BY_API and case.record.to_state != REASSIGNMENT_CANCELLED:
        wanted = plan_submission(case.view, case.tp, decided.target)
    if isinstance(wanted, RefusedMove):
        return case.refused(text, wanted.message)
    if wanted != decided:
        return case.differs(Differs.ASSIGNMENT, text, assignment_text(wanted))
    if (refusal := refuse_trigger(case.view, case.tp, wanted)) is not None:
        return case.refused(text, refusal.message)
    called = recorded_as(case.view, case.tp, decided)
    if called != case.record.to_state:
        return case.differs(Differs.STATE, str(case.record.to_state), str(called))
    return None


# State machines


def check_partition_move(case: DecisionCase) -> Verdict:
    """Replay a transition of the partition state machine."""
    record, known = case.record, case.term.partition_state(case.tp)
    try:
        before, target = PartitionState(record.from_state or ""), PartitionState(record.to_state or "")
    except ValueError:
        return case.refused(str(record.to_state), _NO_SUCH_STATE)
    if known is not None and known is not before:
        return case.differs(Differs.STATE, f"from {before.value}", f"from {known.value}")
    if plan_partition_moves(lambda _: before, [case.tp], target).refused:
        return case.refused(target.value, f"no transition leads there from {before.value}")
    if target is PartitionState.OFFLINE and known is PartitionState.ONLINE and _has_live_leader(case):
        return case.refused(target.value, "its leader is live")
    return None


def _has_live_leader(case: DecisionCase) -> bool:
    """Whether the leader is online as far as the event shows, and the topic is not being deleted.

    That its directory failed is said by the records that follow. So is that a topic is being deleted, if it was queued
    for that before the controller became active.
    """
    leadership = case.view.leaderships.known.get(case.tp)
    is_deleted = any(r.kind is Kind.DELETION and r.topic == case.tp.topic for r in case.following)
    if leadership is None or is_deleted or case.tp.topic in case.view.deletions.queued:
        return False
    leader, offline = leadership.leader, ReplicaState.OFFLINE.value
    has_failed = any(
        (r.kind is Kind.REPLICA and (r.broker, r.to_state) == (leader, offline))
        or (r.inputs is not None and leader in r.inputs.offline)
        for r in case.rest_of_partition
    )
    return leader in case.view.brokers.online_for(case.tp) and not has_failed


def check_replica_move(case: DecisionCase) -> Verdict:
    """Replay a transition of the replica state machine."""
    record = case.record
    try:
        before, target = ReplicaState(record.from_state or ""), ReplicaState(record.to_state or "")
    except ValueError:
        return case.refused(str(record.to_state), _NO_SUCH_STATE)
    broker = BrokerId(-1 if record.broker is None else record.broker)
    known = case.term.replica_state(broker, case.tp)
    if known is not None and known is not before:
        return case.differs(Differs.STATE, f"from {before.value}", f"from {known.value}")
    if known is None:
        case.term.know_replica(broker, case.tp, before)
    if plan_replica_moves(case.view, broker, [case.tp], target).refused:
        return case.refused(target.value, f"no transition leads there from {before.value}")
    return None
