"""Rebuilds the state of partitions from the table of records, by the rules of this klamm, in any number of buckets.

Rows of tables that the rules now see otherwise are written, and withdrawn where they hold no more, as by any batch. One
commit after the last one makes all of it count. The state of what concerns no partition (chains of lines, controllers,
nodes) stays as it is, for no table has all of it.

Records are divided by bucket into files of a temporary folder; then one bucket after the other is checked in steps, as
an audit does in batches. Memory holds the state and the rows of one bucket.
"""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import duckdb
import numpy
import pyarrow
from msgspec.structs import replace

from audit.batches.batch import next_commit
from audit.batches.bucket import BucketPlace, check_bucket, joined_events
from audit.batches.kept_tables import copied_state
from audit.reading.source import shared_rows, split
from audit.records.columns import RECORDS, partition_keys
from audit.records.vectors import in_one_chunk
from audit.rules.clock_differences import ClockDifference
from audit.storage.commits import BucketResult, BucketState, Commit
from audit.storage.committed_state import OutputError
from audit.storage.output_folder import OutputFolder
from audit.storage.table_files import holding_rows
from audit.storage.table_schemas import (
    FAILOVERS_TABLE,
    FINDINGS_TABLE,
    REASSIGNMENTS_TABLE,
    RECORDS_TABLE,
    TABLES,
    TIMELINES_TABLE,
)
from audit.tables.compaction import Compaction, commit_and_delete, delete_strays
from audit.tables.failovers import failed_events, failover_rows

BUCKETS_MAX: Final = 256
"""The most buckets: each batch may write one file for each of them and each table."""
_REVISED: Final = (FINDINGS_TABLE, TIMELINES_TABLE, REASSIGNMENTS_TABLE)
"""The tables that the buckets of partitions write, beside the records."""
_STEP_ROWS: Final = 1 << 18
_EVENTS: Final = 100
"""Failovers whose elections are in memory at a time."""


class Rebuilt(NamedTuple):
    """Holds what a rebuild did. `records`: records of partitions. `changed`: rows written or withdrawn, by table."""

    buckets: int
    records: int
    changed: dict[str, int]


def rebuild(folder: OutputFolder, bucket_count: int | None = None) -> Rebuilt:
    """Rebuild the state of partitions in this number of buckets, by default as many as before, and commit it.

    No other process may write to the folder. Raises OutputError.
    """
    folder.check_kept()
    before = folder.last_commit()
    if before is None:
        raise OutputError(f"{folder.location}: nothing was audited yet")
    if RECORDS_TABLE in before.deleted:
        raise OutputError(
            f"{folder.location}: --keep-days has deleted the records before {before.deleted[RECORDS_TABLE].before}, "
            "without which the rules would forget what they know from them: audit the logs that there are into a new "
            "--output"
        )
    # Of a batch, or a rebuild, that was killed: its files would count with this commit.
    delete_strays(folder)
    count = bucket_count or before.bucket_count
    start = replace(
        before,
        buckets={str(count): before.cluster},
        bucket_count=count,
        rebuilds=before.rebuilds + 1,
        clocks=(),
        rules=(),
        must_rebuild=False,
    )
    changes = _Changes(folder, before.batch + 1)
    with TemporaryDirectory(prefix="klamm-audit-") as temporary:
        divided = _Divided(Path(temporary), count)
        for table in (RECORDS_TABLE, *_REVISED):
            divided.add(folder, before, table)
        results = [_rebuilt_bucket(changes, start, bucket, divided) for bucket in range(count)]
    commit = next_commit(start, results)
    changes.write(FAILOVERS_TABLE, folder.current_table(FAILOVERS_TABLE), _failovers(folder, commit), count + 1)
    failovers = BucketResult(count, before.cluster, tables=folder.take_written())
    commit_and_delete(folder, Compaction(next_commit(start, [*results, failovers]), []))
    return Rebuilt(count, divided.rows[RECORDS_TABLE], changes.rows)


class _Changes:
    """Holds what a rebuild changes about the tables. `rows`: the number of changed rows, by table."""

    def __init__(self, folder: OutputFolder, batch: int) -> None:
        self.folder, self.batch = folder, batch
        self.rows: Counter[str] = Counter()

    def write(self, table: str, before: pyarrow.Table, now: pyarrow.Table, bucket: int) -> None:
        """Write the rows of `now` that are new or differ, and those of `before` that are gone."""
        rows = changed_rows(table, before, now)
        if rows.num_rows:
            self.folder.write_rows(table, rows, self.batch, bucket)
            self.rows[table] += rows.num_rows


def changed_rows(table: str, before: pyarrow.Table, now: pyarrow.Table) -> pyarrow.Table:
    """The rows that hold now and are new or differ, and as withdrawn those that are gone."""
    known = TABLES[table]
    same_key = " AND ".join(f"now.{name} IS NOT DISTINCT FROM before.{name}" for name in known.key)
    with duckdb.connect(":memory:") as tables:
        tables.register("before", before)
        tables.register("now", now)
        changed = tables.sql("FROM now EXCEPT FROM before").to_arrow_table()
        gone = tables.sql(
            f"SELECT * REPLACE ('withdrawn' AS status) FROM before WHERE NOT EXISTS (FROM now WHERE {same_key})"
        ).to_arrow_table()
    return pyarrow.concat_tables([changed.cast(known.schema), gone.cast(known.schema)])


class _Divided:
    """Rows of tables by the bucket of their partition, in files of a temporary folder. `rows`: how many, by table."""

    def __init__(self, top: Path, bucket_count: int) -> None:
        self.top, self._count = top, bucket_count
        self.rows: Counter[str] = Counter()

    def add(self, folder: OutputFolder, commit: Commit, table: str) -> None:
        """Divide the committed rows of a table. Rows that are of no partition are left out."""
        files = folder.files_at(commit, table)
        for number, rows in enumerate(_steps(part for file in files for part in folder.read_parts(file))):
            keyed = rows.append_column("key", _keys(rows))
            if table == RECORDS_TABLE and (shared := shared_rows(keyed)).num_rows:
                for bucket in range(self._count):
                    # They are read first: an election may stand before them, though its log had them earlier.
                    self._write(self._folder(table, bucket) / f"+{number:06d}.arrow", shared)
            for bucket, part in enumerate(split(keyed, self._count)[:-1]):
                if part.num_rows:
                    self._write(self._folder(table, bucket) / f"{number:06d}.arrow", part)
                    self.rows[table] += part.num_rows

    def steps(self, table: str, bucket: int) -> Iterator[pyarrow.Table]:
        """The rows of a bucket, with `key`, in tables of some hundred thousand rows."""
        files = sorted(self._folder(table, bucket).glob("*.arrow"))
        return _steps(pyarrow.ipc.open_file(pyarrow.memory_map(str(file))).read_all() for file in files)

    def _folder(self, table: str, bucket: int) -> Path:
        return self.top / f"{table}-{bucket}"

    @staticmethod
    def _write(path: Path, rows: pyarrow.Table) -> None:
        path.parent.mkdir(exist_ok=True)
        options = pyarrow.ipc.IpcWriteOptions(compression="lz4")
        with pyarrow.ipc.new_file(str(path), rows.schema, options=options) as writer:
            writer.write_table(rows)


def _steps(parts: Iterable[pyarrow.Table]) -> Iterator[pyarrow.Table]:
    """Join and cut tables into tables of some hundred thousand rows."""
    held: list[pyarrow.Table] = []
    for part in parts:
        held.append(part)
        if sum(rows.num_rows for rows in held) >= _STEP_ROWS:
            yield in_one_chunk(held)
            held = []
    if held:
        yield in_one_chunk(held)


def _keys(rows: pyarrow.Table) -> pyarrow.Array:
    """The keys of rows by the names of their partitions, as records have them; aligned with the rows."""
    topic, topic_id = (rows[name].combine_chunks() for name in ("topic", "topic_id"))
    if not pyarrow.types.is_dictionary(topic.type):
        topic, topic_id = topic.dictionary_encode(), topic_id.dictionary_encode()
    return pyarrow.array(partition_keys(topic, topic_id, rows["partition"]), pyarrow.uint64())


def _rebuilt_bucket(changes: _Changes, start: Commit, bucket: int, divided: _Divided) -> BucketResult:
    """Check the records of a bucket, and write what that changes about its tables, and its state."""
    top, folder = divided.top / "bucket", changes.folder
    scratch, state = _Scratch(top), BucketState()
    clocks: list[ClockDifference] = []
    controllers: set[int] = set()
    followed: set[tuple[int, int]] = set()
    events: tuple[tuple[int, int, int], ...] = ()
    for step, rows in enumerate(divided.steps(RECORDS_TABLE, bucket)):
        result = check_bucket(scratch, BucketPlace(bucket, step), state, rows.select(RECORDS.names), start)
        state = result.state
        clocks += result.clocks
        controllers |= set(result.controllers)
        followed |= set(result.followed)
        events = joined_events(events, result.greatest_events)
    for table in _REVISED:
        known = (rows.drop_columns(["key"]) for rows in divided.steps(table, bucket))
        changes.write(table, holding_rows(table, known), scratch.holding(table), bucket)
    state = copied_state(scratch, state, folder, bucket, changes.batch)
    shutil.rmtree(top, ignore_errors=True)
    return BucketResult(
        bucket,
        state,
        tables=folder.take_written(),
        controllers=tuple(sorted(controllers)),
        followed=tuple(sorted(followed)),
        greatest_events=events,
        clocks=tuple(clocks),
    )


class _Scratch(OutputFolder):
    """Holds what the steps of one bucket leave, except for the records, which are in their table already."""

    def write_rows(self, table: str, rows: pyarrow.Table, batch: int, bucket: int) -> None:
        if table != RECORDS_TABLE:
            super().write_rows(table, rows, batch, bucket)

    def holding(self, table: str) -> pyarrow.Table:
        """The rows of a table that still hold after the last step."""
        files = sorted(self.all_files(table), key=lambda file: file.first)
        return holding_rows(table, [self.read_file(file) for file in files])


def _failovers(folder: OutputFolder, commit: Commit) -> pyarrow.Table:
    events = failed_events(folder, commit.cluster)
    parts = numpy.array_split(events, range(_EVENTS, len(events), _EVENTS))
    rows = [failover_rows(folder, commit.buckets, part.tolist()) for part in parts]
    return pyarrow.concat_tables(rows).cast(TABLES[FAILOVERS_TABLE].schema)
