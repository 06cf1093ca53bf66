"""Neighbours among kept rows: which pairs stand beside one another before a batch, and which do with its rows.

A rule between neighbours finds what holds of the pairs before the batch and of those with it; the difference is what
the batch changes. So its findings depend on the rows, not on the order in which these arrive.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy
import pyarrow

from audit.records.orders import sorted_order
from audit.records.sorted_runs import NOTHING, SortedRun, gather, neighbours
from audit.records.vectors import Flags, Keys, Longs, group_starts, keys, longs, unique_pairs
from audit.rules.rule import BucketBatch, Kept

_NO_ROWS: Final = numpy.zeros(0, numpy.int64)


class Pairs(NamedTuple):
    """Neighbours, as numbers of rows or groups; aligned."""

    before: Longs
    after: Longs


class Touched(NamedTuple):
    """The (key, sub) of new rows, each once, and what `records.sorted_runs.neighbours` has for them; all aligned."""

    key: Keys
    sub: Longs
    lower: Longs
    higher: Longs
    present: Flags

    @classmethod
    def of(cls, batch: BucketBatch, table: Kept) -> "Touched":
        """The rows that a batch adds to this table."""
        new = batch.added(table)
        key, sub = unique_pairs(keys(new["key"]), longs(new["sub"]))
        return cls(key, sub, *neighbours(batch.runs(table), key, sub))

    def known(self, batch: BucketBatch, table: Kept) -> pyarrow.Table:
        """The rows of earlier batches that are touched, or stand beside a touched one."""
        key, sub, lower, higher, _ = self
        near_key = numpy.concatenate((key, key[lower != NOTHING], key[higher != NOTHING]))
        near_sub = numpy.concatenate((sub, lower[lower != NOTHING], higher[higher != NOTHING]))
        return gather(batch.runs(table), *unique_pairs(near_key, near_sub), table.schema.empty_table())


def pairs_before(touched: Touched, where: Callable[[Keys, Longs], Longs]) -> Pairs:
    """The pairs that have one of the touched in them, or are parted by one. `where`: the number of a (key, sub)."""
    key, sub, lower, higher, present = touched
    has_lower, has_higher = lower != NOTHING, higher != NOTHING
    chosen = [
        (present & has_lower, lower, sub),
        (present & has_higher, sub, higher),
        (~present & has_lower & has_higher, lower, higher),
    ]
    befores = [where(key[which], low[which]) for which, low, _ in chosen]
    afters = [where(key[which], high[which]) for which, _, high in chosen]
    before, after = numpy.concatenate(befores), numpy.concatenate(afters)
    order = sorted_order((after, before))
    each = order[group_starts(before[order], after[order])]
    return Pairs(before[each], after[each])


def pairs_now(key: Keys, touched: Flags) -> Pairs:
    """The pairs that have one of the touched in them. `touched`: aligned with `key`, which is sorted."""
    same = key[1:] == key[:-1]
    before = numpy.flatnonzero(same & (touched[1:] | touched[:-1]))
    return Pairs(before, before + 1)


class Neighbours(NamedTuple):
    """Rows of a table of which each (key, sub) has one, and the pairs of them that a batch touches."""

    rows: pyarrow.Table
    pairs: Pairs


def neighbours_of(batch: BucketBatch, table: Kept) -> tuple[Neighbours, Neighbours]:
    """Find the neighbours that a batch touches: as they stood before it, and as they stand with it.

    `table`: one whose `reduce` leaves one row for each (key, sub).
    """
    new, empty = batch.added(table), table.schema.empty_table()
    if not new.num_rows:
        nothing = Neighbours(empty, Pairs(_NO_ROWS, _NO_ROWS))
        return nothing, nothing
    touched = Touched.of(batch, table)
    known = touched.known(batch, table)
    before, now = table.reduce(known), table.reduce(pyarrow.concat_tables([known, new]))
    key = keys(now["key"])
    is_touched = numpy.zeros(len(key), bool)
    is_touched[SortedRun(now).find(touched.key, touched.sub).first] = True
    old_pairs = pairs_before(touched, lambda k, s: SortedRun(before).find(k, s).first)
    return Neighbours(before, old_pairs), Neighbours(now, pairs_now(key, is_touched))
