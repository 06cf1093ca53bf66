"""Who may lead and be in sync, by what the controller itself had recorded of brokers and replicas before.

Source: Kafka ControllerContext.isReplicaOnline, KafkaController.processAlterPartition, KIP-841; controller rules CS-6,
IS-10, PS-20.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation, changes
from audit.records.vectors import ABSENT, BrokerLists, Flags, Longs, begins_with, is_one_of, keys, longs
from audit.rules.broker_statuses import DEAD, LIVE, OFFLINE, SHUTTING_DOWN, STATUSES, STATUSES_READ, UNKNOWN
from audit.rules.broker_statuses import KnownStatuses as Known
from audit.rules.leaderships_taken import TAKEN_READ
from audit.rules.partition_states import STATES_READ
from audit.rules.partition_windows import Window, earlier_window, windows
from audit.rules.record_rules import of_partitions
from audit.rules.rule import BucketBatch, Explanation, Rule, once
from audit.rules.subjects import Subjects, reference_at
from cluster.model.state_machines import PartitionState
from state_log.decision_rules import ASKED_BY
from state_log.record import Kind

ELECTED_IS_LIVE: Final = "elected-leader-is-live"
IN_SYNC_IS_LIVE: Final = "isr-granted-to-live-brokers"
SHUTDOWN_LEAVES_ISR: Final = "shutdown-leaves-isr"
UNCLEAN_PASSES_OVER: Final = "unclean-election-passes-over-isr"
_SHUTDOWN: Final = "ControlledShutdown"
_TEXTS: Final = {
    DEAD: "which it had recorded as dead",
    SHUTTING_DOWN: "which it had recorded as shutting down",
    OFFLINE: "whose replica it had recorded as offline",
}
_READ: Final = (*STATUSES_READ, "leader", "isr", "reason", "at_ms")


@once
def known_statuses(batch: BucketBatch) -> Known:
    """The statuses of brokers and replicas that controllers have recorded, up to the end of the batch."""
    return Known(batch)


def _check(batch: BucketBatch) -> list[AuditFinding]:
    known = known_statuses(batch)
    before, now = (_passed_over(window, known, batch.subjects) for window in windows(batch))
    return [*_of_records(batch, known), *changes(before, now)]


def _of_records(batch: BucketBatch, known: Known) -> Iterator[AuditFinding]:
    rows = of_partitions(batch)
    leader = longs(rows["leader"])
    elects = is_one_of(rows["kind"], [Kind.PARTITION.value]) & is_one_of(
        rows["to_state"], [PartitionState.ONLINE.value]
    )
    elects &= leader >= 0
    part = _chosen(rows, elects)
    led_by = longs(part["leader"])
    status, replica = known.of_brokers(part, led_by), known.of_replicas(part, led_by)
    status = numpy.where(numpy.isin(status, [DEAD, SHUTTING_DOWN]), status, numpy.where(replica == OFFLINE, OFFLINE, 0))
    for row in numpy.flatnonzero(status).tolist():
        text = f"it elected leader {led_by[row]}, {_TEXTS[int(status[row])]}"
        yield _finding(batch.subjects, part, row, ELECTED_IS_LIVE, text)
    granted = is_one_of(rows["kind"], [Kind.ISR.value]) & begins_with(rows["reason"], ASKED_BY)
    part = _chosen(rows, granted)
    for row, broker, state in _members(part, known, [DEAD, SHUTTING_DOWN]):
        text = f"it granted an ISR with broker {broker}, {_TEXTS[state]}"
        yield _finding(batch.subjects, part, row, IN_SYNC_IS_LIVE, text)
    part = _chosen(rows, elects & is_one_of(rows["reason"], [_SHUTDOWN]))
    for row, broker, state in _members(part, known, [SHUTTING_DOWN]):
        text = f"an election for a controlled shutdown left broker {broker} in the ISR, {_TEXTS[state]}"
        yield _finding(batch.subjects, part, row, SHUTDOWN_LEAVES_ISR, text)


def _chosen(rows: pyarrow.Table, chosen: Flags) -> pyarrow.Table:
    # Only a controller's own records say in which order it learned of things and decided.
    chosen = chosen & (longs(rows["controller_epoch"]) != ABSENT)
    return rows.select(_READ).take(pyarrow.array(numpy.flatnonzero(chosen)))


def _members(rows: pyarrow.Table, known: Known, wanted: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the first member of each ISR that had one of these statuses: row, broker, status."""
    isr = BrokerLists(rows["isr"])
    each = rows.select(STATUSES_READ).take(pyarrow.array(isr.row))
    status = known.of_brokers(each, isr.values)
    found = numpy.flatnonzero(numpy.isin(status, wanted))
    _, first = numpy.unique(isr.row[found], return_index=True)
    for place in found[first].tolist():
        yield int(isr.row[place]), int(isr.values[place]), int(status[place])


def _finding(subjects: Subjects, rows: pyarrow.Table, row: int, rule: str, message: str) -> AuditFinding:
    name, at_ms = reference_at(rows, row), rows["at_ms"][row].as_py()
    return subjects.finding(RuleViolation(rule, int(keys(rows["key"])[row]), f"record {name}", message, (name,), at_ms))


def _passed_over(window: Window, known: Known, subjects: Subjects) -> Iterator[AuditFinding]:
    """The unclean elections while a member of the ISR was live, but for the leader, whose disk may have failed."""
    of = window.intervals
    elections = numpy.flatnonzero(of.unclean & window.checked)
    if not len(elections):
        return
    isr = BrokerLists(of.rows["isr"].take(pyarrow.array(elections - 1)))
    row = elections[isr.row]
    status, replica = _when_written(of.rows, row, isr.values, known)
    live = (status == LIVE) & numpy.isin(replica, [LIVE, UNKNOWN]) & (isr.values != of.leader[row - 1])
    _, first = numpy.unique(row[live], return_index=True)
    for place in numpy.flatnonzero(live)[first].tolist():
        election, broker = int(row[place]), int(isr.values[place])
        message = (
            f"leader {of.leader[election]} was elected in leader epoch {of.leader_epoch[election]} from outside of the "
            f"ISR {of.rows['isr'][election - 1].as_py()}, of which broker {broker} was live"
        )
        records = reference_at(of.rows, election - 1), reference_at(of.rows, election)
        subject = f"leader-epoch {of.leader_epoch[election]}"
        key, at_ms = int(of.key[election]), int(of.at_ms[election])
        yield subjects.finding(RuleViolation(UNCLEAN_PASSES_OVER, key, subject, message, records, at_ms))


def _when_written(states: pyarrow.Table, row: Longs, broker: Longs, known: Known) -> tuple[Longs, Longs]:
    """The status of brokers, and of their replicas, when the states in these rows were written; all are aligned."""
    written = states.select(["key", "node", "incarnation", "seq", "first_controller_epoch"]).take(pyarrow.array(row))
    written = written.rename_columns(["key", "node", "incarnation", "seq", "controller_epoch"])
    return known.of_brokers(written, broker), known.of_replicas(written, broker)


_KAFKA: Final = "which brokers were live is in controller.log"
_critical = partial(Explanation, "critical")
RULE: Final = Rule(
    explains={
        ELECTED_IS_LIVE: Explanation(
            "error",
            "A controller elects no broker that it has recorded as dead or shutting down, nor an offline replica.",
            "the controller's log between the two records; clients have no leader until the next election",
            _KAFKA,
            of_whole_logs=True,
        ),
        IN_SYNC_IS_LIVE: _critical(
            "A controller puts no broker into an ISR that it has recorded as dead or shutting down.",
            "the leader's log: what it counted as replicated may be on one broker only",
            _KAFKA,
            of_whole_logs=True,
        ),
        SHUTDOWN_LEAVES_ISR: Explanation(
            "error",
            "An election for a controlled shutdown takes the broker out of the ISR.",
            "the controller's log: acknowledgements wait for the broker until it is seen to be gone",
            _KAFKA,
            of_whole_logs=True,
        ),
        UNCLEAN_PASSES_OVER: _critical(
            "No leader is elected from outside of the ISR while a member of it is live.",
            "why the live member was not elected: it has all committed records, so nothing needed to be lost",
            _KAFKA,
            of_whole_logs=True,
        ),
    },
    reads=tuple(dict.fromkeys((*_READ, *STATES_READ, *TAKEN_READ))),
    check=_check,
    keeps=(STATUSES,),
    withdraw=lambda batch: changes(_passed_over(earlier_window(batch), known_statuses(batch), batch.subjects), ()),
)
