"""Checks the records of one bucket of a batch, in a Python process of Spark's: state in, state and tables out."""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

import msgspec
import pyarrow

from audit.batches.kept_tables import KeptTables
from audit.records.columns import RECORDS
from audit.records.findings import AuditFinding
from audit.records.vectors import in_one_chunk
from audit.rules.clock_differences import clock_differences
from audit.rules.leaderships_taken import ANSWERS
from audit.rules.partition_windows import windows
from audit.rules.record_rules import of_partitions
from audit.rules.recreations import created_anew
from audit.rules.rule import Awaited, BucketBatch, Kept
from audit.rules.table import RULES
from audit.storage.commits import BucketResult, BucketState, Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import (
    FINDINGS,
    FINDINGS_TABLE,
    REASSIGNMENTS_TABLE,
    RECORDS_TABLE,
    TIMELINES_TABLE,
)
from audit.tables.failovers import BY_EPOCH, ELECTIONS, touched_events
from audit.tables.reassignments import ASSIGNMENTS, revised_reassignments
from audit.tables.timelines import revised_timelines

_OF_TABLES: Final = (ELECTIONS, BY_EPOCH, ANSWERS, ASSIGNMENTS)
KEPT: Final[Sequence[Kept]] = (*(table for rule in RULES for table in rule.keeps), *_OF_TABLES)
"""The tables that a bucket keeps over batches: those of the rules, and those behind the tables for readers."""
AWAITED: Final[Sequence[Awaited]] = tuple(table for rule in RULES for table in rule.awaits)


class BucketPlace(NamedTuple):
    """Names which bucket of which batch."""

    bucket: int
    batch: int


def check_rules(batch: BucketBatch, versions: Collection[int] = ()) -> list[AuditFinding]:
    """Find what the records of a batch change about the findings, rule by rule.

    `versions`: those of the rules that have judged the records before. A rule that keeps more finds nothing beside
    them, until a rebuild judges all by one.
    """
    rules = [rule for rule in RULES if rule.has_tables(versions)]
    found = [finding for rule in rules for finding in rule.check(batch)]
    if len(created_anew(batch).new):
        found += (finding for rule in rules for finding in rule.withdraw(batch))
    return found


def check_bucket(
    output: OutputFolder, place: BucketPlace, state: BucketState, rows: pyarrow.Table, before: Commit
) -> BucketResult:
    """Check the records of partitions in one bucket, write its tables, and return its new state.

    `before`: the commit with the settings of the audit.
    """
    kept = KeptTables(output, place, state, before.open_rows)
    runs = {table.name: kept.known(table.name) for table in KEPT}
    awaited = {table.name: _whole(output, state, table) for table in AWAITED}
    batch = BucketBatch(rows, runs, awaited, before.limits)
    findings = check_rules(batch, before.rules)
    output.write_rows(REASSIGNMENTS_TABLE, revised_reassignments(batch), place.batch, place.bucket)
    write_findings(output, place, findings)
    output.write_rows(TIMELINES_TABLE, revised_timelines(batch), place.batch, place.bucket)
    output.write_rows(RECORDS_TABLE, of_partitions(batch).drop_columns(["key"]), place.batch, place.bucket)
    for table in KEPT:
        kept.add(table.name, runs[table.name], batch.added(table), table.reduce, table.sealing)
    for waiting in AWAITED:
        kept.replace(waiting.name, waiting.rows(batch))
    return BucketResult(
        place.bucket,
        kept.write(),
        controllers=controllers_named(rows),
        followed=controllers_followed(rows),
        greatest_events=greatest_events(rows),
        clocks=tuple(clock_differences(windows(batch).now, before.limits.clock_ms)),
        events=tuple(touched_events(batch).tolist()),
    )


def _whole(output: OutputFolder, state: BucketState, table: Awaited) -> pyarrow.Table:
    rows = (run.rows for run in output.runs(state.runs.get(table.name, ())))
    return pyarrow.concat_tables([table.schema.empty_table(), *rows])


def controllers_named(rows: pyarrow.Table) -> tuple[int, ...]:
    """The controllers whose events these records follow from."""
    return tuple(sorted(rows["cause_controller"].drop_null().unique().to_pylist()))


def controllers_followed(rows: pyarrow.Table) -> tuple[tuple[int, int], ...]:
    """Find the (controller epoch, controller) of the requests that these records follow from."""
    columns = ["cause_controller_epoch", "cause_controller"]
    pairs = rows.select(columns).drop_null().group_by(columns).aggregate([])
    return tuple(sorted(zip(*(pairs[name].to_pylist() for name in columns), strict=True)))


def greatest_events(rows: pyarrow.Table) -> tuple[tuple[int, int, int], ...]:
    """Find the greatest event of each (controller epoch, controller) from which these records follow."""
    columns = ["cause_controller_epoch", "cause_controller"]
    found = rows.select([*columns, "cause_id"]).drop_null().group_by(columns).aggregate([("cause_id", "max")])
    return tuple(sorted(zip(*(found[name].to_pylist() for name in (*columns, "cause_id_max")), strict=True)))


def joined_events(*of: Iterable[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """The greatest event of each (controller epoch, controller) in all of these."""
    found: dict[tuple[int, int], int] = {}
    for epoch, controller, event in sorted(chain(*of)):
        found[epoch, controller] = event
    return tuple(sorted((*pair, event) for pair, event in found.items()))


def write_findings(output: OutputFolder, place: BucketPlace, findings: list[AuditFinding]) -> None:
    """Write a table of findings, if there are any."""
    if findings:
        rows = pyarrow.Table.from_pylist([msgspec.to_builtins(finding) for finding in findings], FINDINGS)
        output.write_rows(FINDINGS_TABLE, rows, place.batch, place.bucket)


def concatenated(streams: list[pyarrow.Table]) -> pyarrow.Table:
    """The records of several tasks as one table."""
    return in_one_chunk([RECORDS.empty_table(), *streams])
