"""Orders of many rows are those of numpy.lexsort."""

from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from audit.records.orders import sorted_order

RANDOM = numpy.random.default_rng(7)
Column = NDArray[Any]


def columns_of(count: int) -> list[Column]:
    """Few values, many, hashes, truth values, numbers at both ends of their range, and one value."""
    hashes = RANDOM.integers(0, 1 << 64, max(1, count // 9), dtype=numpy.uint64)
    ends = numpy.array([numpy.iinfo(numpy.int64).min, -1, 0, numpy.iinfo(numpy.int64).max])
    return [
        RANDOM.integers(-3, 4, count),
        RANDOM.permutation(count),
        hashes[RANDOM.integers(0, len(hashes), count)],
        RANDOM.integers(0, 2, count).astype(bool),
        ends[RANDOM.integers(0, 4, count)],
        numpy.zeros(count, numpy.int64),
        1_795_356_180_123 + RANDOM.integers(0, 1 << 40, count),
    ]


@pytest.mark.parametrize("count", [0, 1, 999, 1_000, 3_000])
@pytest.mark.parametrize("chosen", [(0,), (3,), (5, 0), (4, 2), (1, 0, 2), (6, 3, 0, 2), (2, 6, 4, 1), (6, 6, 6, 2, 2)])
def test_rows_are_sorted_by_the_last_column_first_and_equal_ones_stay(count: int, chosen: tuple[int, ...]) -> None:
    columns = columns_of(count)
    wanted = [columns[number] for number in chosen]
    assert sorted_order(wanted).tolist() == numpy.lexsort(wanted).tolist()


def test_too_many_rows_for_their_places_are_sorted_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.records.orders._MANY", 1_500)
    wanted = [columns_of(2_000)[number] for number in (0, 2)]
    assert sorted_order(wanted).tolist() == numpy.lexsort(wanted).tolist()
