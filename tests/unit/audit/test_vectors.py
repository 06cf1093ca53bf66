"""Orders of rows."""

import numpy
from hypothesis import given
from hypothesis import strategies as st

from audit.records.vectors import Longs, are_in_order, group_starts, order_in_groups

Row = tuple[int, int, int, int]
"""Two columns that make groups, and two that order the rows of one."""
ROWS = st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=20)


@given(ROWS)
def test_an_order_within_groups_is_the_order_by_all_columns(rows: list[Row]) -> None:
    first, second, third, fourth = numpy.array(rows, numpy.int64).T
    order = numpy.lexsort((second, first))
    starts = group_starts(first[order], second[order])

    def ties(chosen: Longs) -> tuple[Longs, ...]:
        return fourth[chosen], third[chosen]

    assert order_in_groups(order, starts, ties).tolist() == numpy.lexsort((fourth, third, second, first)).tolist()


@given(ROWS)
def test_rows_are_in_order_that_grow(rows: list[Row]) -> None:
    columns = numpy.array(rows, numpy.int64).T
    assert are_in_order(*columns) == (rows == sorted(set(rows)))
