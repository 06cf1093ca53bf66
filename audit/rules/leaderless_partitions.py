"""Partitions that a controller left without a leader although a replica in sync was live, by its own records before.

When a broker dies the controller elects first, and writes that nobody leads only where it found nobody. At its start it
first takes offline replicas out of ISRs, and elects then. Source: Kafka KafkaController.onReplicasBecomeOffline,
ZkReplicaStateMachine.doRemoveReplicasFromIsr.
"""

from typing import Any, Final

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation
from audit.records.vectors import ABSENT, BrokerLists, Flags, Longs, is_one_of, longs
from audit.rules.broker_statuses import LIVE, STATUSES_READ, UNKNOWN
from audit.rules.elected_brokers import known_statuses
from audit.rules.record_rules import of_partitions
from audit.rules.rule import BucketBatch, Explanation, Rule
from audit.rules.subjects import reference
from cluster.model.broker import NO_LEADER
from state_log.reasons import REPLICA_OFFLINE
from state_log.record import Kind

LEADERLESS_IN_SYNC: Final = "leaderless-though-in-sync"
_INPUTS: Final = ("inputs_offline", "inputs_held", "inputs_awaited")
_STARTS: Final = ("Startup", "Reelect", "RegisterAndReelect")
"""The events by which a controller becomes active."""


def _check(batch: BucketBatch) -> list[AuditFinding]:
    rows = of_partitions(batch)
    leaderless = (longs(rows["leader"]) == NO_LEADER) & (longs(rows["controller_epoch"]) != ABSENT)
    leaderless &= is_one_of(rows["reason"], [REPLICA_OFFLINE]) & is_one_of(rows["kind"], [Kind.ISR.value])
    leaderless &= ~is_one_of(rows["cause_event"], _STARTS)
    if not leaderless.any():
        return []
    part = rows.select(RULE.reads).filter(pyarrow.array(leaderless))
    isr = BrokerLists(part["isr"])
    each = part.take(pyarrow.array(isr.row))
    could = _could_lead(batch, each, isr.values)
    _, first = numpy.unique(isr.row[could], return_index=True)
    return [
        batch.subjects.finding(_violation(each.slice(place, 1).to_pylist()[0], int(isr.values[place])))
        for place in numpy.flatnonzero(could)[first].tolist()
    ]


def _could_lead(batch: BucketBatch, rows: pyarrow.Table, broker: Longs) -> Flags:
    """Whether a member of the ISR of each row could have been elected; aligned."""
    known = known_statuses(batch)
    could = (broker != longs(rows["broker"])) & (known.of_brokers(rows, broker) == LIVE)
    could &= numpy.isin(known.of_replicas(rows, broker), [LIVE, UNKNOWN])
    for name in _INPUTS:
        could &= ~BrokerLists(rows[name]).contain(broker)
    return numpy.asarray(could, bool)


def _violation(row: dict[str, Any], broker: int) -> RuleViolation:
    name = reference(row)
    message = f"nobody leads when replica {row['broker']} is offline, though broker {broker} of the ISR was live"
    return RuleViolation(LEADERLESS_IN_SYNC, row["key"], f"record {name}", message, (name,), row["at_ms"])


RULE: Final = Rule(
    explains={
        LEADERLESS_IN_SYNC: Explanation(
            "error",
            "A partition is left without a leader only if no other member of its ISR is live.",
            "the controller's log before the record: why it elected nobody; clients have no leader",
            kafka="which brokers were live is in controller.log",
            of_whole_logs=True,
        )
    },
    reads=tuple(dict.fromkeys((*STATUSES_READ, "leader", "isr", "reason", "at_ms", "cause_event", *_INPUTS))),
    check=_check,
)
