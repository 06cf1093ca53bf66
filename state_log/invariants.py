"""Invariants over state-change records: pure functions used by the audit, the simulator and the tests.

Each rule has a readable id. Rules on single records are in `RECORD_RULES`, rules between the records of a partition in
`state_log.histories`, rules about missing and altered lines in `state_log.chain`. Source: controller rules INV-1 to
INV-5, EL-6, 6.1, 7.1; agent rules P4, P5, P7, P17.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct, field

from cluster.model.partition import TopicPartition
from cluster.model.state_machines import PREVIOUS_PARTITION_STATES, PREVIOUS_REPLICA_STATES
from state_log.decision_rules import DECISION_RULES
from state_log.histories import PartitionHistory, remember
from state_log.record import Kind, LoggedStateChange, by_partition

_State = TypeVar("_State", bound=StrEnum)

ONE_CONTROLLER_PER_EPOCH: Final = "one-controller-per-epoch"


class InvariantViolation(Struct, frozen=True):
    """A violated rule: rule id, message, references of the records concerned, and the partition, if there is one."""

    rule: str
    message: str
    records: tuple[str, ...]
    topic: str | None = None
    partition: int | None = None


class ControllerEpochs(Struct):
    """Controller epoch -> the record of the controller that became active in it. Serialisable."""

    active: dict[int, str] = field(default_factory=dict)


def check_record(record: LoggedStateChange) -> Iterator[tuple[str, str]]:
    """(rule, message) of each rule that this record violates by itself."""
    for rule, broken in RECORD_RULES.items():
        message = broken(record)
        if message is not None:
            yield rule, message


def check_partition(history: PartitionHistory, record: LoggedStateChange) -> list[InvariantViolation]:
    """Check one record of a partition (see `by_partition`) and add it to `history`."""
    topic, partition = record.topic, record.partition
    found = [
        InvariantViolation(rule, message, (record.reference,), topic, partition)
        for rule, message in check_record(record)
    ]
    return found + [
        InvariantViolation(v.rule, v.message, v.records, topic, partition) for v in remember(history, record)
    ]


def check_controller_epoch(epochs: ControllerEpochs, record: LoggedStateChange) -> list[InvariantViolation]:
    """Check that only one controller becomes active in a controller epoch, as every election increments it (EL-6)."""
    epoch = record.controller_epoch
    if record.kind is not Kind.CONTROLLER or record.to_state != "active" or epoch is None:
        return []
    first = epochs.active.setdefault(epoch, record.reference)
    if first == record.reference:
        return []
    message = f"two controllers became active in controller epoch {epoch}"
    return [InvariantViolation(ONE_CONTROLLER_PER_EPOCH, message, (first, record.reference))]


def _illegal_move(kind: Kind, previous: Mapping[_State, frozenset[_State]], record: LoggedStateChange) -> str | None:
    if record.kind is not kind:
        return None
    legal = next((allowed for target, allowed in previous.items() if target == record.to_state), None)
    if legal is not None and record.from_state in legal:
        return None
    return f"{record.from_state} to {record.to_state} is not in the table"


def _leader_outside_isr(record: LoggedStateChange) -> str | None:
    # That an ISR is empty is a rule of its own.
    if record.leader is None or record.leader < 0 or not record.isr or record.leader in record.isr:
        return None
    return f"leader {record.leader} is not in the ISR {list(record.isr)}"


def _empty_isr(record: LoggedStateChange) -> str | None:
    return "the ISR is empty" if record.isr is not None and not record.isr else None


def _repeated_isr_member(record: LoggedStateChange) -> str | None:
    if record.isr is None or len(set(record.isr)) == len(record.isr):
        return None
    return f"the ISR {list(record.isr)} names a broker twice"


def _isr_outside_replicas(record: LoggedStateChange) -> str | None:
    if record.kind not in {Kind.PARTITION, Kind.ISR}:
        # At the end of a reassignment agents get the shorter replica list before the ISR shrinks, and the controller
        # may fail in between. Records of controllers also list the replicas being removed.
        return None
    if record.isr is None or record.replicas is None or set(record.isr) <= set(record.replicas):
        return None
    return f"the ISR {list(record.isr)} has members that are not among the replicas {list(record.replicas)}"


def _truncated_below_high_watermark(record: LoggedStateChange) -> str | None:
    """Check that no committed record, below the high watermark, was truncated (P10). A damaged log is another matter:
    its loss is recorded.
    """
    if record.kind is not Kind.TRUNCATION or record.reason in DAMAGED:
        return None
    if record.cause is not None and record.cause.event in CAUSES_OF_DAMAGE:
        return None
    if record.to_offset is None or record.high_watermark is None or record.to_offset >= record.high_watermark:
        return None
    return f"the log was truncated to {record.to_offset}, below its high watermark {record.high_watermark}"


TRUNCATED_BELOW_HIGH_WATERMARK: Final = "no-truncation-below-high-watermark"
ELECTED_HAS_COMMITTED: Final = "elected-leader-has-committed"
CAUSES_OF_DAMAGE: Final = frozenset({"LogRecovery", "LogScrub"})
DAMAGED: Final = frozenset({"recovery", "scrub"})
"""Reasons of truncations: who found that the log is damaged."""
RECORD_RULES: Final[Mapping[str, Callable[[LoggedStateChange], str | None]]] = {
    "legal-partition-transition": partial(_illegal_move, Kind.PARTITION, PREVIOUS_PARTITION_STATES),
    "legal-replica-transition": partial(_illegal_move, Kind.REPLICA, PREVIOUS_REPLICA_STATES),
    "leader-in-isr": _leader_outside_isr,
    "isr-not-empty": _empty_isr,
    "isr-without-repetition": _repeated_isr_member,
    "isr-within-replicas": _isr_outside_replicas,
    TRUNCATED_BELOW_HIGH_WATERMARK: _truncated_below_high_watermark,
    **DECISION_RULES,
}
"""Rule id -> function that returns the message of a violation, or None."""


class Checker:
    """All rules over one stream of records, with histories in memory."""

    def __init__(self) -> None:
        self._histories: dict[TopicPartition, PartitionHistory] = {}
        self._epochs = ControllerEpochs()

    def check(self, record: LoggedStateChange) -> list[InvariantViolation]:
        found = check_controller_epoch(self._epochs, record)
        for tp, part in by_partition(record):
            found += check_partition(self._histories.setdefault(tp, PartitionHistory()), part)
        return found


def check_all(records: Iterable[LoggedStateChange]) -> list[InvariantViolation]:
    """Find all violations in these records, in the order of detection."""
    checker = Checker()
    return [finding for record in records for finding in checker.check(record)]
