"""An audit of records in memory: the rules of the Spark job over columns, without Spark and without files."""

from collections.abc import Collection, Iterable, Sequence

import pyarrow

from audit.batches.bucket import AWAITED, KEPT, check_rules, concatenated
from audit.records.columns import to_columns
from audit.records.findings import NOT_COMPARED, WITHDRAWN, AuditFinding
from audit.records.sealed_runs import OPEN_ROWS, SealedSegment, divided, to_segment
from audit.records.sorted_runs import Runs, SortedRun, joined_runs, merged
from audit.rules.clock_differences import ClockDifference, clock_differences, greatest
from audit.rules.limits import Limits
from audit.rules.partition_windows import windows
from audit.rules.rule import BucketBatch, Kept
from audit.tables.timelines import revised_timelines
from state_log.record import LoggedStateChange


def table_of(records: Sequence[LoggedStateChange]) -> pyarrow.Table:
    """The records as the tasks of Spark get them."""
    return concatenated([pyarrow.Table.from_batches([to_columns(records)])])


class ColumnarAudit:
    """One bucket that has all partitions. `findings`: those that stand, by name; `waiting`: what is undecided.

    `timelines`: the rows of that table, the last one of each partition epoch. `open_rows`: rows of a table above which
    old ones are sealed. `versions`: of the rules that have judged the records before.
    """

    def __init__(
        self, limits: Limits | None = None, open_rows: int = OPEN_ROWS, versions: Collection[int] = ()
    ) -> None:
        self.limits, self.open_rows, self.versions = limits or Limits(), open_rows, versions
        self.timelines: dict[tuple[object, ...], dict[str, object]] = {}
        self.runs = {table.name: Runs([]) for table in KEPT}
        self.findings: dict[tuple[str, str], AuditFinding] = {}
        self.clocks: list[ClockDifference] = []
        self.waiting = {table.name: table.schema.empty_table() for table in AWAITED}

    def check(self, records: Sequence[LoggedStateChange]) -> list[AuditFinding]:
        """Judge a batch; returns what it has changed."""
        batch = BucketBatch(table_of(records), self.runs, self.waiting, self.limits)
        found = check_rules(batch, self.versions)
        self.clocks = greatest([*self.clocks, *clock_differences(windows(batch).now, self.limits.clock_ms)])
        for row in revised_timelines(batch).to_pylist():
            self.timelines[row["topic"], row["topic_id"], row["partition"], row["partition_epoch"]] = row
        self.waiting = {table.name: table.rows(batch) for table in AWAITED}
        added = {table.name: batch.added(table) for table in KEPT}
        for table in KEPT:
            if added[table.name].num_rows:
                self._add(table, added[table.name])
        for finding in found:
            if finding.status == WITHDRAWN:
                del self.findings[finding.name]
            else:
                assert finding.message, finding
                assert finding.records or finding.status == NOT_COMPARED, finding
                assert not finding.subject.endswith("None"), finding
                self.findings[finding.name] = finding
        return found

    def _add(self, table: Kept, added: pyarrow.Table) -> None:
        known = self.runs[table.name]
        kept, run = joined_runs(known.open, added, table.reduce)
        if self.open_rows < OPEN_ROWS:
            # Sealed is only when all is merged, which few small batches never would be.
            kept, run = 0, merged([*(run.rows for run in known.open), added], table.reduce)
        by = table.sealing and table.sealing._replace(stay=1)
        found = None if kept or by is None else divided(run, known.floor_rows, by, self.open_rows)
        if found is None:
            known.open[kept:] = [SortedRun(run)]
            return
        segment = to_segment(found.sealed)
        segments = [*known.segments, SealedSegment(lambda: segment)]
        self.runs[table.name] = Runs([SortedRun(found.open)], SortedRun(found.floors), segments)


def audit_batches(
    batches: Iterable[Sequence[LoggedStateChange]], open_rows: int = OPEN_ROWS
) -> dict[tuple[str, str], AuditFinding]:
    """The findings that stand after these batches."""
    audit = ColumnarAudit(open_rows=open_rows)
    for batch in batches:
        audit.check(batch)
    return audit.findings
