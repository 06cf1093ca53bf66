"""An audit of records in memory: the rules of the Spark job over columns, without Spark and without files."""

from collections.abc import Iterable, Sequence

import pyarrow

from audit.batches.bucket import AWAITED, KEPT, check_rules, concatenated
from audit.records.columns import to_columns
from audit.records.findings import WITHDRAWN, AuditFinding
from audit.records.sorted_runs import SortedRun, joined_runs
from audit.rules.clock_differences import ClockDifference, clock_differences, greatest
from audit.rules.limits import Limits
from audit.rules.partition_windows import windows
from audit.rules.rule import BucketBatch
from audit.tables.timelines import revised_timelines
from state_log.record import LoggedStateChange


def table_of(records: Sequence[LoggedStateChange]) -> pyarrow.Table:
    """The records as the tasks of Spark get them."""
    return concatenated([pyarrow.Table.from_batches([to_columns(records)])])


class ColumnarAudit:
    """One bucket that has all partitions. `findings`: those that stand, by name; `waiting`: what is undecided.

    `timelines`: the rows of that table, the last one of each partition epoch.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.timelines: dict[tuple[object, ...], dict[str, object]] = {}
        self.runs: dict[str, list[SortedRun]] = {table.name: [] for table in KEPT}
        self.findings: dict[tuple[str, str], AuditFinding] = {}
        self.clocks: list[ClockDifference] = []
        self.waiting = {table.name: table.schema.empty_table() for table in AWAITED}

    def check(self, records: Sequence[LoggedStateChange]) -> list[AuditFinding]:
        """Judge a batch; returns what it has changed."""
        batch = BucketBatch(table_of(records), self.runs, self.waiting, self.limits)
        found = check_rules(batch)
        self.clocks = greatest([*self.clocks, *clock_differences(windows(batch).now, self.limits.clock_ms)])
        for row in revised_timelines(batch).to_pylist():
            self.timelines[row["topic"], row["topic_id"], row["partition"], row["partition_epoch"]] = row
        self.waiting = {table.name: table.rows(batch) for table in AWAITED}
        added = {table.name: batch.added(table) for table in KEPT}
        for table in KEPT:
            if added[table.name].num_rows:
                kept, run = joined_runs(self.runs[table.name], added[table.name], table.reduce)
                self.runs[table.name][kept:] = [SortedRun(run)]
        for finding in found:
            if finding.status == WITHDRAWN:
                del self.findings[finding.name]
            else:
                self.findings[finding.name] = finding
        return found


def audit_batches(batches: Iterable[Sequence[LoggedStateChange]]) -> dict[tuple[str, str], AuditFinding]:
    """The findings that stand after these batches."""
    audit = ColumnarAudit()
    for batch in batches:
        audit.check(batch)
    return audit.findings
