"""An audit of records in memory: the rules of the Spark job over columns, without Spark and without files."""

from collections.abc import Iterable, Sequence

import pyarrow

from audit.batches.bucket import REDUCE, UNFINISHED, check_partitions, concatenated
from audit.records.columns import to_columns
from audit.records.findings import WITHDRAWN, Finding
from audit.records.sorted_runs import Run, joined_runs
from audit.rules.clock_differences import ClockDifference, greatest
from audit.rules.limits import Limits
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
        self.runs: dict[str, list[Run]] = {name: [] for name in REDUCE}
        self.findings: dict[tuple[str, str], Finding] = {}
        self.clocks: list[ClockDifference] = []
        self.waiting = UNFINISHED

    def check(self, records: Sequence[LoggedStateChange]) -> list[Finding]:
        """Judge a batch; returns what it has changed."""
        found, added, self.waiting, timelines, clocks = check_partitions(
            self.runs, self.waiting, table_of(records), self.limits
        )
        self.clocks = greatest([*self.clocks, *clocks])
        for row in timelines.to_pylist():
            self.timelines[row["topic"], row["topic_id"], row["partition"], row["partition_epoch"]] = row
        for name, table in added.items():
            if table.num_rows:
                kept, run = joined_runs(self.runs[name], table, REDUCE[name])
                self.runs[name][kept:] = [Run(run)]
        for finding in found:
            if finding.status == WITHDRAWN:
                del self.findings[finding.name]
            else:
                self.findings[finding.name] = finding
        return found


def audit_batches(batches: Iterable[Sequence[LoggedStateChange]]) -> dict[tuple[str, str], Finding]:
    """The findings that stand after these batches."""
    audit = ColumnarAudit()
    for batch in batches:
        audit.check(batch)
    return audit.findings
