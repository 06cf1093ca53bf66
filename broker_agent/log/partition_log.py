"""One replica's log: what changes its segments, leader epochs, producer state and offsets.

Synchronous methods run between two awaits of the event loop and write to the page cache only; `log_flusher` flushes,
and `log_reading` reads. Source: Kafka UnifiedLog, LocalLog.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from broker_agent.log import checkpoints
from broker_agent.log.append_info import NOTHING_APPENDED, AppendInfo
from broker_agent.log.config import LogConfig
from broker_agent.log.cut_markers import create_marker
from broker_agent.log.disk_errors import is_error_of_disk
from broker_agent.log.epoch_history import EpochEntry
from broker_agent.log.epoch_journal import BegunEpoch, JournaledEpochs
from broker_agent.log.index import MAX_RELATIVE_OFFSET
from broker_agent.log.log_directory import LogDirectory
from broker_agent.log.log_reading import ReadableLog
from broker_agent.log.record_batch import BatchHeader, stamp, stamp_append_time
from broker_agent.log.record_sets import check_batch_of_client, check_set_of_leader, split_for_segments
from broker_agent.log.recovery import LoadedLog
from broker_agent.log.retention import count_expired, describe
from broker_agent.log.segment import UNFINISHED_SUFFIX, PlacedBatch, Segment
from broker_agent.log.segments import LogDependencies, create_cleaned_segment, create_segment
from broker_agent.log.snapshots import rebuild_producers, remove_snapshots_after, write_snapshot
from cluster.model.broker import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicId
from cluster.model.errors import ErrorCode, LogAppendError
from cluster.model.partition import TopicPartition
from cluster.requests.data import EpochEndOffset


class PartitionLog(ReadableLog):
    """One replica's log in one directory.

    All methods but the `async` ones are synchronous and do no fsync: they write to the page cache, so code between two
    awaits sees them as atomic.
    """

    def __init__(
        self,
        dependencies: LogDependencies,
        log_directory: LogDirectory,
        path: str,
        *,
        topic_partition: TopicPartition,
        config: LogConfig,
        loaded: LoadedLog,
    ) -> None:
        super().__init__(
            dependencies, log_directory, path, topic_partition=topic_partition, config=config, loaded=loaded
        )
        self._epochs, self.producers = loaded.epochs, loaded.producers
        self._topic_id, self._confirmed_epoch = loaded.topic_id, loaded.confirmed_epoch
        self.first_dirty_offset = loaded.first_dirty_offset
        """Where the last cleaning ended; 0 if there was none."""
        self._topic_id_is_dirty = False
        self._is_untouched = loaded.is_untouched
        self._producers_counted = 0
        self._writing = asyncio.Lock()  # One writer of this log's small files at a time; also held by rename.
        self._count_producers()
        self._mark_used()

    def usable(self) -> LogDirectory:
        self._mark_used()
        return super().usable()

    def _mark_used(self) -> None:
        """Let the next check for due flushes look at the log."""
        self._log_directory.used[self] = None

    @property
    def config(self) -> LogConfig:
        """The settings of its topic."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._mark_used()

    @property
    def topic_id(self) -> TopicId | None:
        return self._topic_id

    @property
    def is_untouched(self) -> bool:
        """Whether it never had records here, nor an epoch in its own checkpoint, so that neither topic id nor names
        were flushed yet.
        """
        return self._is_untouched

    @property
    def was_never_used(self) -> bool:
        """Whether it is as it was created: nothing is lost with it."""
        return self._is_untouched and self._end == 0 and self._epochs.latest is None

    @property
    def takes_records(self) -> bool:
        """Whether its directory has room for records."""
        return self._log_directory.shortage is None

    @property
    def last_stable_offset(self) -> Offset:
        """The high watermark, or where the oldest open transaction begins, if that is below."""
        first_unstable = self.first_unstable_offset
        return self._high_watermark if first_unstable is None else min(self._high_watermark, first_unstable)

    @property
    def first_unstable_offset(self) -> Offset | None:
        """The first offset of the oldest transaction without a marker; None if there is none."""
        return self.producers.first_unstable_offset

    @property
    def latest_epoch(self) -> LeaderEpoch | None:
        """The latest entry of the epoch cache, or None (R5.8)."""
        return self._epochs.latest

    @property
    def highest_producer_id(self) -> int:
        """The highest id of the producers known to the log; -1 if there is none."""
        return self.producers.highest_id

    @property
    def confirmed_epoch(self) -> LeaderEpoch:
        """The latest epoch that does not rest on a batch header alone, -1 if none (R9.23)."""
        below = (entry.epoch for entry in reversed(self._epochs.entries) if entry.epoch <= self._confirmed_epoch)
        return next(below, NO_LEADER_EPOCH)

    @property
    def epoch_entries(self) -> tuple[EpochEntry, ...]:
        return self._epochs.entries

    @property
    def log_start_to_checkpoint(self) -> Offset | None:
        """The log start if it differs from the first segment's base offset, else None."""
        return self._log_start if self._log_start > self.segments.first.base_offset else None

    def set_high_watermark(self, offset: Offset) -> Offset:
        """Set, bounded to [log start, log end]; returns the result. May decrease (followers only)."""
        before, self._high_watermark = self._high_watermark, max(self._log_start, min(offset, self._end))
        if self._high_watermark != before:
            self.on_change()
        return self._high_watermark

    def set_topic_id(self, topic_id: TopicId) -> None:
        """Set the topic id (R2.3, R3.11); it is written to `partition.metadata` before any data."""
        self._topic_id, self._topic_id_is_dirty = topic_id, True
        self._mark_used()
        self.on_change()

    async def begin_leader_epoch(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Assign (epoch, start offset), durably before returning; fsync in a thread (R3.7a step 2)."""
        with self.usable():
            self._epochs.assign(epoch, start_offset)
            self._confirmed_epoch = max(self._confirmed_epoch, epoch)
            async with self._writing:
                self.usable()  # While it waited, the log may have been deleted and its directory renamed.
                await self._write_topic_id_unflushed()
                # The topic id first: a later topic of that name has lower epochs.
                first = checkpoints.PARTITION_METADATA if self._topic_id_is_unflushed else None
                if await self._flusher.write_epochs(self._write_epochs, first):
                    self._is_untouched = False
                    self._log_directory.epoch_journal.forget(self.topic_partition)

    async def _write_epochs(self, checkpoint: checkpoints.Replacement) -> bool:
        epochs = JournaledEpochs(self._topic_id, self._epochs.entries)
        return await self._log_directory.epoch_journal.begin(BegunEpoch(self.topic_partition, epochs, checkpoint))

    def drop_epochs_above(self, leader_epoch: LeaderEpoch) -> Offset | None:
        """Truncate batches of leader epochs above the given one, the newest there is, that only their own headers name
        (R9.23): no checksum covers that field. Returns the offset truncated to; None if there were none.
        """
        with self.usable():
            confirmed = self._confirmed_epoch = max(self._confirmed_epoch, leader_epoch)
            start = next((entry.start_offset for entry in self._epochs.entries if entry.epoch > confirmed), None)
            if start is not None:
                self.truncate_to(start)
            return start

    def raise_log_start_offset(self, offset: Offset) -> bool:
        """Raise the log start, unless `offset` is lower; returns whether it was raised (R10.20).

        Raises LogAppendError(OFFSET_OUT_OF_RANGE) above the high watermark.
        """
        if offset > self._high_watermark:
            why = f"log start {offset} would be above the high watermark {self._high_watermark}"
            raise LogAppendError(ErrorCode.OFFSET_OUT_OF_RANGE, why)
        with self.usable():
            if offset <= self._log_start:
                return False
            self._log_start = offset
            self._epochs.truncate_from_start(offset)
            self.on_change()
            return True

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEndOffset:
        """The end offset for OffsetsForLeaderEpoch (R6.20)."""
        with self.usable():
            return self._epochs.end_offset_for(epoch, self._end)

    def epoch_at_offset(self, offset: Offset) -> LeaderEpoch | None:
        return self._epochs.epoch_at(offset)

    # Appending

    def append_as_leader(self, records: bytes, leader_epoch: LeaderEpoch, now_ms: int) -> AppendInfo:
        """Validate, stamp, and append exactly one batch (R10.4). Raises LogAppendError, StorageError."""
        with self.usable():
            assert leader_epoch >= (self._epochs.latest or 0), f"epoch {leader_epoch} follows {self._epochs.latest}"
            self._write_topic_id()
            header = check_batch_of_client(records, self.config)
            if self.config.message_timestamp_type == "LogAppendTime":
                records = stamp_append_time(records, now_ms)
                header = header._replace(max_timestamp=now_ms)
            header = header._replace(base_offset=self._end, leader_epoch=leader_epoch)
            if not self.takes_records and self.producers.find_duplicate(header) is None:
                self._log_directory.check_room()
            self._epochs.assign(leader_epoch, self._end)
            self._roll_if_needed([PlacedBatch(0, header)], len(records), now_ms)
            duplicate = self.producers.find_duplicate(header)
            if duplicate is not None:
                return AppendInfo(duplicate.first_offset, duplicate.last_offset, leader_epoch, duplicate=True)
            self._write_set(stamp(records, self._end, leader_epoch), [PlacedBatch(0, header)])
            return AppendInfo(
                Offset(header.base_offset),
                Offset(header.last_offset),
                leader_epoch,
                log_append_time_ms=now_ms if self.config.message_timestamp_type == "LogAppendTime" else -1,
                valid_bytes=len(records),
                record_count=header.record_count,
            )

    def append_as_follower(self, records: bytes, max_epoch: LeaderEpoch) -> AppendInfo:
        """Append batches as given (R10.7), without a trailing partial one; none above `max_epoch` (R5.30).

        Raises LogAppendError (nothing appended) or StorageError.
        """
        with self.usable():
            self._log_directory.check_room()
            self._write_topic_id()
            batches = check_set_of_leader(records, self._end, self._epochs.latest, max_epoch)
            if not batches:
                return NOTHING_APPENDED
            first, last = batches[0].header, batches[-1].header
            self._confirmed_epoch = max(self._confirmed_epoch, LeaderEpoch(last.leader_epoch))
            if first.base_offset < self._end:
                self._restart_inside_batch(first)
            # A fetched set may be larger than a segment of this replica: it is split over as many as needed.
            for run in split_for_segments(batches, self.config.segment_bytes):
                start, end = run[0].position, run[-1].position + run[-1].header.size
                self._roll_if_needed(run, end - start, None)
                placed = [PlacedBatch(position - start, header) for position, header in run]
                self._write_set([memoryview(records)[start:end]], placed)
                # Not before they are written: without room for them, fewer may be fetched next, of earlier epochs.
                for _, header in run:
                    self._epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
            return AppendInfo(
                Offset(first.base_offset),
                Offset(last.last_offset),
                LeaderEpoch(last.leader_epoch),
                valid_bytes=batches[-1].position + last.size,
                record_count=sum(header.record_count for _, header in batches),
            )

    def _restart_inside_batch(self, first: BatchHeader) -> None:
        """The leader's log starts inside a batch: restart this empty log at the base offset of that batch."""
        if self._end != self._log_start:
            why = f"unexpected offset {first.base_offset}, the log ends at {self._end}"
            raise LogAppendError(ErrorCode.UNKNOWN_SERVER_ERROR, why)
        self._restart_at(Offset(first.base_offset))

    def _write_set(self, buffers: Sequence[bytes | memoryview], batches: Sequence[PlacedBatch]) -> None:
        self.segments.active.append(buffers, batches)
        self._log_directory.took(sum(map(len, buffers)))
        self._end = Offset(batches[-1].header.last_offset + 1)
        for _, header in batches:
            self.producers.update(header)
        self._count_producers()
        self.on_change()

    def _roll_if_needed(self, batches: Sequence[PlacedBatch], size: int, now_ms: int | None) -> None:
        active, last = self.segments.active, batches[-1].header
        newest = max(header.max_timestamp for _, header in batches)
        now_ms = self._dependencies.clock.now_ms() if now_ms is None else now_ms
        if active.must_roll(size, last.last_offset, newest, now_ms, self.config):
            # Not the log end, where a truncation inside a batch left a gap: recovery would take a gap before a segment
            # for lost data. A gap as wide as a segment has to stay.
            end = active.next_offset
            self._roll(end if last.last_offset - end <= MAX_RELATIVE_OFFSET else Offset(batches[0].header.base_offset))

    def _roll(self, base_offset: Offset) -> None:
        disk = self._dependencies.disk
        self.segments.active.save_indexes()
        write_snapshot(disk, self.path, self.producers, self._end)
        self.producers.snapshot_end = self._end
        self.segments.add(create_segment(self._dependencies, self.path, base_offset, self.config))
        self._flusher.on_roll()

    async def prepare_for_records(self) -> None:
        """Flush topic id and names of an untouched log in a thread, so that its first append need not. Raises
        StorageError.
        """
        with self.usable():
            async with self._writing:
                if self._is_untouched and not self._is_closed:
                    await self._dependencies.disk.run(self._flush_untouched)
                    self._is_untouched = False

    def _write_topic_id(self) -> None:
        """Write the topic id durably before any data: on the event loop, so an append may block, once per log."""
        if self._topic_id_is_dirty and self._topic_id is not None:
            content = checkpoints.encode_partition_metadata(self._topic_id)
            checkpoints.write_atomically(self._dependencies.disk, self.path, checkpoints.PARTITION_METADATA, content)
            self._topic_id_is_dirty = self._is_untouched = False
        elif self._is_untouched:
            self._flush_untouched()
            self._is_untouched = False

    async def _write_topic_id_unflushed(self) -> None:
        """Write the topic id that an untouched log got after its creation, to be flushed with what comes first."""
        if self._is_untouched and self._topic_id_is_dirty and self._topic_id is not None:
            disk, content = self._dependencies.disk, checkpoints.encode_partition_metadata(self._topic_id)
            write = partial(checkpoints.write_unflushed, disk, self.path, checkpoints.PARTITION_METADATA, content)
            await disk.run(write)
            self._topic_id_is_dirty = False

    @property
    def _topic_id_is_unflushed(self) -> bool:
        return self._is_untouched and self._topic_id is not None and not self._topic_id_is_dirty

    def _flush_untouched(self) -> None:
        if self._topic_id_is_unflushed:
            checkpoints.flush_written(self._dependencies.disk, self.path, checkpoints.PARTITION_METADATA)
        self._dependencies.disk.sync_directory(self.path)

    # Truncating and deleting

    def truncate_to(self, offset: Offset) -> bool:
        """Truncate to `offset`: remove batches that do not end before it; returns whether there were any (R10.11).

        The epoch cache is truncated in any case (R5.18).
        """
        assert offset >= 0, f"cannot truncate {self.topic_partition} to {offset}"
        with self.usable():
            if offset >= self._end:
                self._epochs.truncate_from_end(offset)
                return False
            if self.segments.first.base_offset > offset:
                self._restart_at(offset)
                return True
            start, stored_end = min(self._log_start, offset), self._stored_end_below(offset)
            if stored_end < start:
                # Nothing stays that anybody may read; files that end below the log start would look like a loss.
                self._start_segments_again(start, offset)
            else:
                self._prepare_cut(offset, stored_end)
                self._discard(self.segments.drop_after(offset))
                self.segments.active.truncate(offset)
            if self.producers.reaches(offset):
                disk, path = self._dependencies.disk, self.path
                names = disk.list_directory(path)
                self.producers = rebuild_producers(disk, path, self.segments, offset, trusted_up_to=offset, names=names)
                self._count_producers()
            # Last, when nothing can be refused any more: until then an attempt that failed is repeated as a whole.
            self._end = offset
            self._log_start = min(self._log_start, offset)
            self._high_watermark = min(self._high_watermark, offset)
            self._epochs.truncate_from_end(offset)
            self.on_change()
            return True

    def _stored_end_below(self, offset: Offset) -> Offset:
        """The end of the batches that a truncation to `offset` will leave."""
        placed = self.segments.place(offset)
        return min(offset, self.stored_end_offset if placed is None else Offset(placed[1].header.base_offset))

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Delete all segments and start an empty log at `offset` (R10.12)."""
        with self.usable():
            self._restart_at(offset)

    def _restart_at(self, offset: Offset) -> None:
        self._write_topic_id()
        self._start_segments_again(offset, offset)
        self._log_start = self._high_watermark = self._end = offset
        self._epochs.clear()
        self.producers.clear()
        self._count_producers()
        self.on_change()

    def _start_segments_again(self, base_offset: Offset, end: Offset) -> None:
        """Replace all segments by an empty one; the log will end at `end`."""
        # If the process ends in between, there may be nothing left, wherever the log starts by its checkpoints.
        self._prepare_cut(end, Offset(0))
        # Made before the old ones go: on a full disk those stay until there is room for it.
        fresh = create_segment(self._dependencies, self.path, base_offset, self.config, state=UNFINISHED_SUFFIX)
        self._discard(self.segments.restart_with(fresh))

    def _prepare_cut(self, offset: Offset, stored_end: Offset) -> None:
        """Lower the recovery point, also for the next start, and remove snapshots with the batches that will go.
        `stored_end`: where the batches end at least that are left.
        """
        on_disk = self._log_directory.high_watermarks.get(self.topic_partition, Offset(0))
        checkpointed = max(self.recovery_point, self.first_dirty_offset, self._high_watermark, on_disk)
        self._log_directory.mark_cut(self.path, stored_end, checkpointed)
        self._flusher.on_truncation(offset)
        self.first_dirty_offset = min(self.first_dirty_offset, offset)
        disk = self._dependencies.disk
        remove_snapshots_after(disk, self.path, offset, disk.list_directory(self.path))
        self.producers.snapshot_end = Offset(0)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers whose last batch is older than `expiration_ms`."""
        self.producers.expire(now_ms, expiration_ms)
        self._count_producers()

    def _count_producers(self) -> None:
        """Update the agent's producer count; called after every change. A closed log counts none."""
        known = 0 if self._is_closed else len(self.producers)
        self._dependencies.metrics.producer_ids.inc(known - self._producers_counted)
        self._producers_counted = known

    def enforce_retention(self, now_ms: int) -> int:
        """Delete the oldest segments that retention permits; returns their number."""
        with self.usable():
            facts = describe(list(self.segments), self._end)
            count = count_expired(facts, self.config, now_ms, self._log_start, self._high_watermark)
            if count == 0:
                return 0
            if count == len(self.segments):
                self._roll(self._end)
            # The log start first: if not all segments can be dropped now, nobody may read those that are left.
            self._log_start = max(self._log_start, list(self.segments)[count].base_offset)
            self.on_change()
            self._epochs.truncate_from_start(self._log_start)
            self._flusher.on_segments_deleted()
            self._discard(self.segments.drop_oldest(count))
            return count

    def create_cleaned_segment(self, base_offset: Offset) -> Segment:
        """Create an empty segment for what a cleaning leaves; `replace_segments` puts it to use."""
        with self.usable():
            return create_cleaned_segment(self._dependencies, self.path, base_offset, self.config)

    def replace_segments(self, old: Sequence[Segment], cleaned: Sequence[Segment]) -> None:
        """Replace sealed segments by what a cleaning has left of them, which is flushed and ends where they end. Raises
        StorageError: an error halfway fails the directory, as the next start alone can complete this.
        """
        with self.usable():
            try:
                self._discard(self.segments.replace(old, cleaned))
            except OSError as error:
                self._log_directory.fail(error)
                raise
            self._flusher.on_segments_deleted()

    def _discard(self, paths: list[str]) -> None:
        self._log_directory.remove_later(paths, self.config.file_delete_delay_ms)

    @property
    def durable_end_offset(self) -> Offset:
        """The log end; less if `flush.messages` requires a flush before records are acknowledged or replicated."""
        is_durable = self._end - self.recovery_point < self.config.flush_messages
        return self._end if is_durable else self.recovery_point

    def flush_is_due(self, now_s: float) -> bool:
        """Whether a roll, flush.messages or flush.ms requires an fsync; `now_s` is the event loop's time."""
        is_due = self._topic_id_is_dirty or self._flusher.is_due(self._end, self.config, now_s)
        return is_due and not self._is_closed

    def flush_is_coming(self) -> bool:
        """Whether `flush.ms` will require an fsync without any further use of the log."""
        return self._flusher.is_waiting(self._end, self.config) and not self._is_closed

    async def flush(self) -> None:
        """Flush what is in the log now (fsync in a thread) and advance the recovery point to it.

        Raises StorageError.
        """
        with self.usable():
            async with self._writing:
                if not self._is_closed:
                    self._write_topic_id()
                    await self._flush(self._end)
                    await self._bury_truncated_epochs()

    async def _bury_truncated_epochs(self) -> None:
        """Void what the journal says if it is newer than the checkpoint, which has all epochs of the log."""
        is_checkpointed = not (self._epochs.is_dirty or self._epochs.is_journaled or self._is_untouched)
        journal, tp = self._log_directory.epoch_journal, self.topic_partition
        if is_checkpointed and journal.has_newer(tp, self._epochs.latest):
            await self._dependencies.disk.run(partial(journal.bury, {tp}))

    async def _flush(self, end: Offset) -> None:
        await self._flusher.flush(end)
        if not self._epochs.is_journaled and not self._is_untouched:
            self._log_directory.epoch_journal.forget(self.topic_partition)

    async def close(self) -> None:
        """Flush everything, indexes and producer state included, and close. Raises StorageError."""
        with self.usable():
            self._is_closed = True  # Nothing more may be appended: it would not be flushed.
            async with self._writing:
                if self._topic_id_is_dirty or self._epochs.is_dirty or not self._is_untouched:
                    self._write_topic_id()
                self.segments.active.save_indexes()
                disk, path, producers, end = self._dependencies.disk, self.path, self.producers, self._end
                if end not in (0, producers.snapshot_end):
                    await disk.run(lambda: write_snapshot(disk, path, producers, end))
                await self._flush(end)
            self.abandon()

    def take_over(self, current: "PartitionLog") -> None:
        """Take over what a complete copy does not get from the batches of `current`: offsets, the epochs of leaderships
        without records, and producers whose batches were deleted (R11.12).

        `flush` makes it durable. The end of `current` may be in a gap, which a truncation inside a batch has left.
        """
        with self.usable():
            assert self._end <= current.log_end_offset, f"the copy of {self.topic_partition} ends behind it"
            self._end = current.log_end_offset
            self.follow(current)
            self._epochs.replace(current.epoch_entries)
            self._confirmed_epoch = current.confirmed_epoch
            self.producers = current.producers.copy()
            self._count_producers()

    def follow(self, current: "PartitionLog") -> None:
        """Take over the high watermark and log start of the log of which this is a copy, as far as it reaches."""
        if self._topic_id is None and current.topic_id is not None:
            self.set_topic_id(current.topic_id)
        self.set_high_watermark(current.high_watermark)
        start = min(current.log_start_offset, self._high_watermark)
        if start > self._log_start:
            self.raise_log_start_offset(start)

    async def write_producers(self) -> None:
        """Write a snapshot of the producers at the log end, durably, in a worker thread. Raises StorageError."""
        with self.usable():
            async with self._writing:
                disk, path, producers, end = self._dependencies.disk, self.path, self.producers, self._end
                await disk.run(lambda: write_snapshot(disk, path, producers, end, is_flushed=True))

    async def mark(self, name: str) -> None:
        """Create an empty file in the log's directory, durably, in a worker thread. Raises StorageError."""
        with self.usable():
            async with self._writing:
                self.usable()  # While it waited, the log may have been deleted and its directory renamed.
                disk, path = self._dependencies.disk, self.path
                await disk.run(lambda: create_marker(disk, path, name))

    async def rename_to(self, name: str, *, must_last: bool = True) -> None:
        """Rename the log's directory within its log directory, and flush that; the log stays in use.

        Raises StorageError; then it may have either name, and may be renamed again. Without `must_last`, that the flush
        was not possible for want of descriptors is no error.
        """
        with self.usable():
            async with self._writing:
                directory, disk = self.usable(), self._dependencies.disk
                renamed = f"{directory.path}/{name}"
                if renamed != self.path:
                    disk.rename(self.path, renamed)
                    directory.renamed(self.path, renamed)
                    self.path = self._flusher.path = renamed
                    self.segments.moved_to(renamed)
                try:
                    await disk.run(lambda: disk.sync_directory(directory.path))
                except OSError as error:
                    if must_last or is_error_of_disk(error):
                        raise

    async def rename_away(self, name: str) -> str:
        """Close the log and rename its directory, once no thread writes in it; returns the new path."""
        with self.usable():
            async with self._writing:
                self.usable()
                renamed = f"{self._log_directory.path}/{name}"
                self._dependencies.disk.rename(self.path, renamed)
                self.abandon()
                return renamed

    def abandon(self) -> None:
        """Close the files without flushing; every later operation raises StorageError."""
        self._is_closed = True
        self._count_producers()
        self.segments.close()
