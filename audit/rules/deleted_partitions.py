"""Partitions that were deleted, and when: what held of them last holds no more, in whichever order records arrive."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy
import pyarrow

from audit.records.sorted_runs import Run, gather_all
from audit.records.vectors import ABSENT, Keys, Longs, group_starts, is_one_of, keys, longs
from cluster.model.state_machines import PartitionState
from state_log.record import Kind

DELETIONS: Final = pyarrow.schema({"key": pyarrow.uint64(), "sub": pyarrow.int64()})
"""One row for each. `sub`: when it was deleted, by the clock of the controller; 0: unknown, for version 1 of the
rules did not keep it.
"""


class Deletions(NamedTuple):
    """Of some partitions, as DELETIONS: those that were known before a batch, and those that are known with it."""

    before: pyarrow.Table
    now: pyarrow.Table


def deletions_of(rows: pyarrow.Table) -> pyarrow.Table:
    """The partitions that these records say are deleted, as DELETIONS, reduced."""
    absent = is_one_of(rows["to_state"], [PartitionState.NON_EXISTENT.value])
    chosen = absent & is_one_of(rows["kind"], [Kind.PARTITION.value])
    return reduce_deletions(_table(keys(rows["key"])[chosen], longs(rows["at_ms"])[chosen]))


def reduce_deletions(rows: pyarrow.Table) -> pyarrow.Table:
    """Sorted by key, each once with its first time."""
    key, at_ms = keys(rows["key"]), longs(rows["sub"])
    order = numpy.lexsort((at_ms, key))
    first = order[group_starts(key[order])]
    return _table(key[first], at_ms[first])


def deletions_among(runs: Sequence[Run], new: pyarrow.Table, key: Keys) -> Deletions:
    """The deletions of these partitions, and those by the new records."""
    before = gather_all(runs, numpy.unique(key), DELETIONS.empty_table())
    return Deletions(reduce_deletions(before), reduce_deletions(pyarrow.concat_tables([before, new])))


def deleted_at(deletions: pyarrow.Table, key: Keys) -> Longs:
    """When these partitions were deleted; ABSENT: they were not, or it is unknown when."""
    known, at_ms = keys(deletions["key"]), longs(deletions["sub"])
    if not len(known):
        return numpy.full(len(key), ABSENT)
    place = numpy.minimum(numpy.searchsorted(known, key), len(known) - 1)
    return numpy.where((known[place] == key) & (at_ms[place] > 0), at_ms[place], ABSENT)


def _table(key: Keys, at_ms: Longs) -> pyarrow.Table:
    return pyarrow.table([key, at_ms], schema=DELETIONS)
