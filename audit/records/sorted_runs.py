"""Tables kept as sorted runs: each batch adds one immutable run, and runs of like size are merged.

A table has the columns `key` (uint64) and `sub` (int64), by which its rows are sorted, and others. Lookups are binary
searches over whole arrays of keys. What a batch costs depends on its own rows, not on those that are there already, and
memory holds only what is touched: runs are mapped from files. Source: O'Neil et al., The log-structured merge-tree.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import numpy
import pyarrow

from audit.records.vectors import Flags, Keys, Longs, are_in_order, in_one_chunk, keys, longs

_GROWTH: Final = 3
"""The least ratio of the rows of a run to those of the next."""
_MANY_KEYS: Final = 1_000
"""Keys that are sorted before they are searched."""
NOTHING: Final = numpy.int64(numpy.iinfo(numpy.int64).min)
HIGHEST: Final = numpy.int64(numpy.iinfo(numpy.int64).max)
FLOORS: Final = pyarrow.schema({"key": pyarrow.uint64(), "sub": pyarrow.int64()})
_NO_FLOORS: Final = FLOORS.empty_table()


class Bounds(NamedTuple):
    """Says where the rows of searched (key, sub) are; all columns are aligned with these.

    Rows `first` up to, not including, `end` have the key and sub; rows `start` up to, not including, `stop` have the
    key.
    """

    start: Longs
    first: Longs
    end: Longs
    stop: Longs


class SortedRun:
    """Rows sorted by (key, sub). `key` and `sub` are columns of `rows`, and aligned with them."""

    def __init__(self, rows: pyarrow.Table) -> None:
        self.rows = rows
        self.key, self.sub = keys(rows["key"]), longs(rows["sub"])

    def find(self, key: Keys, sub: Longs) -> Bounds:
        """Find where the rows of each (key, sub) are, or would be. `key` and `sub` are aligned, in any order."""
        start, stop = self._of_keys(key)
        first = self._lower_bound(start, stop, sub)
        # Most have one row or none: only the others are searched for their last one.
        end = first + self._are(first, stop, sub)
        more = numpy.flatnonzero((end > first) & self._are(end, stop, sub))
        end[more] = self._lower_bound(end[more], stop[more], sub[more] + 1)
        return Bounds(start, first, end, stop)

    def _of_keys(self, key: Keys) -> tuple[Longs, Longs]:
        """Find the first row of each key, and the first one after its rows; aligned with the keys."""
        if len(key) < _MANY_KEYS or (key[1:] >= key[:-1]).all():
            return self._searched(key)
        # Keys are hashes: searches in their order find what the one before has brought into the processor's cache.
        order = numpy.argsort(key)
        start, stop = numpy.empty(len(key), numpy.int64), numpy.empty(len(key), numpy.int64)
        start[order], stop[order] = self._searched(key[order])
        return start, stop

    def _searched(self, key: Keys) -> tuple[Longs, Longs]:
        start, stop = (numpy.searchsorted(self.key, key, side) for side in ("left", "right"))
        return start.astype(numpy.int64), stop.astype(numpy.int64)

    def _are(self, place: Longs, stop: Longs, sub: Longs) -> Flags:
        """Whether the rows at these places, if they are before `stop`, have this sub; all are aligned."""
        within = place < stop
        return within & (self.sub[numpy.where(within, place, 0)] == sub) if len(self.sub) else within

    def _lower_bound(self, start: Longs, stop: Longs, sub: Longs) -> Longs:
        low, length = start.copy(), stop - start
        while length.any():
            half = length >> 1
            less = self._is_less(low + half, length, sub)
            low += numpy.where(less, half + 1, 0)
            length = numpy.where(less, length - half - 1, half)
        return low

    def _is_less(self, place: Longs, length: Longs, sub: Longs) -> Flags:
        is_there = length > 0
        return is_there & (self.sub[numpy.where(is_there, place, 0)] < sub)


class SealedRows(Protocol):
    """Rows of a table that were sealed together: see `audit.records.sealed_runs`."""

    def between(self, key: Keys, low: Longs, high: Longs, reach: int) -> SortedRun | None:
        """Read the rows of each key from `low` to `high`, and `reach` rows on either side; these are aligned."""

    def whole(self) -> SortedRun:
        """Read all rows."""


class Runs:
    """The runs of a table: `open`, the oldest first, and below the floors the sealed segments.

    `floors`: a row for each key that has sealed rows, all of which have a lower `sub`. An open row has the floor.
    """

    def __init__(
        self, open_runs: Sequence[SortedRun], floors: SortedRun | None = None, segments: Sequence["SealedRows"] = ()
    ) -> None:
        self.open, self._floors, self.segments = list(open_runs), floors, list(segments)

    def with_open(self, rows: pyarrow.Table) -> "Runs":
        """These runs, and sorted rows as the newest open one."""
        return Runs([*self.open, SortedRun(rows)], self._floors, self.segments)

    @property
    def floor_rows(self) -> pyarrow.Table:
        """The floors as a table, sorted by key."""
        return _NO_FLOORS if self._floors is None else self._floors.rows

    def floors(self, key: Keys) -> Longs:
        """The floor of each key; NOTHING where nothing is sealed. Aligned with the keys."""
        return floors_of(self.floor_rows, key)

    def at(self, key: Keys, sub: Longs) -> list[SortedRun]:
        """The runs that have rows of these (key, sub)."""
        return [*self._sealed(key, sub, sub, 0, sub < self.floors(key)), *self.open]

    def beside(self, key: Keys, sub: Longs) -> list[SortedRun]:
        """The runs that have rows of these (key, sub), or the nearest ones of their keys."""
        return [*self._sealed(key, sub, sub, 1, sub <= self.floors(key)), *self.open]

    def of(self, key: Keys) -> list[SortedRun]:
        """The runs that have rows of these keys."""
        low, high = numpy.full(len(key), NOTHING), numpy.full(len(key), HIGHEST)
        return self.between(key, low, high)

    def between(
        self, key: Keys, low: Longs, high: Longs, reach: int = 0, chosen: Flags | None = None
    ) -> list[SortedRun]:
        """The runs that have rows of each key from `low` to `high`, and sealed ones `reach` rows on either side.

        `chosen`: the keys whose sealed rows are wanted, by default those with any in the range. All are aligned.
        """
        wanted = low < self.floors(key) if chosen is None else chosen
        return [*self._sealed(key, low, high, reach, wanted), *self.open]

    def every(self) -> Iterator[SortedRun]:
        """Yield all runs, one segment at a time."""
        yield from (segment.whole() for segment in self.segments)
        yield from self.open

    def _sealed(self, key: Keys, low: Longs, high: Longs, reach: int, wanted: Flags) -> Iterator[SortedRun]:
        if self.segments and wanted.any():
            found = (segment.between(key[wanted], low[wanted], high[wanted], reach) for segment in self.segments)
            yield from (run for run in found if run is not None)


def floors_of(floors: pyarrow.Table, key: Keys) -> Longs:
    """The floor of each key; NOTHING where it has none. Aligned with the keys."""
    known, sub = keys(floors["key"]), longs(floors["sub"])
    if not len(known):
        return numpy.full(len(key), NOTHING)
    place = numpy.minimum(numpy.searchsorted(known, key), len(known) - 1)
    return numpy.where(known[place] == key, sub[place], NOTHING)


AnyRuns = Runs | Sequence[SortedRun]


def gather(runs: AnyRuns, key: Keys, sub: Longs, empty: pyarrow.Table) -> pyarrow.Table:
    """Gather all rows of these (key, sub), oldest run first; `empty` has their columns."""
    found = runs.at(key, sub) if isinstance(runs, Runs) else runs
    bounds = (run.find(key, sub) for run in found)
    return joined([run.rows.take(expand(b.first, b.end)) for run, b in zip(found, bounds, strict=True)], empty)


def gather_all(runs: AnyRuns, key: Keys, empty: pyarrow.Table) -> pyarrow.Table:
    """Gather all rows of these keys, oldest run first; `empty` has their columns."""
    found = runs.of(key) if isinstance(runs, Runs) else runs
    bounds = (run.find(key, numpy.zeros(len(key), numpy.int64)) for run in found)
    return joined([run.rows.take(expand(b.start, b.stop)) for run, b in zip(found, bounds, strict=True)], empty)


def joined(tables: Iterable[pyarrow.Table], empty: pyarrow.Table) -> pyarrow.Table:
    """The rows of these tables in one chunk; `empty` has their columns."""
    found = [table for table in tables if table.num_rows]
    if len(found) > 1:
        return in_one_chunk(found)
    return found[0] if found else empty


def expand(first: Longs, end: Longs) -> Longs:
    """The numbers first[i] up to, not including, end[i] of every i, each once, ascending."""
    lengths = numpy.maximum(end - first, 0)
    starts = numpy.repeat(first - (numpy.cumsum(lengths) - lengths), lengths)
    found = starts + numpy.arange(lengths.sum(), dtype=numpy.int64)
    return found if are_in_order(found) else numpy.unique(found)


def neighbours(runs: AnyRuns, key: Keys, sub: Longs) -> tuple[Longs, Longs, Flags]:
    """Find the neighbours of each (key, sub) in the runs; all results are aligned with `key` and `sub`.

    The next lower and the next higher sub of the key, NOTHING if there is none, and whether there are rows of the (key,
    sub) itself.
    """
    lower, higher = numpy.full(len(key), NOTHING), numpy.full(len(key), NOTHING)
    present = numpy.zeros(len(key), bool)
    for run in runs.beside(key, sub) if isinstance(runs, Runs) else runs:
        bounds = run.find(key, sub)
        present |= bounds.first < bounds.end
        has_lower, has_higher = bounds.first > bounds.start, bounds.end < bounds.stop
        lower[has_lower] = numpy.maximum(lower[has_lower], run.sub[bounds.first[has_lower] - 1])
        candidates = run.sub[bounds.end[has_higher]]
        known = higher[has_higher]
        higher[has_higher] = numpy.where(known == NOTHING, candidates, numpy.minimum(known, candidates))
    return lower, higher, present


def merge_plan(sizes: Sequence[int], added: int) -> int:
    """The number of last runs to be merged with one of `added` rows. `sizes`: rows of each run, oldest first."""
    merged = 0
    for size in reversed(sizes):
        if size > _GROWTH * added:
            break
        added += size
        merged += 1
    return merged


def joined_runs(
    runs: Sequence[SortedRun], added: pyarrow.Table, reduce: Callable[[pyarrow.Table], pyarrow.Table]
) -> tuple[int, pyarrow.Table]:
    """Merge the last runs with new rows. `added` is reduced.

    Returns how many of the runs, the oldest first, stay as they are, and the run that follows them.
    """
    kept = len(runs) - merge_plan([run.rows.num_rows for run in runs], added.num_rows)
    if kept == len(runs):
        return kept, added
    return kept, merged([*(run.rows for run in runs[kept:]), added], reduce)


def merged(runs: Sequence[pyarrow.Table], reduce: Callable[[pyarrow.Table], pyarrow.Table]) -> pyarrow.Table:
    """Join the rows of these runs, oldest first. `reduce`: sorts them and joins those that belong together."""
    return reduce(pyarrow.concat_tables(runs).unify_dictionaries())
