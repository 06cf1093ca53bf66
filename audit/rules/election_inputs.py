"""Elections against what their own records say of the replicas: one that was not to be elected does not lead.

Source: Kafka ControllerContext.isReplicaOnline; controller rule PS-20.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation
from audit.records.vectors import BrokerLists, Flags, are_present, is_one_of, longs
from audit.rules.record_rules import of_partitions
from audit.rules.rule import REFERENCE, BucketBatch, Explanation, Rule
from audit.rules.subjects import reference
from cluster.model.state_machines import PartitionState
from state_log.record import Kind

ELECTED_WAS_ELECTABLE: Final = "elected-leader-was-electable"
_INPUTS: Final = ("inputs_offline", "inputs_held", "inputs_awaited")


def _check(batch: BucketBatch) -> list[AuditFinding]:
    rows = of_partitions(batch)
    if all(rows[name].null_count == rows.num_rows for name in _INPUTS):
        return []
    elects = is_one_of(rows["kind"], [Kind.PARTITION.value]) & is_one_of(
        rows["to_state"], [PartitionState.ONLINE.value]
    )
    part = rows.select(RULE.reads).filter(pyarrow.array(elects & (longs(rows["leader"]) >= 0)))
    wrong = part.filter(pyarrow.array(_was_excluded(part)))
    return [batch.subjects.finding(_violation(row)) for row in wrong.to_pylist()]


def _was_excluded(rows: pyarrow.Table) -> Flags:
    """Whether the leader is one of those that were not to be elected; aligned with the rows.

    Who asks for an unclean election does not wait for a better replica than a damaged one.
    """
    leader, found = longs(rows["leader"]), numpy.zeros(rows.num_rows, bool)
    for name in _INPUTS:
        named = BrokerLists(rows[name]).contain(leader)
        found |= named & ~are_present(rows["inputs_unclean"]) if name == "inputs_held" else named
    return found


def _violation(row: Mapping[str, Any]) -> RuleViolation:
    name = reference(row)
    said = ", ".join(f"{each.partition('_')[2]} {row[each]}" for each in _INPUTS if row[each])
    message = f"leader {row['leader']} was elected, though its record names the replicas {said}"
    return RuleViolation(ELECTED_WAS_ELECTABLE, row["key"], f"record {name}", message, (name,), row["at_ms"])


RULE: Final = Rule(
    explains={
        ELECTED_WAS_ELECTABLE: Explanation(
            "critical",
            "No replica is elected that the controller knew as offline, damaged or not yet there.",
            "the log directory of the leader: whether its log was opened, and whether records are damaged",
            kafka="the log does not say which replicas were offline",
        )
    },
    reads=("key", "kind", "to_state", "leader", *_INPUTS, "inputs_unclean", *REFERENCE),
    check=_check,
)
