"""Partitions that were deleted: what held of them last holds no more, in whichever order their records arrive."""

from collections.abc import Sequence
from typing import Final

import numpy
import pyarrow

from audit.records.sorted_runs import Run
from audit.records.vectors import Keys, is_one_of, keys
from cluster.state_machines import PartitionState
from state_log.record import Kind

DELETIONS: Final = pyarrow.schema({"key": pyarrow.uint64(), "sub": pyarrow.int64()})
"""One row for each; `sub` is 0."""


def deletions_of(rows: pyarrow.Table) -> pyarrow.Table:
    """The partitions that these records say are deleted, as DELETIONS, reduced."""
    absent = is_one_of(rows["to_state"], [PartitionState.NON_EXISTENT.value])
    key = keys(rows["key"])[absent & is_one_of(rows["kind"], [Kind.PARTITION.value])]
    return reduce_deletions(pyarrow.table([key, numpy.zeros(len(key), numpy.int64)], schema=DELETIONS))


def reduce_deletions(rows: pyarrow.Table) -> pyarrow.Table:
    """Sorted by key, each once."""
    key = numpy.unique(keys(rows["key"]))
    return pyarrow.table([key, numpy.zeros(len(key), numpy.int64)], schema=DELETIONS)


def deleted_partitions(runs: Sequence[Run], new: pyarrow.Table, key: Keys) -> Keys:
    """Those that were deleted by the new records, and those of these keys that were deleted before."""
    found = [keys(new["key"])]
    for run in runs:
        bounds = run.find(key, numpy.zeros(len(key), numpy.int64))
        found.append(key[bounds.first < bounds.end])
    return numpy.unique(numpy.concatenate(found))
