"""What a batch of the audit leaves: the state of each bucket, and the commit that makes it count."""

import hashlib
from typing import Final

import pyarrow
from msgspec import Struct

from audit.records.sealed_runs import OPEN_ROWS
from audit.rules.clock_differences import ClockDifference
from audit.rules.limits import Limits
from audit.storage.table_files import Deleted, Reached, TableSize

BUCKETS: Final = 4
"""Buckets of an audit that does not say otherwise: parts of the state that are checked independently of one another."""


class StoredFile(Struct, frozen=True):
    """A part of a file of the state, below the output folder: `size` bytes from `first` on, by default all.

    `digest`: the hash of its content. `rows`: those of a sorted run.
    """

    file: str
    digest: str
    rows: int = 0
    first: int = 0
    size: int | None = None


def content_digest(data: bytes | pyarrow.Buffer) -> str:
    """The hash of the content of a file, or of a part of it."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Sealed(Struct, frozen=True):
    """The old rows of a table, which are not read at each start: the floors of keys, and segments, oldest first.

    See `audit.records.sealed_runs`.
    """

    floors: StoredFile
    segments: tuple[StoredFile, ...]


class BucketState(Struct, frozen=True):
    """Holds what a bucket has kept: sorted runs by table, what is sealed of them, and for the last bucket a file of its
    own.
    """

    runs: dict[str, tuple[StoredFile, ...]] = {}
    file: StoredFile | None = None
    sealed: dict[str, Sealed] = {}


class BucketResult(Struct, frozen=True):
    """Holds what checking one bucket of a batch has brought.

    `controllers`: those whose events agents name; `followed`: these with the controller epoch, which stands first.
    `taken`: the last file of each log, and the byte up to which it was read. `tables`: what was written to them, by
    table and day. `error`: why the bucket could not be checked; nothing else holds then.
    """

    bucket: int
    state: BucketState
    tables: dict[str, dict[str, TableSize]] = {}
    error: str = ""
    records: int = 0
    quarantined: int = 0
    controllers: tuple[int, ...] = ()
    followed: tuple[tuple[int, int], ...] = ()
    greatest_events: tuple[tuple[int, int, int], ...] = ()
    """Of each pair in `followed`, the greatest number of an event, which stands last."""
    modified_ns: int = 0
    taken: dict[str, tuple[str, int]] = {}
    events: tuple[int, ...] = ()
    """The events whose rows of the table of failovers may have changed."""
    clocks: tuple[ClockDifference, ...] = ()


class ReplayedDecisions(Struct, frozen=True):
    """How many decisions of controllers were replayed, and what was missing for others: how many, and the first.

    `pending`, `pending_decisions`: the same of the last event of each log, which the next batch may continue.
    """

    decisions: int = 0
    missing: dict[str, tuple[int, str]] = {}
    pending: dict[str, tuple[int, str]] = {}
    pending_decisions: int = 0

    @property
    def all_decisions(self) -> int:
        return self.decisions + self.pending_decisions


class Commit(Struct, frozen=True):
    """The state of the audit after a batch. `records` and `quarantined` count all batches.

    `buckets`: by number; the last one, with the number `bucket_count`, is of what concerns no partition.
    """

    version: int
    batch: int
    query: str
    buckets: dict[str, BucketState]
    records: int = 0
    quarantined: int = 0
    controllers: tuple[int, ...] = ()
    followed: tuple[tuple[int, int], ...] = ()
    greatest_events: tuple[tuple[int, int, int], ...] = ()
    modified_ns: int = 0
    """The newest time of change of the files that were read, in ns since 1970."""
    taken: dict[str, tuple[str, int]] = {}
    """The last file of each log, and the byte up to which it was read."""
    tables: dict[str, TableSize] = {}
    checkpoint: str = ""
    """The location of Spark's checkpoint, if not below the output folder."""
    offsets: str = ""
    """What Spark's checkpoint says of the batch, word for word; "" if it is in no folder of this machine."""
    compactions: int = 0
    deleted: dict[str, Deleted] = {}
    """What retention has deleted, by table."""

    def reached(self, table: str) -> Reached:
        return Reached(self.batch, self.compactions, self.deleted.get(table))

    limits: Limits = Limits()
    clocks: tuple[ClockDifference, ...] = ()
    bucket_count: int = BUCKETS
    """The number of buckets into which partitions are divided."""
    rebuilds: int = 0
    """Commits of no batch of Spark's, as of a rebuild: batch n of Spark's is batch n + rebuilds here."""
    rules: tuple[int, ...] = ()
    """The versions of the rules about partitions by which the records were checked."""
    open_rows: int = OPEN_ROWS
    """Rows of a table in a bucket above which old ones are sealed."""
    must_rebuild: bool = False
    """The state of partitions is of a version that this klamm cannot continue."""
    decisions: ReplayedDecisions | None = None
    """What was replayed; None if the last batch was not asked to be."""

    @property
    def spark_batch(self) -> int:
        """The number of the last batch in Spark's checkpoint."""
        return self.batch - self.rebuilds

    @property
    def partitions(self) -> dict[str, BucketState]:
        """The state of partitions, by bucket."""
        return {bucket: state for bucket, state in self.buckets.items() if bucket != str(self.bucket_count)}

    @property
    def cluster(self) -> BucketState:
        """The state of chains, controllers and nodes."""
        return self.buckets.get(str(self.bucket_count), BucketState())
