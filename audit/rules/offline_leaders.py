"""Replicas that become offline: each of their partitions has another leader by then, or none.

The controller elects first and moves the replicas then, so that the log of one controller shows both in this order.
Source: Kafka KafkaController.onReplicasBecomeOffline.
"""

from typing import Final, NamedTuple

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation
from audit.records.sorted_runs import SortedRun, gather_all
from audit.records.vectors import ABSENT, Flags, Longs, is_one_of, keys, longs
from audit.rules.machine_steps import log_keys
from audit.rules.partition_states import STATES_READ, WRITTEN
from audit.rules.recreations import comparable
from audit.rules.rule import REFERENCE, BucketBatch, Explanation, Rule
from audit.rules.subjects import reference_at
from cluster.model.state_machines import ReplicaState
from state_log.histories import NO_EPOCH
from state_log.record import Kind

OFFLINE_LEADS: Final = "offline-replica-does-not-lead"
_NONE: Final = -1
_READ: Final = ("key", "kind", "broker", "to_state", "controller_epoch", *REFERENCE)


def _check(batch: BucketBatch) -> list[AuditFinding]:
    offline = _became_offline(comparable(batch))
    if not offline.num_rows:
        return []
    found = _still_lead(batch, offline, batch.added(WRITTEN))
    # What a batch has of a partition is newer than what earlier ones had of it, and the newest of that is not sealed.
    others = offline.filter(pyarrow.array(~found.known))
    earlier = gather_all(batch.runs(WRITTEN).open, numpy.unique(keys(others["key"])), WRITTEN.schema.empty_table())
    return [*found.findings, *_still_lead(batch, others, WRITTEN.reduce(earlier)).findings]


class _Found(NamedTuple):
    """Holds which replicas have a known state of their partition, and the findings about these."""

    known: Flags
    findings: list[AuditFinding]


def _became_offline(rows: pyarrow.Table) -> pyarrow.Table:
    chosen = is_one_of(rows["kind"], [Kind.REPLICA.value]) & is_one_of(rows["to_state"], [ReplicaState.OFFLINE.value])
    chosen &= (longs(rows["controller_epoch"]) != ABSENT) & (keys(rows["key"]) != 0)
    return rows.select(_READ).filter(pyarrow.array(chosen & (longs(rows["broker"]) != ABSENT)))


def _still_lead(batch: BucketBatch, offline: pyarrow.Table, states: pyarrow.Table) -> _Found:
    """Find the replicas that lead by the last of these states that their controller knew. `states`: reduced."""
    last = _last_known(offline, states)
    broker, known = longs(offline["broker"]), last != _NONE
    leads = known.copy()
    leads[known] = longs(states["leader"])[last[known]] == broker[known]
    findings = []
    for row in numpy.flatnonzero(leads).tolist():
        state = int(last[row])
        name = reference_at(offline, row)
        message = (
            f"replica {broker[row]} became offline while it led, in leader epoch {states['leader_epoch'][state]} and "
            f"partition epoch {states['sub'][state]}"
        )
        # The record of the state is not named: the controller may have loaded it, and which of the two comes first is
        # not known.
        key, at_ms = int(keys(offline["key"])[row]), offline["at_ms"][row].as_py()
        violation = RuleViolation(OFFLINE_LEADS, key, f"record {name}", message, (name,), at_ms)
        findings.append(batch.subjects.finding(violation))
    return _Found(known, findings)


def _last_known(offline: pyarrow.Table, states: pyarrow.Table) -> Longs:
    """The last state of each replica's partition that the controller wrote in this term, or found; _NONE: unknown."""
    bounds = SortedRun(states).find(keys(offline["key"]), numpy.zeros(offline.num_rows, numpy.int64))
    lengths = bounds.stop - bounds.start
    row = numpy.repeat(numpy.arange(offline.num_rows), lengths)
    place = numpy.arange(len(row)) + numpy.repeat(bounds.start - (numpy.cumsum(lengths) - lengths), lengths)
    epoch, first = longs(offline["controller_epoch"])[row], longs(states["first_controller_epoch"])[place]
    is_own = (first == epoch) & (log_keys(states)[place] == log_keys(offline)[row])
    is_own &= longs(states["seq"])[place] <= longs(offline["seq"])[row]
    is_loaded = (first != NO_EPOCH) & (first < epoch) & (longs(states["last_controller_epoch"])[place] >= epoch)
    known = is_own | is_loaded
    last = numpy.full(offline.num_rows, _NONE)
    numpy.maximum.at(last, row[known], place[known])
    return last


RULE: Final = Rule(
    explains={
        OFFLINE_LEADS: Explanation(
            "error",
            "A replica that becomes offline does not lead any more.",
            "the controller's log before the record: it elected nobody when the broker died or its log directory "
            "failed, and clients still go to it",
            kafka="TRACE",
            of_whole_logs=True,
        )
    },
    reads=tuple(dict.fromkeys((*_READ, *STATES_READ))),
    check=_check,
)
