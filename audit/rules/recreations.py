"""Partitions without a topic id that were deleted and created again: two partitions of one name, with unrelated epochs.

A topic id tells them apart. Without one, a record of an agent or of a late controller may be of either, so states,
leaders and roles of such a partition are not compared with one another, whichever of its records arrives first; the
audit is incomplete by that. What one incarnation shows in its own order is compared all the same.
"""

from typing import Final, NamedTuple

import numpy
import pyarrow

from audit.reading.kafka.rows import are_kafka, is_first_role
from audit.records.findings import NOT_COMPARED, AuditFinding, RuleViolation
from audit.records.orders import sorted_order
from audit.records.sorted_runs import gather_all
from audit.records.vectors import Flags, Keys, Longs, group_starts, is_one_of, keys, longs, ranks, text_hashes
from audit.rules.rule import KEY, TEXT, BucketBatch, Kept, Rule, once
from cluster.model.state_machines import PartitionState
from state_log.record import Kind

CREATED_ANEW: Final = "created-anew-without-topic-id"
_SCHEMA: Final = pyarrow.schema(
    {**KEY, "controller_epoch": pyarrow.int64(), "node": TEXT, "incarnation": TEXT, "seq": pyarrow.int64()}
)
"""One row for the first record of a partition's deletion and one for the last of its creation, by controller epoch and
the order of the log; only for partitions without a topic id. `sub`: even for deletions, odd for creations; 0 and 1 are
those of controllers, other pairs those that one broker of Apache Kafka shows: there a partition begins at epochs of 0,
never to return to them.
"""
_DELETED, _CREATED = 0, 1


class CreatedAnew(NamedTuple):
    """The partitions of a batch that were deleted and created again, as was known before it, and as is known now.

    Each has sorted keys without repetition; `now` has those of `before`.
    """

    before: Keys
    now: Keys

    @property
    def new(self) -> Keys:
        """The partitions of which this batch has shown it."""
        return numpy.setdiff1d(self.now, self.before)


def recreations_of(rows: pyarrow.Table) -> pyarrow.Table:
    """Read what these records say of deletions and creations, reduced."""
    absent = [PartitionState.NON_EXISTENT.value]
    deleted, created = is_one_of(rows["to_state"], absent), is_one_of(rows["from_state"], absent)
    chosen = is_one_of(rows["kind"], [Kind.PARTITION.value]) & (deleted | created) & _without_id(rows)
    # A controller of Apache Kafka that takes over creates nothing again, so its second creation follows a deletion,
    # which its log does not show.
    again = chosen & created & are_kafka(rows)
    found = [
        _rows(rows, chosen, numpy.where(deleted, _DELETED, _CREATED)),
        _rows(rows, again, numpy.full(rows.num_rows, _DELETED)),
        *_returns(rows),
    ]
    return reduce_recreations(pyarrow.concat_tables(found))


def _rows(rows: pyarrow.Table, chosen: Flags, sub: Longs) -> pyarrow.Table:
    part = rows.select([*_SCHEMA.names[2:], "key", "kind"]).filter(pyarrow.array(chosen))
    is_role = is_one_of(part["kind"], [Kind.ROLE.value])
    columns = [
        part["key"],
        pyarrow.array(sub[chosen], pyarrow.int64()),
        pyarrow.array(numpy.where(is_role, 0, longs(part["controller_epoch"]))),
        *(part[name] for name in ("node", "incarnation", "seq")),
    ]
    return pyarrow.table(columns, schema=_SCHEMA)


def _returns(rows: pyarrow.Table) -> list[pyarrow.Table]:
    """The roles of Apache Kafka's brokers: those at the first epochs as creations, those at later ones as deletions.

    One table by leader epoch and one by partition epoch, for not all lines have both.
    """
    roles = are_kafka(rows) & is_one_of(rows["kind"], [Kind.ROLE.value]) & _without_id(rows)
    if not roles.any():
        return []
    first, of_node = is_first_role(rows), text_hashes(rows["node"]).astype(numpy.int64) << 2
    found = []
    for number, name in enumerate(("leader_epoch", "partition_epoch")):
        epoch = longs(rows[name])
        chosen = roles & (epoch >= 0) & (first | (epoch > 0))
        found.append(_rows(rows, chosen, of_node | 2 * number | numpy.where(first, _CREATED, _DELETED)))
    return found


def reduce_recreations(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key and `sub`; keep the first deletion and the last creation of each."""
    rows = rows.unify_dictionaries()
    key, sub, place = keys(rows["key"]), longs(rows["sub"]), _place(rows)
    order = sorted_order((numpy.where(sub & 1 == _CREATED, -place, place), sub, key))
    kept = numpy.ones(len(order), bool)
    kept[1:] = (key[order][1:] != key[order][:-1]) | (sub[order][1:] != sub[order][:-1])
    return rows.take(pyarrow.array(order[kept]))


RECREATIONS: Final = Kept("recreations", _SCHEMA, lambda batch: recreations_of(batch.rows), reduce_recreations)


@once
def created_anew(batch: BucketBatch) -> CreatedAnew:
    """Find the partitions of the batch that were deleted and created afterwards."""
    without_id = numpy.unique(keys(batch.rows["key"])[_without_id(batch.rows)])
    known = gather_all(batch.runs(RECREATIONS), without_id, _SCHEMA.empty_table())
    now = pyarrow.concat_tables([known, batch.added(RECREATIONS)])
    return CreatedAnew(_created_after(known), _created_after(now))


def compared(table: pyarrow.Table, batch: BucketBatch) -> pyarrow.Table:
    """The rows of a table with a `key` that are compared with others."""
    anew = created_anew(batch).now
    return table.filter(pyarrow.array(~numpy.isin(keys(table["key"]), anew))) if len(anew) else table


@once
def comparable(batch: BucketBatch) -> pyarrow.Table:
    """The records of the batch that are compared with others."""
    return compared(batch.rows, batch)


def earlier(batch: BucketBatch, table: Kept) -> pyarrow.Table:
    """The kept rows of the partitions that are not compared any more, reduced."""
    return table.reduce(gather_all(batch.runs(table), created_anew(batch).new, table.schema.empty_table()))


def _not_compared(batch: BucketBatch) -> list[AuditFinding]:
    message = "it was deleted and created again without a topic id: its states and leaders are not compared"
    return [
        batch.subjects.finding(RuleViolation(CREATED_ANEW, key, "created anew", message, (), None), NOT_COMPARED)
        for key in created_anew(batch).new.tolist()
    ]


def _without_id(rows: pyarrow.Table) -> Flags:
    absent = rows["topic_id"].is_null().combine_chunks()
    return numpy.asarray(absent.to_numpy(zero_copy_only=False) & (keys(rows["key"]) != 0), bool)


def _place(rows: pyarrow.Table) -> Longs:
    """Numbers that have the order of the records in the logs of controllers; aligned with the rows."""
    order = sorted_order(
        (longs(rows["seq"]), ranks(rows["incarnation"]), ranks(rows["node"]), longs(rows["controller_epoch"]))
    )
    columns = [longs(rows[name])[order] for name in ("seq", "controller_epoch")]
    columns += [ranks(rows[name])[order] for name in ("incarnation", "node")]
    starts = group_starts(*columns)
    place = numpy.empty(len(order), numpy.int64)
    # One record may be both: a creation, and what shows that the partition was there.
    place[order] = numpy.repeat(starts, numpy.diff(numpy.append(starts, len(order))))
    return place


def _created_after(rows: pyarrow.Table) -> Keys:
    """The keys, sorted, of partitions with a creation after a deletion."""
    reduced = reduce_recreations(rows)
    key, sub, place = keys(reduced["key"]), longs(reduced["sub"]), _place(reduced)
    are_pairs = (key[1:] == key[:-1]) & (sub[1:] == sub[:-1] + 1) & (sub[:-1] & 1 == _DELETED)
    return numpy.unique(key[numpy.flatnonzero(are_pairs & (place[1:] > place[:-1]))])


RULE: Final = Rule(
    explains={},
    reads=(
        *("key", "kind", "topic_id", "node", "incarnation", "seq", "from_state", "to_state"),
        *("controller_epoch", "leader_epoch", "partition_epoch"),
    ),
    check=_not_compared,
    keeps=(RECREATIONS,),
)
