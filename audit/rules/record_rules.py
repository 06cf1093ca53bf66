"""Rules on single records, over columns.

Where columns show a violation, `state_log.invariants.RECORD_RULES` has the words for it: the two always agree.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec
import numpy
import pyarrow

from audit.records.columns import RECORDS
from audit.records.findings import AuditFinding, RuleViolation
from audit.records.vectors import ABSENT, BrokerLists, Flags, is_one_of, keys, longs, ranked
from audit.rules.rule import BucketBatch, Explanation, Rule, once
from audit.rules.subjects import Subjects
from cluster.model.state_machines import PREVIOUS_PARTITION_STATES, PREVIOUS_REPLICA_STATES
from state_log.invariants import CAUSES_OF_DAMAGE, DAMAGED, RECORD_RULES, TRUNCATED_BELOW_HIGH_WATERMARK
from state_log.record import Kind, LoggedStateChange

_State = TypeVar("_State", bound=StrEnum)


def _texts(table: Mapping[_State, frozenset[_State]]) -> Mapping[str, frozenset[str]]:
    return {str(state): frozenset(map(str, before)) for state, before in table.items()}


_TRANSITIONS: Final = {
    "legal-partition-transition": (Kind.PARTITION, _texts(PREVIOUS_PARTITION_STATES)),
    "legal-replica-transition": (Kind.REPLICA, _texts(PREVIOUS_REPLICA_STATES)),
}


_AT_ONCE: Final = 10_000
"""Records made into findings at a time: one by one takes ten times as long, and all of a hostile log the memory."""


def _check(batch: BucketBatch) -> list[AuditFinding]:
    return findings_of(batch, _violations(of_partitions(batch)))


@once
def of_partitions(batch: BucketBatch) -> pyarrow.Table:
    """The records of the batch that are of partitions."""
    rows, chosen = batch.rows, keys(batch.rows["key"]) != 0
    return (rows if chosen.all() else rows.filter(pyarrow.array(chosen))).unify_dictionaries()


def findings_of(batch: BucketBatch, violations: Mapping[str, Flags]) -> list[AuditFinding]:
    """The findings about the records that violate a rule, in the words of `RECORD_RULES`.

    `violations`: by the rule's id, aligned with the rows of `of_partitions`.
    """
    rows = of_partitions(batch)
    return [
        _finding(fields, rule, batch.subjects)
        for rule, violated in violations.items()
        if violated.any()
        for part in rows.take(pyarrow.array(numpy.flatnonzero(violated))).to_batches(_AT_ONCE)
        for fields in part.to_pylist()
    ]


def _violations(rows: pyarrow.Table) -> dict[str, Flags]:
    """The records that violate each rule, by its id; aligned with the rows."""
    isr, replicas, leader = BrokerLists(rows["isr"]), BrokerLists(rows["replicas"]), longs(rows["leader"])
    both = isr.present & replicas.present & is_one_of(rows["kind"], [Kind.PARTITION.value, Kind.ISR.value])
    found = {rule: _illegal_transitions(rows, kind, table) for rule, (kind, table) in _TRANSITIONS.items()}
    found["leader-in-isr"] = isr.present & (isr.lengths > 0) & (leader != ABSENT) & (leader >= 0) & ~isr.contain(leader)
    found["isr-not-empty"] = isr.present & (isr.lengths == 0)
    found["isr-without-repetition"] = isr.have_repetitions()
    found[TRUNCATED_BELOW_HIGH_WATERMARK] = _truncated_below_high_watermark(rows)
    found["isr-within-replicas"] = both & ~isr.are_within(replicas)
    return found


def _illegal_transitions(rows: pyarrow.Table, kind: Kind, legal: Mapping[str, frozenset[str]]) -> Flags:
    of_kind = is_one_of(rows["kind"], [kind.value])
    (before, befores), (after, afters) = (ranked(rows[name]) for name in ("from_state", "to_state"))
    # The last row and column are for records without a state.
    illegal = numpy.array([[b not in legal.get(a, ()) for a in [*afters, ""]] for b in [*befores, ""]], bool)
    return numpy.asarray(of_kind & illegal[before, after], bool)


def _truncated_below_high_watermark(rows: pyarrow.Table) -> Flags:
    end, high_watermark = longs(rows["to_offset"]), longs(rows["high_watermark"])
    of_damage = is_one_of(rows["cause_event"], sorted(CAUSES_OF_DAMAGE)) | is_one_of(rows["reason"], sorted(DAMAGED))
    of_kind = is_one_of(rows["kind"], [Kind.TRUNCATION.value]) & ~of_damage
    below = (end != ABSENT) & (high_watermark != ABSENT) & (end < high_watermark)
    return numpy.asarray(of_kind & below, bool)


def _finding(fields: Mapping[str, Any], rule: str, subjects: Subjects) -> AuditFinding:
    parts = {name: fields[f"cause_{name}"] for name in ("event", "id", "controller", "controller_epoch")}
    cause = {name: value for name, value in parts.items() if value is not None}
    shown = {n: v for n, v in fields.items() if v is not None}
    record = msgspec.convert({**shown, "cause": cause} if cause else shown, LoggedStateChange)
    message = RECORD_RULES[rule](record)
    assert message is not None, f"{rule} holds for {record}"
    subject = f"record {record.reference}"
    violation = RuleViolation(rule, fields["key"], subject, message, (record.reference,), record.at_ms)
    return subjects.finding(violation)


_EVENT: Final = "the event that led to it"


def _error(says: str, kafka: str = "INFO") -> Explanation:
    return Explanation("error", says, _EVENT, kafka)


RULE: Final = Rule(
    explains={
        TRUNCATED_BELOW_HIGH_WATERMARK: Explanation(
            "critical",
            "A follower's log is not truncated below its high watermark; a damaged log is another matter.",
            "whether the machine of another replica was restarted before, as after a power failure: what it had not "
            "flushed is lost, also for those that follow it, and the finding names it where its boot id has changed; "
            "whether an unclean election preceded; which records were between the offsets",
            "truncations are in server.log",
        ),
        "legal-partition-transition": _error("The partition state machine makes the transitions of its table only."),
        "legal-replica-transition": _error(
            "The replica state machine makes the transitions of its table only.", "TRACE"
        ),
        "leader-in-isr": _error("The leader is a member of the ISR."),
        "isr-not-empty": _error("An ISR has at least one member."),
        "isr-without-repetition": _error("An ISR names each broker once."),
        "isr-within-replicas": _error(
            "All members of an ISR are replicas.",
            "the lines that say what was written do not name the replicas",
        ),
    },
    reads=tuple(RECORDS.names),
    check=_check,
)
