"""Rules on single records about replicas and leaders: assignments, leaders where there is none, and who asked."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation
from audit.records.vectors import ABSENT, BrokerLists, Flags, Longs, are_present, is_one_of, keys, longs
from audit.rules.rule import REFERENCE, BucketBatch, Explanation, Rule
from audit.rules.subjects import reference
from cluster.model.state_machines import PartitionState
from state_log.record import Kind

REPLICAS_WITHOUT_REPETITION: Final = "replicas-without-repetition"
MOVE_WITHIN_REPLICAS: Final = "move-within-replicas"
LEADER_FITS_STATE: Final = "leader-fits-state"
PLAN_BY_REQUEST: Final = "plan-by-request"
_LEADERLESS: Final = tuple(state.value for state in PartitionState if state is not PartitionState.ONLINE)
_ENDED: Final = ("completed", "cancelled")
_ZNODE_PLANS: Final = ("ZkPartitionReassignment", "Startup", "Reelect", "RegisterAndReelect")
"""The events after which a reassignment starts that a tool has written to ZooKeeper. All others name a caller."""
_CALLS: Final = ("ElectLeadersReceived", "AlterPartitionReceived", "ControlledShutdownReceived")
_WITH_CALLER: Final = 2
"""The version of records since which they name the caller."""


def _check(batch: BucketBatch) -> list[AuditFinding]:
    rows = batch.rows.unify_dictionaries()
    of_partition = keys(rows["key"]) != 0
    return [
        batch.subjects.finding(_violation(rule, row))
        for rule, violated in _violations(rows)
        if (wrong := violated & of_partition).any()
        for row in rows.select(RULE.reads).filter(pyarrow.array(wrong)).to_pylist()
    ]


def _violations(rows: pyarrow.Table) -> Iterator[tuple[str, Flags]]:
    """Yield each rule and the records that violate it; aligned with the rows."""
    kinds = {kind: is_one_of(rows["kind"], [kind.value]) for kind in (Kind.ASSIGNMENT, Kind.PARTITION)}
    replicas = BrokerLists(rows["replicas"])
    yield REPLICAS_WITHOUT_REPETITION, replicas.have_repetitions()
    if kinds[Kind.ASSIGNMENT].any():
        yield MOVE_WITHIN_REPLICAS, kinds[Kind.ASSIGNMENT] & _badly_moved(rows, replicas)
    leaderless = is_one_of(rows["to_state"], _LEADERLESS) & (longs(rows["leader"]) >= 0)
    yield LEADER_FITS_STATE, kinds[Kind.PARTITION] & leaderless
    yield PLAN_BY_REQUEST, _unasked(rows, kinds[Kind.ASSIGNMENT])


def _badly_moved(rows: pyarrow.Table, replicas: BrokerLists) -> Flags:
    adding, removing = BrokerLists(rows["adding_replicas"]), BrokerLists(rows["removing_replicas"])
    outside = ~adding.are_within(replicas) | ~removing.are_within(replicas)
    outside[adding.row[numpy.isin(_members(adding), _members(removing))]] = True
    ended = is_one_of(rows["to_state"], _ENDED)
    return numpy.asarray(outside | (ended & (adding.lengths + removing.lengths > 0)), bool)


def _members(lists: BrokerLists) -> Longs:
    """Number each member of each list, by its record and its id; aligned with `lists.values`."""
    return (lists.row << 32) + lists.values


def _unasked(rows: pyarrow.Table, assignments: Flags) -> Flags:
    """Find what nobody is named to have asked for; records that name no event do not say it."""
    started = assignments & is_one_of(rows["to_state"], ["started"])
    found = started & ~is_one_of(rows["cause_event"], _ZNODE_PLANS)
    found |= is_one_of(rows["cause_event"], _CALLS) & (longs(rows["cause_controller"]) == ABSENT)
    found &= ~are_present(rows["principal"]) & are_present(rows["cause_event"])
    return numpy.asarray(found & (longs(rows["v"]) >= _WITH_CALLER), bool)


def _violation(rule: str, row: Mapping[str, Any]) -> RuleViolation:
    name = reference(row)
    return RuleViolation(rule, row["key"], f"record {name}", _MESSAGES[rule].format(**row), (name,), row["at_ms"])


_MESSAGES: Final = {
    REPLICAS_WITHOUT_REPETITION: "the replicas {replicas} name a broker twice",
    MOVE_WITHIN_REPLICAS: (
        "a reassignment is {to_state} with the replicas {replicas}, of which {adding_replicas} are being added and "
        "{removing_replicas} removed"
    ),
    LEADER_FITS_STATE: "the partition becomes {to_state} with leader {leader}",
    PLAN_BY_REQUEST: "{node} records this as caused by {cause_event}, and nobody who asked for it",
}
_EVENT: Final = "the event that led to it, and what wrote the topic's znode"
RULE: Final = Rule(
    explains={
        REPLICAS_WITHOUT_REPETITION: Explanation(
            "error", "The replicas of a partition name each broker once.", _EVENT, kafka="INFO"
        ),
        MOVE_WITHIN_REPLICAS: Explanation(
            "error",
            "Replicas that are being added or removed are among the replicas, none is both, and the end of a "
            "reassignment leaves none.",
            _EVENT,
            kafka="the log does not name the replicas of a reassignment",
        ),
        LEADER_FITS_STATE: Explanation(
            "error",
            "A partition that becomes new, offline or gone has no leader.",
            "the election, and which brokers were live",
            kafka="INFO",
        ),
        PLAN_BY_REQUEST: Explanation(
            "error",
            "A reassignment is started by a call or by a znode that a tool wrote, and what follows from a call names "
            "who called.",
            "the controller's diagnostics at that time: another program wrote the record, or the call was lost",
            kafka="the log does not say what led to a change",
        ),
    },
    reads=(
        *("key", "kind", "v", "to_state", "leader"),
        *("replicas", "adding_replicas", "removing_replicas", "principal", "cause_event", "cause_controller"),
        *REFERENCE,
    ),
    check=_check,
)
