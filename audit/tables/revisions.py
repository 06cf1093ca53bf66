"""Rows of revised tables: what a batch has to write of those that it has derived again."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow

from audit.records.findings import HOLDS, WITHDRAWN
from audit.storage.table_schemas import TABLES

Row = dict[str, Any]


def revised(table: str, before: Iterable[Row], now: Iterable[Row]) -> pyarrow.Table:
    """The rows of `now` that are new or differ, and those of `before` that are gone, as withdrawn."""
    key = TABLES[table].key
    earlier, later = _by_key(before, key), _by_key(now, key)
    rows = [{**row, "status": HOLDS} for name, row in later.items() if earlier.get(name) != row]
    rows += [{**row, "status": WITHDRAWN} for name, row in earlier.items() if name not in later]
    return pyarrow.Table.from_pylist(rows, TABLES[table].schema)


def _by_key(rows: Iterable[Row], key: Sequence[str]) -> dict[tuple[Any, ...], Row]:
    return {tuple(row[column] for column in key): row for row in rows}
