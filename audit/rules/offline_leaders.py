"""Replicas that become offline: each of their partitions has another leader by then, or none.

The controller elects first and moves the replicas then, so that the log of one controller shows both in this order.
Source: Kafka KafkaController.onReplicasBecomeOffline.
"""

from typing import Final

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation
from audit.records.orders import sorted_order
from audit.records.sealed_runs import Sealing
from audit.records.sorted_runs import NOTHING, SortedRun, gather, neighbours
from audit.records.vectors import ABSENT, Flags, Keys, Longs, group_starts, is_one_of, keys, longs, mixed
from audit.rules.machine_steps import log_keys
from audit.rules.recreations import comparable
from audit.rules.rule import KEY, REFERENCE, BucketBatch, Explanation, Kept, Rule
from audit.rules.subjects import reference_at
from cluster.model.broker import NO_LEADER
from cluster.model.state_machines import PartitionState, ReplicaState
from state_log.histories import WRITTEN_BY_CONTROLLERS
from state_log.record import Kind

OFFLINE_LEADS: Final = "offline-replica-does-not-lead"
_SCHEMA: Final = pyarrow.schema({**KEY, "leader": pyarrow.int32()})
"""One row for each state that a controller recorded, and each end of a partition. `key`: of a term and a partition;
`sub`: the number of the record.
"""
_READ: Final = ("key", "kind", "broker", "leader", "to_state", "controller_epoch", *REFERENCE)


def _term_keys(rows: pyarrow.Table) -> Keys:
    """Hash the partition and the controller's term of each row; aligned."""
    return mixed(mixed(log_keys(rows) + longs(rows["controller_epoch"]).astype(numpy.uint64)) ^ keys(rows["key"]))


def _of_controllers(rows: pyarrow.Table, chosen: Flags) -> pyarrow.Table:
    """The chosen records that controllers wrote about partitions."""
    chosen = chosen & (longs(rows["controller_epoch"]) != ABSENT) & (keys(rows["key"]) != 0)
    return rows.select(_READ).filter(pyarrow.array(chosen))


def leaders_of(rows: pyarrow.Table) -> pyarrow.Table:
    """Read whom controllers knew as leaders by these records, reduced; nobody leads a partition that is gone."""
    states = is_one_of(rows["kind"], [kind.value for kind in WRITTEN_BY_CONTROLLERS])
    leader, gone = longs(rows["leader"]), is_one_of(rows["to_state"], [PartitionState.NON_EXISTENT.value])
    part = _of_controllers(rows, states & ((leader != ABSENT) | gone))
    gone = is_one_of(part["to_state"], [PartitionState.NON_EXISTENT.value])
    leader = numpy.where(gone, NO_LEADER, longs(part["leader"])).astype(numpy.int32)
    return reduce_leaders(pyarrow.table([_term_keys(part), part["seq"], leader], schema=_SCHEMA))


def reduce_leaders(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key and number of the record; keep one row of each, the same in whatever order they came."""
    key, sub = keys(rows["key"]), longs(rows["sub"])
    order = sorted_order((longs(rows["leader"]), sub, key))
    return rows.take(pyarrow.array(order[group_starts(key[order], sub[order])]))


LEADERS: Final = Kept(
    "leaders", _SCHEMA, lambda batch: leaders_of(comparable(batch)), reduce_leaders, Sealing(times=(), stay=1)
)


def _check(batch: BucketBatch) -> list[AuditFinding]:
    rows = comparable(batch)
    offline = is_one_of(rows["kind"], [Kind.REPLICA.value]) & is_one_of(rows["to_state"], [ReplicaState.OFFLINE.value])
    rows = _of_controllers(rows, offline & (longs(rows["broker"]) != ABSENT))
    if not rows.num_rows:
        return []
    before, leader = _last_leaders(batch, rows)
    broker = longs(rows["broker"])
    wrong = (before != NOTHING) & (leader == broker) & (leader != NO_LEADER)
    return [_finding(batch, rows, row, int(before[row]), int(broker[row])) for row in numpy.flatnonzero(wrong).tolist()]


def _last_leaders(batch: BucketBatch, rows: pyarrow.Table) -> tuple[Longs, Longs]:
    """Find the last record of each row's term and partition that names a leader: its number, and the leader.

    Both are aligned with the rows; the number is NOTHING where there is none.
    """
    runs, key = batch.runs(LEADERS).with_open(batch.added(LEADERS)), _term_keys(rows)
    before, _, _ = neighbours(runs, key, longs(rows["seq"]) + 1)
    known = before != NOTHING
    found = reduce_leaders(gather(runs, key[known], before[known], _SCHEMA.empty_table()))
    leader = numpy.full(len(key), ABSENT)
    leader[known] = longs(found["leader"])[SortedRun(found).find(key[known], before[known]).first]
    return before, leader


def _finding(batch: BucketBatch, rows: pyarrow.Table, row: int, before: int, broker: int) -> AuditFinding:
    name = reference_at(rows, row)
    state = f"{name.rpartition('/')[0]}/{before}"
    message = f"replica {broker} became offline, and leads by the controller's last record of the partition, {before}"
    key, at_ms = int(keys(rows["key"])[row]), rows["at_ms"][row].as_py()
    return batch.subjects.finding(RuleViolation(OFFLINE_LEADS, key, f"record {name}", message, (state, name), at_ms))


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
    reads=_READ,
    check=_check,
    keeps=(LEADERS,),
)
