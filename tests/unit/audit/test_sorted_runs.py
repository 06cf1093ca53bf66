"""Sorted runs against a dict: what was put in is found again, whatever was merged meanwhile."""

from itertools import pairwise

import numpy
import pyarrow
from hypothesis import given
from hypothesis import strategies as st

from audit.records.sorted_runs import NOTHING, SortedRun, expand, gather, merge_plan, merged, neighbours
from tests.examples import examples

SCHEMA = pyarrow.schema({"key": pyarrow.uint64(), "sub": pyarrow.int64(), "value": pyarrow.int64()})
KEYS = st.sampled_from([0, 1, 5, 1 << 63, (1 << 64) - 1])
SUBS = st.integers(-2, 5) | st.sampled_from([-(1 << 40), (1 << 62)])
Row = tuple[int, int, int]
ROWS = st.lists(st.tuples(KEYS, SUBS, st.integers(0, 99)), max_size=12)


def table(rows: list[Row]) -> pyarrow.Table:
    columns = list(zip(*sorted(rows, key=lambda row: row[:2]), strict=True)) or [(), (), ()]
    return pyarrow.table([pyarrow.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def in_order(rows: pyarrow.Table) -> pyarrow.Table:
    return rows.sort_by([("key", "ascending"), ("sub", "ascending")])


def rows_of(rows: pyarrow.Table) -> list[Row]:
    return sorted((row["key"], row["sub"], row["value"]) for row in rows.to_pylist())


def wanted(places: list[tuple[int, int]]) -> tuple[numpy.ndarray, numpy.ndarray]:
    return numpy.array([key for key, _ in places], numpy.uint64), numpy.array([sub for _, sub in places], numpy.int64)


@examples(120, deep=300)
@given(rows=ROWS, places=st.lists(st.tuples(KEYS, SUBS), max_size=6))
def test_find_gives_the_rows_of_a_place_and_those_of_its_key(rows: list[Row], places: list[tuple[int, int]]) -> None:
    run = SortedRun(table(rows))
    bounds = run.find(*wanted(places))
    for number, (key, sub) in enumerate(places):
        start, first, end, stop = (int(bound[number]) for bound in bounds)
        assert start <= first <= end <= stop
        assert rows_of(run.rows.slice(first, end - first)) == sorted(row for row in rows if row[:2] == (key, sub))
        assert rows_of(run.rows.slice(start, stop - start)) == sorted(row for row in rows if row[0] == key)
        assert rows_of(run.rows.slice(start, first - start)) == sorted(r for r in rows if r[0] == key and r[1] < sub)


@examples(80, deep=200)
@given(runs=st.lists(ROWS, max_size=4), places=st.lists(st.tuples(KEYS, SUBS), max_size=6))
def test_gather_gives_all_rows_of_the_places_each_once(runs: list[list[Row]], places: list[tuple[int, int]]) -> None:
    found = gather([SortedRun(table(rows)) for rows in runs], *wanted(places), SCHEMA.empty_table())
    assert rows_of(found) == sorted(row for rows in runs for row in rows if row[:2] in places)


@examples(80, deep=200)
@given(runs=st.lists(ROWS, max_size=4), places=st.lists(st.tuples(KEYS, SUBS), min_size=1, max_size=6))
def test_neighbours_are_the_next_subs_of_a_key_in_any_run(runs: list[list[Row]], places: list[tuple[int, int]]) -> None:
    lower, higher, present = neighbours([SortedRun(table(rows)) for rows in runs], *wanted(places))
    for number, (key, sub) in enumerate(places):
        subs = {row[1] for rows in runs for row in rows if row[0] == key}
        assert lower[number] == max((s for s in subs if s < sub), default=NOTHING)
        assert higher[number] == min((s for s in subs if s > sub), default=NOTHING)
        assert present[number] == (sub in subs)


@examples(40, deep=100)
@given(batches=st.lists(ROWS, max_size=12))
def test_runs_that_are_merged_keep_every_row_and_stay_few(batches: list[list[Row]]) -> None:
    tables: list[pyarrow.Table] = []
    for rows in batches:
        if rows:
            kept = len(tables) - merge_plan([t.num_rows for t in tables], len(rows))
            tables[kept:] = [merged([*tables[kept:], table(rows)], in_order)]
    assert sorted(row for t in tables for row in rows_of(t)) == sorted(row for rows in batches for row in rows)
    sizes = [t.num_rows for t in tables]
    assert all(earlier > 3 * later for earlier, later in pairwise(sizes))
    for kept_table in tables:
        places = [(row["key"], row["sub"]) for row in kept_table.to_pylist()]
        assert places == sorted(places)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8))
def test_expand_lists_each_number_of_the_ranges_once(ranges: list[tuple[int, int]]) -> None:
    first, end = (numpy.array([part[n] for part in ranges], numpy.int64) for n in (0, 1))
    assert expand(first, end).tolist() == sorted({n for low, high in ranges for n in range(low, high)})
