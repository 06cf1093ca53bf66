"""Partitions without a topic id that were deleted and created anew: two partitions of one name, with unrelated epochs.

A topic id tells them apart. Without one, a record of an agent or of a late controller may be of either, so states,
leaders and roles of such a partition are not compared with one another, whichever of its records arrives first; the
audit is incomplete by that. What one incarnation shows in its own order is compared all the same.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy
import pyarrow

from audit.reading.kafka.rows import are_kafka, is_first_role
from audit.records.findings import NOT_COMPARED, Finding, Violation
from audit.records.sorted_runs import Run, gather_all
from audit.records.vectors import Flags, Keys, Longs, group_starts, is_one_of, keys, longs, ranks, text_hashes
from audit.rules.subjects import Subjects
from cluster.model.state_machines import PartitionState
from state_log.record import Kind

CREATED_ANEW: Final = "created-anew-without-topic-id"
_TEXT: Final = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
RECREATIONS: Final = pyarrow.schema(
    {
        "key": pyarrow.uint64(),
        "sub": pyarrow.int64(),
        "controller_epoch": pyarrow.int64(),
        "node": _TEXT,
        "incarnation": _TEXT,
        "seq": pyarrow.int64(),
    }
)
"""Of each partition without a topic id the first record of its deletion and the last of its creation, by controller
epoch and the order of the log. `sub`: even for deletions, odd for creations; 0 and 1 are those of controllers, other
pairs those that one broker of Kafka's shows: there a partition begins at epochs of 0, never to return to them.
"""
_DELETED, _CREATED = 0, 1


class CreatedAnew(NamedTuple):
    """Keys that were so before a batch, and those that are so with it, of the partitions in the batch."""

    before: Keys
    now: Keys


def recreations_of(rows: pyarrow.Table) -> pyarrow.Table:
    """What these records say of deletions and creations, as RECREATIONS, reduced."""
    absent = [PartitionState.NON_EXISTENT.value]
    deleted, created = is_one_of(rows["to_state"], absent), is_one_of(rows["from_state"], absent)
    chosen = is_one_of(rows["kind"], [Kind.PARTITION.value]) & (deleted | created) & _without_id(rows)
    # A controller of Kafka's that takes over creates nothing again, so its second creation follows a deletion, which
    # its log does not show.
    again = chosen & created & are_kafka(rows)
    found = [
        _rows(rows, chosen, numpy.where(deleted, _DELETED, _CREATED)),
        _rows(rows, again, numpy.full(rows.num_rows, _DELETED)),
        *_returns(rows),
    ]
    return reduce_recreations(pyarrow.concat_tables(found))


def _rows(rows: pyarrow.Table, chosen: Flags, sub: Longs) -> pyarrow.Table:
    part = rows.select([*RECREATIONS.names[2:], "key", "kind"]).filter(pyarrow.array(chosen))
    is_role = is_one_of(part["kind"], [Kind.ROLE.value])
    columns = [
        part["key"],
        pyarrow.array(sub[chosen], pyarrow.int64()),
        pyarrow.array(numpy.where(is_role, 0, longs(part["controller_epoch"]))),
        *(part[name] for name in ("node", "incarnation", "seq")),
    ]
    return pyarrow.table(columns, schema=RECREATIONS)


def _returns(rows: pyarrow.Table) -> list[pyarrow.Table]:
    """Of the roles of Kafka's brokers: those at the first epochs as creations, those at later ones as deletions; by
    leader epoch and by partition epoch, for not all lines have both.
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
    """Sorted by key; of each the first deletion and the last creation."""
    rows = rows.unify_dictionaries()
    key, sub, place = keys(rows["key"]), longs(rows["sub"]), _place(rows)
    order = numpy.lexsort((numpy.where(sub & 1 == _CREATED, -place, place), sub, key))
    kept = numpy.ones(len(order), bool)
    kept[1:] = (key[order][1:] != key[order][:-1]) | (sub[order][1:] != sub[order][:-1])
    return rows.take(pyarrow.array(order[kept]))


def created_anew(runs: Sequence[Run], new: pyarrow.Table, rows: pyarrow.Table) -> CreatedAnew:
    """Which of the partitions in these rows were deleted and created afterwards."""
    without_id = numpy.unique(keys(rows["key"])[_without_id(rows)])
    known = gather_all(runs, without_id, RECREATIONS.empty_table())
    return CreatedAnew(_created_after(known), _created_after(pyarrow.concat_tables([known, new])))


def compared(table: pyarrow.Table, anew: CreatedAnew) -> pyarrow.Table:
    """The rows of a table with a `key` that are compared with others."""
    return table.filter(pyarrow.array(~numpy.isin(keys(table["key"]), anew.now))) if len(anew.now) else table


def earlier_rows(runs: Sequence[Run], anew: CreatedAnew, empty: pyarrow.Table) -> pyarrow.Table:
    """What runs have of the partitions that are not compared any more."""
    key = numpy.setdiff1d(anew.now, anew.before)
    return gather_all(runs, key, empty) if len(key) else empty


def not_compared(anew: CreatedAnew, subjects: Subjects) -> list[Finding]:
    """That these partitions are not, each said once."""
    message = "it was deleted and created anew without a topic id: its states and leaders are not compared"
    return [
        subjects.finding(Violation(CREATED_ANEW, key, "created anew", message, (), None), NOT_COMPARED)
        for key in numpy.setdiff1d(anew.now, anew.before).tolist()
    ]


def _without_id(rows: pyarrow.Table) -> Flags:
    absent = rows["topic_id"].is_null().combine_chunks()
    return numpy.asarray(absent.to_numpy(zero_copy_only=False) & (keys(rows["key"]) != 0), bool)


def _place(rows: pyarrow.Table) -> Longs:
    """Numbers with the order of the records in the logs of controllers."""
    order = numpy.lexsort(
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
    reduced = reduce_recreations(rows)
    key, sub, place = keys(reduced["key"]), longs(reduced["sub"]), _place(reduced)
    are_pairs = (key[1:] == key[:-1]) & (sub[1:] == sub[:-1] + 1) & (sub[:-1] & 1 == _DELETED)
    return numpy.unique(key[numpy.flatnonzero(are_pairs & (place[1:] > place[:-1]))])
