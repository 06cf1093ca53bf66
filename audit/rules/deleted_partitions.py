"""Partitions that were deleted, and when: what held of them last holds no more, in whichever order records arrive."""

from typing import Final, NamedTuple

import numpy
import pyarrow

from audit.records.orders import sorted_order
from audit.records.sorted_runs import gather_all
from audit.records.vectors import ABSENT, Keys, Longs, group_starts, is_one_of, keys, longs
from audit.rules.rule import KEY, BucketBatch, Kept
from cluster.model.state_machines import PartitionState
from state_log.record import Kind

_SCHEMA: Final = pyarrow.schema(KEY)


class KnownDeletions(NamedTuple):
    """The deletions of some partitions that were known before a batch, and those that are known with it.

    Both are rows of DELETIONS, reduced.
    """

    before: pyarrow.Table
    now: pyarrow.Table


def deletions_of(rows: pyarrow.Table) -> pyarrow.Table:
    """The partitions that these records say are deleted, reduced."""
    absent = is_one_of(rows["to_state"], [PartitionState.NON_EXISTENT.value])
    chosen = absent & is_one_of(rows["kind"], [Kind.PARTITION.value])
    return reduce_deletions(_table(keys(rows["key"])[chosen], longs(rows["at_ms"])[chosen]))


def reduce_deletions(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key; keep the first time of each."""
    key, at_ms = keys(rows["key"]), longs(rows["sub"])
    order = sorted_order((at_ms, key))
    first = order[group_starts(key[order])]
    return _table(key[first], at_ms[first])


DELETIONS: Final = Kept("deletions", _SCHEMA, lambda batch: deletions_of(batch.rows), reduce_deletions)
"""One row for each deleted partition. `sub`: when it was deleted, by the clock of the controller, in ms since 1970; 0:
unknown, for version 1 of the rules did not keep it.
"""


def deletions_among(batch: BucketBatch, key: Keys) -> KnownDeletions:
    """The known deletions of these partitions, and with the batch all that it shows."""
    before = gather_all(batch.runs(DELETIONS), numpy.unique(key), _SCHEMA.empty_table())
    now = pyarrow.concat_tables([before, batch.added(DELETIONS)])
    return KnownDeletions(reduce_deletions(before), reduce_deletions(now))


def deleted_at(deletions: pyarrow.Table, key: Keys) -> Longs:
    """Find when these partitions were deleted, in ms since 1970; ABSENT: they were not, or it is unknown when.

    `deletions`: rows of DELETIONS, reduced. Aligned with `key`, which has any order.
    """
    known, at_ms = keys(deletions["key"]), longs(deletions["sub"])
    if not len(known):
        return numpy.full(len(key), ABSENT)
    place = numpy.minimum(numpy.searchsorted(known, key), len(known) - 1)
    return numpy.where((known[place] == key) & (at_ms[place] > 0), at_ms[place], ABSENT)


def _table(key: Keys, at_ms: Longs) -> pyarrow.Table:
    return pyarrow.table([key, at_ms], schema=_SCHEMA)
