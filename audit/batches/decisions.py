"""The decisions of controllers, replayed as batches arrive: a stage of the audit that something else carries out.

The audit knows no controller. Whoever starts it may give it a `Replayer`, which takes the records of controllers in the
order of their logs, and says which decisions the code would not have made. It keeps its state in memory: where that
does not continue the last commit, as after a restart, it takes the records of the table once more, and what it says of
them is known.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import pyarrow.compute
from msgspec.structs import replace

from audit.records.findings import FOUND, WITHDRAWN, AuditFinding
from audit.storage.commits import Commit, ReplayedDecisions
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import RECORDS_TABLE
from state_log.causes import ISR_WRITTEN
from state_log.record import Kind, LoggedStateChange

DECIDED_OTHERWISE: Final = "decided-otherwise"
_OF_PARTITION: Final = (
    *("partition", "leader", "leader_epoch", "partition_epoch", "isr", "replicas", "adding_replicas"),
    "removing_replicas",
)
_NESTED: Final = ("cause", "inputs", "witness")
_Rows = Iterator[tuple[tuple[str, str, int], list[Mapping[str, Any]]]]


class OtherwiseDecided(NamedTuple):
    """A decision that the code would not have made. `decision` names it within its record."""

    record: str
    at_ms: int
    topic: str
    partition: int
    decision: str
    message: str


class ReplayNews(NamedTuple):
    """What records have brought.

    `missing`: how many decisions could not be replayed, by what was missing, with the first record. `pending`,
    `pending_decisions`: the same for the last event of each log, of which there may be more.
    """

    found: tuple[OtherwiseDecided, ...]
    withdrawn: tuple[OtherwiseDecided, ...]
    decisions: int
    missing: Mapping[str, tuple[int, str]]
    pending: Mapping[str, tuple[int, str]]
    pending_decisions: int


class Replayer(Protocol):
    """Replays what controllers decided."""

    def take(self, records: Iterable[LoggedStateChange]) -> ReplayNews:
        """Take further records of controllers, each log in its order, and of ISRs that leaders wrote themselves.

        Those that were taken before count once.
        """


class ReplayStage:
    """Replays the decisions in the records of each batch."""

    def __init__(self, make: Callable[[], Replayer]) -> None:
        self._make = make
        self._replayer, self._batch = make(), -1

    def check(self, output: OutputFolder, before: Commit, batch: int) -> tuple[list[AuditFinding], ReplayedDecisions]:
        """Find what the records of this batch, which are written, say beside those that were committed `before`."""
        known, first = before.decisions or ReplayedDecisions(), batch
        if before.decisions is None:
            # Of an output that was audited without this stage: all of it is new.
            self._replayer, first = self._make(), 0
        elif self._batch != before.batch:
            self._replayer = self._make()
            self._replayer.take(_records(output, before, 0, before.batch))
        news = self._replayer.take(_records(output, replace(before, batch=batch), first, batch))
        self._batch = batch
        missing = summed(known.missing, news.missing)
        found = [_finding(each, FOUND) for each in news.found] + [_finding(each, WITHDRAWN) for each in news.withdrawn]
        return found, ReplayedDecisions(
            known.decisions + news.decisions, missing, dict(news.pending), news.pending_decisions
        )


def summed(*counts: Mapping[str, tuple[int, str]]) -> dict[str, tuple[int, str]]:
    """Sum up how often things were missing; the first record counts."""
    found: dict[str, tuple[int, str]] = {}
    for what, (count, record) in chain.from_iterable(each.items() for each in counts):
        earlier = found.get(what, (0, record))
        found[what] = earlier[0] + count, earlier[1]
    return found


def _finding(each: OtherwiseDecided, status: str) -> AuditFinding:
    # Of no partition, as far as the table knows: a rebuild checks the rules about partitions again, and not this.
    subject, message = f"{each.decision} in {each.record}", f"{each.topic}-{each.partition}: {each.message}"
    return AuditFinding(DECIDED_OTHERWISE, subject, message, (each.record,), status, at_ms=each.at_ms)


def _records(output: OutputFolder, commit: Commit, first: int, last: int) -> Iterator[LoggedStateChange]:
    """The records of controllers in batches `first` to `last`, log by log."""
    rows = []
    for file in output.files_at(commit, RECORDS_TABLE):
        if file.last >= first and file.first <= last:
            for part in output.read_parts(file):
                rows += part.filter(_is_needed(part)).to_pylist()
    rows.sort(key=_place)
    for _, of_record in groupby(rows, key=_place):
        yield record_of_rows(list(of_record))


def _is_needed(rows: pyarrow.Table) -> pyarrow.ChunkedArray:
    """Whether each row is of a controller, or has a state that a leader wrote itself."""
    of_controller = pyarrow.compute.starts_with(rows["node"].cast("string"), "controller-")
    written = pyarrow.compute.equal(rows["cause_event"].cast("string"), ISR_WRITTEN).fill_null(False)
    return pyarrow.compute.or_(of_controller, written)


def _place(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["node"], row["incarnation"], row["seq"]


def record_of_rows(rows: list[Mapping[str, Any]]) -> LoggedStateChange:
    """The record of these rows: of a `loaded` record there is one for each partition."""
    row = {name: value for name, value in rows[0].items() if value is not None and name != "key"}
    for outer in _NESTED:
        inner = {name.removeprefix(f"{outer}_"): row.pop(name) for name in list(row) if name.startswith(f"{outer}_")}
        if inner:
            row[outer] = inner
    if row["kind"] == Kind.LOADED and "partition" in row:
        row["partitions"] = [_loaded(each) for each in rows]
        row["moves"] = [_move(each) for each in rows if each["adding_replicas"] or each["removing_replicas"]]
        for name in _OF_PARTITION:
            row.pop(name, None)
    return msgspec.convert(row, LoggedStateChange)


def _loaded(row: Mapping[str, Any]) -> list[Any]:
    if row["leader_epoch"] is None:
        return [row["partition"], -1, -1, -1, [], row["replicas"] or [], -1]
    state = [row["leader"], row["leader_epoch"], row["partition_epoch"], row["isr"] or []]
    return [row["partition"], *state, row["replicas"] or [], -1]


def _move(row: Mapping[str, Any]) -> list[Any]:
    return [row["partition"], row["adding_replicas"] or [], row["removing_replicas"] or []]
