"""The names of records, and of the partitions whose hashes a batch has."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import numpy
import pyarrow

from audit.records.findings import FOUND, AuditFinding, RuleViolation
from audit.records.vectors import Keys, Longs, keys


def reference(row: Mapping[str, Any]) -> str:
    """The unique name of a record: `node/incarnation/seq`."""
    return f"{row['node']}/{row['incarnation']}/{row['seq']}"


def reference_at(rows: pyarrow.Table, row: int) -> str:
    """The name of the record in this row."""
    return reference({name: rows[name][row].as_py() for name in ("node", "incarnation", "seq")})


NAMED: Final = pyarrow.schema({"topic": pyarrow.string(), "topic_id": pyarrow.string(), "partition": pyarrow.int32()})
"""The columns of tables that name partitions."""


class Subjects:
    """The names of the partitions with records in `rows`, by their keys."""

    def __init__(self, rows: pyarrow.Table) -> None:
        self._rows = rows

    @cached_property
    def _first_rows(self) -> dict[int, int]:
        found, first = self._firsts
        return dict(zip(found.tolist(), first.tolist(), strict=True))

    @cached_property
    def _firsts(self) -> tuple[Keys, Longs]:
        """The keys, sorted, and the first row of each; aligned."""
        return numpy.unique(keys(self._rows["key"]), return_index=True)

    def finding(self, violation: RuleViolation, status: str = FOUND) -> AuditFinding:
        """The finding, with the partition that the key stands for."""
        row = self._first_rows[violation.key]
        topic, topic_id, partition = (self._rows[name][row].as_py() for name in ("topic", "topic_id", "partition"))
        name = f"{topic}-{partition}" if topic_id is None else f"{topic}-{partition} ({topic_id})"
        return AuditFinding(
            rule=violation.rule,
            subject=f"{name} {violation.subject}",
            message=violation.message,
            records=violation.records,
            status=status,
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            at_ms=violation.at_ms,
        )

    def named(self, states: pyarrow.Table) -> pyarrow.Table:
        """The rows of a table with a `key`, with the columns NAMED; all keys have records in the batch."""
        found, first = self._firsts
        place = pyarrow.array(first[numpy.searchsorted(found, keys(states["key"]))])
        rows = self._rows.select(NAMED.names).take(place)
        for field in NAMED:
            states = states.append_column(field.name, rows[field.name].cast(field.type))
        return states
