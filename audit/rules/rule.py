"""What a rule of the audit is, and what it is given: the records of a bucket in a batch, and what earlier ones left."""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow

from audit.records.findings import AuditFinding
from audit.records.sealed_runs import Sealing
from audit.records.sorted_runs import Runs
from audit.rules.limits import Limits
from audit.rules.subjects import Subjects

_Value = TypeVar("_Value")
TEXT: Final = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
"""The type of columns in which the same texts return."""
KEY: Final = {"key": pyarrow.uint64(), "sub": pyarrow.int64()}
"""The first columns of each table that is kept: the hash of a partition, and a number within it."""
REFERENCE: Final = {"at_ms": pyarrow.int64(), "node": TEXT, "incarnation": TEXT, "seq": pyarrow.int64()}
"""The last columns of most of them: when a record was written, and its name."""
NO_WORK: Final = "the log does not say when reassignments and deletions begin and end"


class Explanation(NamedTuple):
    """Holds what a finding means.

    `severity`: `critical`: records may be lost, or two brokers led; `log`: a log is not as it was written; `error`: the
    rest. `says`: what always holds. `kafka`: `INFO` or `TRACE`, the level of Apache Kafka's state-change.log that has
    the lines for the rule, or why the rule does not apply to such a log. `of_whole_logs`: a line that is missing
    between others may explain what is found, so a finding about such a log does not stand.
    """

    severity: str
    says: str
    check_next: str
    kafka: str
    of_whole_logs: bool = False


class Kept(NamedTuple):
    """A table that a bucket keeps over batches, as sorted runs (`audit.records.sorted_runs`).

    `rows`: the rows that a batch adds, reduced. `reduce`: sorts rows by `key`, `sub` and further columns, and makes one
    row of those that belong together. `sealing`: which rows are old; None where a table does not grow with the records.
    """

    name: str
    schema: pyarrow.Schema
    rows: Callable[["BucketBatch"], pyarrow.Table]
    reduce: Callable[[pyarrow.Table], pyarrow.Table]
    sealing: Sealing | None = None


class Awaited(NamedTuple):
    """A table of what later records may end, which each batch writes in full. `rows`: all of them after a batch."""

    name: str
    schema: pyarrow.Schema
    rows: Callable[["BucketBatch"], pyarrow.Table]


class BucketBatch:
    """The records of one bucket in one batch, and the tables that earlier batches left.

    `rows`: as `audit.records.columns.RECORDS`. `runs` and `awaited`: by the names of `Kept` and `Awaited`; the oldest
    run stands first.
    """

    def __init__(
        self,
        rows: pyarrow.Table,
        runs: Mapping[str, Runs],
        awaited: Mapping[str, pyarrow.Table],
        limits: Limits,
    ) -> None:
        self.rows, self.limits = rows, limits
        self.subjects = Subjects(rows)
        self.values: dict[Callable[[BucketBatch], Any], Any] = {}
        """What `once` has computed, by function."""
        self._runs, self._awaited = runs, awaited

    def runs(self, table: Kept) -> Runs:
        """The rows of earlier batches."""
        return self._runs[table.name]

    def added(self, table: Kept) -> pyarrow.Table:
        """The rows that this batch adds to a table."""
        return once(table.rows)(self)

    def awaited(self, table: Awaited) -> pyarrow.Table:
        """The rows that the batch before has left."""
        return self._awaited[table.name]


def once(compute: Callable[[BucketBatch], _Value]) -> Callable[[BucketBatch], _Value]:
    """Compute a value at most once for each batch, however many rules ask for it."""

    @wraps(compute)
    def found(batch: BucketBatch) -> _Value:
        if compute not in batch.values:
            batch.values[compute] = compute(batch)
        value: _Value = batch.values[compute]
        return value

    return found


def _nothing(_: BucketBatch) -> Iterable[AuditFinding]:
    return ()


class Rule(NamedTuple):
    """A rule about partitions, or a few that are found together.

    `explains`: its findings, by id. `reads`: the columns of records that it needs, those of its tables included.
    `check`: what a batch changes about its findings. `keeps`, `awaits`: the tables that it adds to; others may read
    them. `withdraw`: what changes when partitions are not compared any more (`audit.rules.recreations`); it is asked
    only where a batch has shown such partitions. `since`: the version of the rules since which its tables are kept. In
    an output that has records judged by an earlier one, they lack rows that explain what is found.
    """

    explains: Mapping[str, Explanation]
    reads: tuple[str, ...]
    check: Callable[[BucketBatch], Iterable[AuditFinding]]
    keeps: tuple[Kept, ...] = ()
    awaits: tuple[Awaited, ...] = ()
    withdraw: Callable[[BucketBatch], Iterable[AuditFinding]] = _nothing
    since: int = 1

    def has_tables(self, versions: Iterable[int]) -> bool:
        """Whether its tables are whole in an output whose records these versions of the rules have judged."""
        return self.since <= min(versions, default=self.since)
