"""Ports of an agent besides ZooKeeper: other nodes, durable logs, and work off the event loop.

`ClusterClient` and `Workers` are implemented by adapters and by the simulator. `Log` and `LogDirectories` are
implemented on files with fsync and on an in-memory disk that loses or tears its unflushed tail; one contract suite
runs on both.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from msgspec import Struct

from broker_agent.log_damage import DamagedReplica, LogDamage
from cluster.model.broker import BrokerEpoch, Endpoint, LeaderEpoch, Offset, TopicId
from cluster.model.partition import TopicPartition
from cluster.requests import data

T = TypeVar("T")
R = TypeVar("R", bound=Struct)


class ClusterClient(Protocol):
    """Calls to the controller and to other agents. Each raises PeerUnreachableError without a response."""

    async def ask_controller(self, controller: Endpoint, request: Struct, response_type: type[R]) -> R:
        """Send an inter-node request of `cluster.requests.agents`. An error is the `error_code` of the response."""

    async def fetch(self, leader: Endpoint, request: data.FetchRequest) -> data.FetchResponse: ...

    async def offsets_for_leader_epoch(
        self, leader: Endpoint, request: data.OffsetsForLeaderEpochRequest
    ) -> data.OffsetsForLeaderEpochResponse: ...

    async def list_offsets(self, leader: Endpoint, request: data.ListOffsetsRequest) -> data.ListOffsetsResponse: ...


class Workers(Protocol):
    """Runs work that would keep the event loop from its tasks for too long."""

    async def run(self, work: Callable[[], T]) -> T:
        """Run the work elsewhere; several at a time, in no particular order.

        Started work is completed even if the awaiting task is cancelled, which then ends when the work has ended.
        """


class AppendInfo(Struct, frozen=True):
    """The result of an append. `last_offset` is inclusive; both offsets are -1 if nothing was appended.

    `duplicate`: an idempotent producer sent this batch before; the offsets are those of the first append.
    """

    first_offset: Offset
    last_offset: Offset
    last_leader_epoch: LeaderEpoch
    log_append_time_ms: int = -1
    valid_bytes: int = 0
    record_count: int = 0
    duplicate: bool = False


UNLIMITED: Final = 9_223_372_036_854_775_807
"""Kafka's value for a time or number without limit."""


class LogConfig(Struct, frozen=True):
    """Topic-level settings of one log; defaults are the broker's defaults. Sizes in bytes, times in ms."""

    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    max_message_bytes: int = 1_048_588
    min_insync_replicas: int = 1
    flush_messages: int = UNLIMITED
    flush_ms: int = UNLIMITED
    file_delete_delay_ms: int = 60_000
    cleanup_policy: str = "delete"
    message_timestamp_type: str = "CreateTime"
    message_timestamp_difference_max_ms: int = UNLIMITED
    """The former name of the next two; applies to each that has its default."""
    message_timestamp_before_max_ms: int = UNLIMITED
    message_timestamp_after_max_ms: int = UNLIMITED


class Log(Protocol):
    """One replica's log in one directory.

    All methods but the `async` ones are synchronous and do no fsync: they write to the page cache, so code between two
    awaits sees them as atomic. Every operation raises StorageError once the directory has failed. Offsets:
    log_start_offset <= high_watermark <= log_end_offset (exclusive end).
    """

    topic_partition: TopicPartition
    config: LogConfig

    @property
    def topic_id(self) -> TopicId | None: ...

    @property
    def directory(self) -> str:
        """The log directory (the parent of the partition's directory)."""

    @property
    def log_start_offset(self) -> Offset: ...

    @property
    def log_end_offset(self) -> Offset: ...

    @property
    def high_watermark(self) -> Offset: ...

    @property
    def latest_epoch(self) -> LeaderEpoch | None:
        """Latest entry of the epoch cache, or None (R5.8)."""

    @property
    def confirmed_epoch(self) -> LeaderEpoch:
        """The latest epoch that does not rest on a batch header alone, -1 if none (R9.23)."""

    @property
    def highest_producer_id(self) -> int:
        """Of the producers known to the log; -1 if there is none."""
        ...

    def set_high_watermark(self, offset: Offset) -> Offset:
        """Set, bounded to [log start, log end]; returns the result. May decrease (followers only)."""

    def set_topic_id(self, topic_id: TopicId) -> None:
        """Set the topic id (R2.3, R3.11); it is written to `partition.metadata` before any data."""

    async def begin_leader_epoch(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Assign (epoch, start offset), durably before returning; fsync in a thread (R3.7a step 2)."""

    def drop_epochs_above(self, leader_epoch: LeaderEpoch) -> Offset | None:
        """Truncate batches of leader epochs above the given one, the newest there is, that only their own headers name
        (R9.23): no checksum covers that field. Returns the offset truncated to; None if there were none.
        """

    def append_as_leader(self, records: bytes, leader_epoch: LeaderEpoch, now_ms: int) -> AppendInfo:
        """Validate, stamp, and append exactly one batch (R10.4). Raises LogAppendError, StorageError."""

    def append_as_follower(self, records: bytes, max_epoch: LeaderEpoch) -> AppendInfo:
        """Append batches as given (R10.7), without a trailing partial one; none above `max_epoch` (R5.30).

        Raises LogAppendError (nothing appended) or StorageError.
        """

    def read(self, start: Offset, max_bytes: int, upper_bound: Offset, *, at_least_one: bool) -> bytes:
        """Whole batches from the one containing `start`, ending at or before `upper_bound` (R10.10).

        `at_least_one`: the first batch is returned even when it alone exceeds `max_bytes`.
        Raises LogAppendError(OFFSET_OUT_OF_RANGE) for start < log start or > LEO.
        """

    def bytes_between(self, start: Offset, end: Offset) -> int | None:
        """Bytes from the batch containing `start` up to `end` when in one segment, else None (R6.15)."""

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> data.EpochEndOffset:
        """The end offset for OffsetsForLeaderEpoch (R6.20)."""

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, Offset] | None:
        """First (timestamp, offset) with timestamp >= the given one, at batch granularity; None if none."""

    def epoch_at_offset(self, offset: Offset) -> LeaderEpoch | None: ...

    async def verify(self, pace: Callable[[int], Awaitable[None]]) -> LogDamage | None:
        """Check every batch of sealed segments, and the flushed ones of the active segment, in a worker thread; `pace`
        is awaited with the size of each piece (R9.30).

        The first damage, None if there is none, or if the log was truncated meanwhile. Raises StorageError.
        """

    def truncate_to(self, offset: Offset) -> bool:
        """Truncate to `offset`: remove batches that do not end before it; returns whether there were any (R10.11).

        The epoch cache is truncated in any case (R5.18).
        """

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Delete all segments and start an empty log at `offset` (R10.12)."""

    def raise_log_start_offset(self, offset: Offset) -> bool:
        """Raise the log start, unless `offset` is lower; returns whether it was raised (R10.20).

        Raises LogAppendError(OFFSET_OUT_OF_RANGE) above the high watermark.
        """

    @property
    def durable_end_offset(self) -> Offset:
        """The log end; less if `flush.messages` requires a flush before records are acknowledged or replicated."""

    def flush_is_due(self, now_s: float) -> bool:
        """Whether a roll, flush.messages or flush.ms requires an fsync; `now_s` is the event loop's time."""

    async def flush(self) -> None:
        """Flush what is in the log now (fsync in a thread) and advance the recovery point to it.

        Raises StorageError.
        """


class LogDirectories(Protocol):
    """All logs of one agent; Kafka's LogManager."""

    @property
    def unacceptable_names(self) -> Mapping[str, Sequence[str]]:
        """Log directory -> names of its subdirectories that cannot be partitions; nothing in them is touched (BD-4)."""

    @property
    def live_directories(self) -> tuple[str, ...]: ...

    @property
    def failures(self) -> Mapping[str, OSError]:
        """The failed directories, each with the error that it failed by."""

    @property
    def unloadable(self) -> Mapping[TopicPartition, str]:
        """Why logs of live directories could not be loaded; they are offline until the process ends (R9.22)."""

    @property
    def damaged_replicas(self) -> Sequence[DamagedReplica]:
        """What is known to be missing, also by an earlier process of this broker (R9.33), and what may be (D-119)."""

    def damage_of(self, topic_partition: TopicPartition) -> Sequence[DamagedReplica]:
        """Those of `damaged_replicas` that are of this partition."""

    @property
    def newly_damaged(self) -> Sequence[DamagedReplica]:
        """What was found missing when the directories were opened (R9.22)."""

    def add_damaged(self, replica: DamagedReplica) -> None: ...

    def forget_damage(self, replica: DamagedReplica) -> None:
        """Remove a damaged replica that has been repaired."""

    async def write_damaged_replicas(self) -> None:
        """Rewrite the `damaged-replica-checkpoint` of each directory where something has changed (R9.33)."""

    def get(self, topic_partition: TopicPartition) -> Log | None: ...

    def all_logs(self) -> Mapping[TopicPartition, Log]: ...

    async def get_or_create(
        self, topic_partition: TopicPartition, *, topic_id: TopicId | None, is_new: bool, config: LogConfig
    ) -> Log:
        """The log of a partition; a new one has high watermark 0. Disk I/O in a thread (R11.6).

        Raises StorageError; LogAppendError(INCONSISTENT_TOPIC_ID) if the existing one has another id.
        """

    async def delete(self, topic_partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Exception]:
        """Rename to `-delete` at once, rewrite checkpoints, delete the files later (R4.3 step 4, R10.16).

        Returns the failures; partitions without a log are not failures.
        """

    async def read_high_watermarks(self, directory: str) -> dict[TopicPartition, Offset]:
        """The `replication-offset-checkpoint` of a directory. Raises StorageError when unreadable (R9.7)."""

    async def write_high_watermarks(self, directory: str, offsets: Mapping[TopicPartition, Offset]) -> None: ...

    async def write_recovery_points(self) -> None:
        """Rewrite the recovery-point checkpoints of all live directories (R9.1)."""

    async def write_log_start_offsets(self) -> None:
        """Rewrite the log-start checkpoints of all live directories (R9.1)."""

    async def flush_due(self) -> None:
        """Fsync the logs for which flush.ms, flush.messages or a roll requires it (R10.15); called periodically.

        Rewrites the recovery points of directories in which a log was truncated (R10.13) and deletes files and
        directories whose delay is over.
        """

    async def enforce_retention(self, now_ms: int) -> None:
        """Delete old segments, and files and directories whose delete delay is over (R10.17, R10.18)."""

    async def close(self, broker_epoch: BrokerEpoch) -> None:
        """Shut down every live directory cleanly (R9.21); release the lock files."""
