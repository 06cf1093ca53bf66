"""One batch of the stream: its buckets are judged in Spark's tasks, then the driver commits what they wrote.

A batch that Spark repeats after a crash finds its commit, or does the same again on the state of the commit before.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow
from msgspec.structs import replace
from pyspark.sql import DataFrame

from audit.batches.bucket import BucketPlace, check_bucket, concatenated, joined_events, write_findings
from audit.batches.cluster_state import Reported, check_cluster
from audit.batches.decisions import ReplayStage
from audit.reading.changed_files import FileFault
from audit.reading.lines_read import ReadRange
from audit.reading.source import FILES_ROW, LINES_ROW, RECORDS_ROW, from_stream
from audit.records.sealed_runs import OPEN_ROWS
from audit.rules.clock_differences import greatest
from audit.rules.limits import Limits
from audit.storage.checkpoints import LocalCheckpoint
from audit.storage.commits import BucketResult, BucketState, Commit
from audit.storage.committed_state import OutputError
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import RULES_VERSION, VERSION
from audit.storage.table_files import TableSize
from audit.storage.table_schemas import FAILOVERS_TABLE
from audit.tables.compaction import Compaction, commit_and_delete, compact_some, delete_old
from audit.tables.failovers import failover_rows

_RESULT: Final = "result binary"


class BatchSettings(NamedTuple):
    """The settings of a batch.

    `buckets`, `limits`, `open_rows`: of a first batch; later ones keep them. `checkpoint`: the location of
    Spark's own. `keep_days`: days that records and timelines are kept; None keeps all. `delta`: whether the tables are
    published as Delta tables.
    """

    tasks: int
    buckets: int
    checkpoint: str
    limits: Limits
    keep_days: int | None
    delta: bool = False
    open_rows: int = OPEN_ROWS
    replay: ReplayStage | None = None


def check_batch(frame: DataFrame, number: int, output: OutputFolder, settings: BatchSettings) -> None:
    """Check the rows of `audit.reading.source` and commit. `number`: that of Spark's batch. Raises OutputError."""
    query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
    elsewhere = "" if settings.checkpoint == output.path("checkpoint") else settings.checkpoint
    before = output.last_commit() or Commit(
        VERSION,
        -1,
        query,
        {},
        checkpoint=elsewhere,
        limits=settings.limits,
        bucket_count=settings.buckets,
        open_rows=settings.open_rows,
    )
    last = before.spark_batch
    if number not in {last, last + 1} or query != before.query:
        raise OutputError(
            f"{output.location}: batch {number} of query {query} after batch {last} of query {before.query}: "
            "its checkpoint is not the one of its tables; audit into a new --output"
        )
    if number == last:
        # Spark repeats it: it crashed after our commit, and before its own checkpoint had the batch.
        return
    # Tasks need neither what was read of each log nor the sizes of tables, nor what Spark knows.
    check = _checker(output.location, msgspec.json.encode(replace(before, taken={}, tables={}, offsets="")))
    rows = frame.repartitionById(settings.tasks, "bucket").mapInArrow(check, _RESULT).collect()
    results = [msgspec.json.decode(bytes(row["result"]), type=BucketResult) for row in rows]
    for result in results:
        if result.error:
            raise OutputError(result.error)
    checkpoint = LocalCheckpoint.at(settings.checkpoint)
    offsets = "" if checkpoint is None else checkpoint.synced_offsets(number)
    before = replace(before, offsets=offsets)
    commit_batch(output, before, results, settings.keep_days, delta=settings.delta, replay=settings.replay)


def replay_earlier(output: OutputFolder, settings: BatchSettings) -> bool:
    """Replay the decisions in records that were read without that, and commit what it finds; whether there were any.

    Raises OutputError.
    """
    before = output.last_commit()
    if settings.replay is None or before is None or before.decisions is not None or not before.records:
        return False
    before = replace(before, rebuilds=before.rebuilds + 1)
    commit_batch(output, before, [], settings.keep_days, delta=settings.delta, replay=settings.replay)
    return True


def commit_batch(
    output: OutputFolder,
    before: Commit,
    results: Sequence[BucketResult],
    keep_days: int | None = None,
    *,
    delta: bool = False,
    replay: ReplayStage | None = None,
) -> None:
    """Make the results of a batch count, keep the tables small, and delete what they no longer need.

    Every file is in place before the commit names it, and none is deleted that the commit before still names: whenever
    a crash comes, one of the two is whole.
    """
    written: dict[str, set[str]] = {}
    for result in results:
        for table, days in result.tables.items():
            written.setdefault(table, set()).update(days)
    commit = next_commit(before, results)
    events = {event for result in results for event in result.events}
    if events:
        rows = failover_rows(output, commit.buckets, events)
        output.write_rows(FAILOVERS_TABLE, rows, commit.batch, commit.bucket_count + 1)
        more = output.take_written()
        written |= {table: set(days) for table, days in more.items()}
        commit = replace(commit, tables=_summed(commit.tables, [more]))
    if replay is not None:
        found, decisions = replay.check(output, before, commit.batch)
        write_findings(output, BucketPlace(commit.bucket_count + 1, commit.batch), found)
        more = output.take_written()
        for table, days in more.items():
            written.setdefault(table, set()).update(days)
        commit = replace(commit, tables=_summed(commit.tables, [more]), decisions=decisions)
    else:
        # What was replayed so far does not cover this batch.
        commit = replace(commit, decisions=None)
    done = compact_some(output, before, commit, written)
    if keep_days is not None:
        old = delete_old(output, done.commit, keep_days, datetime.now(UTC).date())
        done = Compaction(old.commit, [*done.unneeded, *old.unneeded])
    commit_and_delete(output, done, publish=delta)


def next_commit(before: Commit, results: Sequence[BucketResult]) -> Commit:
    """Make the commit of a batch from the one before it."""
    return replace(
        before,
        batch=before.batch + 1,
        buckets=before.buckets | {str(result.bucket): result.state for result in results},
        records=before.records + sum(result.records for result in results),
        quarantined=before.quarantined + sum(result.quarantined for result in results),
        controllers=tuple(sorted({*before.controllers, *(c for result in results for c in result.controllers)})),
        followed=tuple(sorted({*before.followed, *(pair for result in results for pair in result.followed)})),
        greatest_events=joined_events(before.greatest_events, *(result.greatest_events for result in results)),
        tables=_summed(before.tables, [result.tables for result in results]),
        rules=tuple(sorted({*before.rules, RULES_VERSION} if results else before.rules)),
        clocks=tuple(greatest([*before.clocks, *(clock for result in results for clock in result.clocks)])),
        modified_ns=max([before.modified_ns, *(result.modified_ns for result in results)]),
        taken=before.taken | {log: taken for result in results for log, taken in result.taken.items()},
    )


def _summed(
    before: Mapping[str, TableSize], written: Iterable[Mapping[str, Mapping[str, TableSize]]]
) -> dict[str, TableSize]:
    found = dict(before)
    for tables in written:
        for table, days in tables.items():
            found[table] = sum(days.values(), start=found.get(table, TableSize()))
    return found


def _checker(location: str, commit: bytes) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    def check(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        before = msgspec.json.decode(commit, type=Commit)
        rows = (row for batch in batches for row in batch.to_pylist())
        for result in check_rows(OutputFolder(location), before, rows):
            yield pyarrow.record_batch({"result": pyarrow.array([msgspec.json.encode(result)], pyarrow.binary())})

    return check


def check_rows(output: OutputFolder, before: Commit, rows: Iterable[Mapping[str, Any]]) -> Iterator[BucketResult]:
    """Check rows of `audit.reading.source`, of all buckets, as the batch after this commit."""
    streams: dict[int, list[bytes]] = {}
    read: list[ReadRange] = []
    faults: list[FileFault] = []
    for row in rows:
        of_bucket = streams.setdefault(row["bucket"], [])
        if row["what"] == RECORDS_ROW:
            of_bucket.append(row["data"])
        elif row["what"] == FILES_ROW:
            faults += msgspec.json.decode(row["data"], type=list[FileFault])
        else:
            assert row["what"] == LINES_ROW, row["what"]
            read.append(msgspec.json.decode(row["data"], type=ReadRange))
    for bucket in sorted(streams):
        # Rows arrive in any order: sorted, so that a task which is run again, or twice, writes the same files.
        records = concatenated([from_stream(data) for data in sorted(streams.pop(bucket))])
        place, state = BucketPlace(bucket, before.batch + 1), before.buckets.get(str(bucket), BucketState())
        try:
            if bucket == before.bucket_count:
                result = check_cluster(output, place, before, records, Reported(read, faults))
            else:
                result = check_bucket(output, place, state, records, before)
        except OutputError as error:
            # Spark would tell the driver of it by a traceback.
            result = BucketResult(bucket, state, error=str(error))
        yield replace(result, tables=output.take_written())
