"""What a batch of the audit leaves: the state of each bucket, and the commit that makes it count."""

from msgspec import Struct

from audit.rules.clock_differences import ClockDifference
from audit.rules.limits import Limits
from audit.storage.table_files import Deleted, Reached, TableSize


class StoredFile(Struct, frozen=True):
    """A file of the state, below the output folder, and the hash of its content. `rows`: of a sorted run."""

    file: str
    digest: str
    rows: int = 0


class BucketState(Struct, frozen=True):
    """What a bucket has kept: sorted runs by table, and for the last bucket a file of its own."""

    runs: dict[str, tuple[StoredFile, ...]] = {}
    file: StoredFile | None = None


class BucketResult(Struct, frozen=True):
    """What judging one bucket of a batch has brought.

    `controllers`: those whose events agents name. `taken`: the last file of each log, and up to which byte it was read.
    `tables`: what was written to them, by table and day. `error`: why the bucket could not be judged; nothing else
    holds then.
    """

    bucket: int
    state: BucketState
    tables: dict[str, dict[str, TableSize]] = {}
    error: str = ""
    records: int = 0
    quarantined: int = 0
    controllers: tuple[int, ...] = ()
    modified_ns: int = 0
    taken: dict[str, tuple[str, int]] = {}
    events: tuple[int, ...] = ()
    """Whose rows of the table of failovers may have changed."""
    clocks: tuple[ClockDifference, ...] = ()


class Commit(Struct, frozen=True):
    """The state of the audit after a batch. `records` and `quarantined` count all batches."""

    version: int
    batch: int
    query: str
    buckets: dict[str, BucketState]
    records: int = 0
    quarantined: int = 0
    controllers: tuple[int, ...] = ()
    modified_ns: int = 0
    """When the file that was changed last of those that were read had been changed, since 1970."""
    taken: dict[str, tuple[str, int]] = {}
    """Of each log the last file, and up to which byte it was read."""
    tables: dict[str, TableSize] = {}
    checkpoint: str = ""
    """Where Spark's checkpoint is, if not below the output folder."""
    compactions: int = 0
    deleted: dict[str, Deleted] = {}
    """By table: what retention has deleted."""

    def reached(self, table: str) -> Reached:
        return Reached(self.batch, self.compactions, self.deleted.get(table))

    limits: Limits = Limits()
    clocks: tuple[ClockDifference, ...] = ()
