"""What is sealed of a table is found as if it were open, and only read where it is asked for."""

from collections.abc import Iterator

import numpy
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.records.sealed_runs import SealedSegment, Sealing, divided, to_segment
from audit.records.sorted_runs import (
    FLOORS,
    HIGHEST,
    NOTHING,
    Runs,
    SortedRun,
    gather,
    gather_all,
    neighbours,
)
from tests.examples import examples

SCHEMA = pyarrow.schema({"key": pyarrow.uint64(), "sub": pyarrow.int64(), "at_ms": pyarrow.int64()})
BY = Sealing(stay=2)
Row = tuple[int, int, int]
KEYS = st.sampled_from([0, 1, 5, 1 << 63, (1 << 64) - 1])
ROWS = st.lists(st.tuples(KEYS, st.integers(0, 12), st.integers(0, 9)), unique=True, max_size=25)
PLACES = st.lists(st.tuples(KEYS, st.integers(-1, 13)), min_size=1, max_size=6)


def table(rows: list[Row]) -> pyarrow.Table:
    columns = list(zip(*sorted(rows), strict=True)) or [(), (), ()]
    return pyarrow.table([pyarrow.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def rows_of(rows: pyarrow.Table) -> list[Row]:
    return sorted((row["key"], row["sub"], row["at_ms"]) for row in rows.to_pylist())


def wanted(places: list[tuple[int, int]]) -> tuple[numpy.ndarray, numpy.ndarray]:
    return numpy.array([key for key, _ in places], numpy.uint64), numpy.array([sub for _, sub in places], numpy.int64)


def segment(rows: pyarrow.Table, share: int = 1 << 12) -> SealedSegment:
    """With blocks of a single row, by default."""
    data = to_segment(rows, share)
    return SealedSegment(lambda: data)


def sealed_again_and_again(batches: list[list[Row]], by: Sealing) -> Runs:
    """The runs after these batches, of which all open rows are merged and divided each time."""
    runs = Runs([])
    for batch in batches:
        rows = table([row for run in runs.open for row in rows_of(run.rows)] + batch)
        found = divided(rows, runs.floor_rows, by, 1)
        if found is None:
            runs.open = [SortedRun(rows)]
        else:
            runs = Runs([SortedRun(found.open)], SortedRun(found.floors), [*runs.segments, segment(found.sealed)])
    return runs


def all_rows(runs: Runs) -> list[Row]:
    return sorted(row for run in runs.every() for row in rows_of(run.rows))


@pytest.mark.parametrize("by", [BY, Sealing(times=(), stay=1), Sealing(whole=True)], ids=["time", "order", "key"])
@examples(24, deep=60)
@given(batches=st.lists(ROWS, max_size=5), places=PLACES)
def test_lookups_find_what_they_would_find_if_nothing_were_sealed(
    by: Sealing, batches: list[list[Row]], places: list[tuple[int, int]]
) -> None:
    runs = sealed_again_and_again(batches, by)
    rows = sorted(row for batch in batches for row in batch)
    assert all_rows(runs) == rows
    places = list(dict.fromkeys(places))
    key, sub = wanted(places)
    assert rows_of(gather(runs, key, sub, SCHEMA.empty_table())) == [row for row in rows if row[:2] in places]
    found = gather_all(runs, numpy.unique(key), SCHEMA.empty_table())
    assert rows_of(found) == [row for row in rows if row[0] in {key for key, _ in places}]
    whole = [SortedRun(table(rows))]
    for ours, theirs in zip(neighbours(runs, key, sub), neighbours(whole, key, sub), strict=True):
        assert ours.tolist() == theirs.tolist()


@examples(24, deep=60)
@given(batches=st.lists(ROWS, max_size=5))
def test_all_open_rows_are_at_the_floor_or_above_or_came_after_it_was_set(batches: list[list[Row]]) -> None:
    runs = sealed_again_and_again(batches, BY)
    floors = dict(zip(*runs.floor_rows.to_pydict().values(), strict=True))
    for key, floor in floors.items():
        subs = [sub for run in runs.open for of, sub, _ in rows_of(run.rows) if of == key]
        assert floor in subs, "lookups above it need not look below it"
    sealed = [row for part in runs.segments for row in rows_of(part.whole().rows)]
    assert all(sub < floors[key] for key, sub, _ in sealed)


class Unread:
    """Sealed rows that nobody may read."""

    def between(self, *_: object) -> SortedRun:
        raise AssertionError("what is sealed was read")

    def whole(self) -> SortedRun:
        raise AssertionError("what is sealed was read")


def test_what_concerns_rows_above_the_floors_does_not_read_what_is_sealed() -> None:
    open_rows, floors = table([(1, 10, 0), (1, 12, 0), (2, 3, 0)]), pyarrow.table([[1], [10]], schema=FLOORS)
    runs = Runs([SortedRun(open_rows)], SortedRun(floors), [Unread()])
    for place in ((1, 11), (1, 12), (1, 99), (2, 0), (3, 5)):
        neighbours(runs, *wanted([place]))
        gather(runs, *wanted([place]), SCHEMA.empty_table())
    gather(runs, *wanted([(1, 10)]), SCHEMA.empty_table())
    for ask in reads_of_sealed(runs):
        with pytest.raises(AssertionError, match="was read"):
            ask()


def reads_of_sealed(runs: Runs) -> Iterator[object]:
    yield lambda: gather(runs, *wanted([(1, 9)]), SCHEMA.empty_table())
    yield lambda: neighbours(runs, *wanted([(1, 10)]))
    yield lambda: gather_all(runs, wanted([(1, 0)])[0], SCHEMA.empty_table())


def test_a_table_is_divided_by_the_older_half_and_keeps_the_last_rows_of_each_key() -> None:
    rows = [(1, sub, sub) for sub in range(10)] + [(2, sub, 0) for sub in range(4)]
    found = divided(table(rows), FLOORS.empty_table(), BY, 10)
    assert found is not None
    assert rows_of(found.open) == [(1, sub, sub) for sub in range(3, 10)] + [(2, 2, 0), (2, 3, 0)]
    assert found.floors.to_pylist() == [{"key": 1, "sub": 3}, {"key": 2, "sub": 2}]
    assert divided(table(rows), FLOORS.empty_table(), BY, 14) is None, "there are not too many"
    assert divided(table(rows), FLOORS.empty_table(), Sealing(stay=9), 10) is None, "too few are old"


@pytest.mark.parametrize("share", [1, 1 << 11, 1 << 12])
def test_a_segment_gives_the_rows_of_a_range_and_those_beside_them(share: int) -> None:
    rows = [(key, sub, 0) for key in (1, 2, 3) for sub in range(0, 20, 2)]
    part = segment(table(rows), share)
    run = part.between(*wanted([(2, 7)]), numpy.array([11]), 1)
    assert run is not None
    assert rows_of(run.rows) == [(2, sub, 0) for sub in (6, 8, 10, 12)]
    assert part.between(*wanted([(4, 0)]), numpy.array([9]), 3) is None
    everything = part.between(numpy.array([3], numpy.uint64), numpy.array([NOTHING]), numpy.array([HIGHEST]), 0)
    assert everything is not None
    assert everything.rows.num_rows == 10
