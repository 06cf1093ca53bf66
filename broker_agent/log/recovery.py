"""Loads one log from its files: by its checkpoints after a clean shutdown, otherwise batch by batch.

Everything here blocks and runs in a worker thread, before the log is in use. Source: Kafka LogLoader,
LogSegment.recover, LeaderEpochFileCache.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Final

import structlog
from msgspec import Struct

from broker_agent.log import checkpoints
from broker_agent.log.batch_check import OFFSET_MAX
from broker_agent.log.config import LogConfig
from broker_agent.log.cut_markers import find_cut_markers
from broker_agent.log.directory_names import SWAP_MARKER, parse_offset_name
from broker_agent.log.disk import Disk
from broker_agent.log.disk_errors import is_error_of_disk, is_want_of_room
from broker_agent.log.epoch_history import EpochEntry, EpochHistory
from broker_agent.log.epoch_journal import NOT_JOURNALED, JournaledEpochs
from broker_agent.log.producer_state import ProducerStates
from broker_agent.log.record_batch import BatchHeader
from broker_agent.log.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    UNFINISHED_SUFFIX,
    Segment,
)
from broker_agent.log.segment_recovery import SegmentRecovery, assign_epoch
from broker_agent.log.segments import LogDependencies, Segments, create_segment, open_segment
from broker_agent.log.snapshots import latest_snapshot, rebuild_producers, remove_snapshots_after
from broker_agent.log.swaps import finish_swaps
from broker_agent.log_damage import LogDamage
from cluster.model.broker import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicId
from cluster.model.errors import StorageError

UNFINISHED_SUFFIXES: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, UNFINISHED_SUFFIX)
_TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"  # Of a log that Apache Kafka has written.
_log = structlog.stdlib.get_logger()


class CheckpointedOffsets(Struct, frozen=True):
    """The log directory's checkpoints for one log. `first_dirty`: where its last cleaning ended; 0 without one."""

    recovery_point: Offset = Offset(0)
    log_start_offset: Offset = Offset(0)
    high_watermark: Offset = Offset(0)
    first_dirty: Offset = Offset(0)


class UnloadableLog(Struct, frozen=True):
    """A log that is offline until the process ends, why, and its checkpointed offsets, which are kept for it."""

    directory: str
    why: str
    offsets: CheckpointedOffsets

    def as_error(self) -> StorageError:
        """The error of an operation on the log."""
        return StorageError(self.directory, self.why)


class LoadedLog(Struct):
    """A log loaded from disk. `end_offset` is exclusive; the high watermark is not part of it.

    `confirmed_epoch`: the newest leader epoch that does not rest on a batch header alone, which no checksum covers.
    `first_dirty_offset`: where its last cleaning ended; 0 without one.
    """

    segments: Segments
    epochs: EpochHistory
    producers: ProducerStates
    log_start_offset: Offset
    end_offset: Offset
    recovery_point: Offset
    topic_id: TopicId | None
    confirmed_epoch: LeaderEpoch = NO_LEADER_EPOCH
    cut_markers: tuple[str, ...] = ()
    damage: LogDamage | None = None
    first_dirty_offset: Offset = Offset(0)
    has_unflushed_gaps: bool = False
    """Whether a cleaner has left gaps between segments above the recovery point: the next start may doubt them."""
    is_untouched: bool = False
    """Whether it has neither records nor epochs in its own checkpoint: then topic id and names may not be flushed yet,
    and nothing needs it.
    """
    is_marked: bool = False
    """Whether it was about to take the place of another log of the partition, or just had (`SWAP_MARKER`)."""


def create_log(dependencies: LogDependencies, path: str, config: LogConfig, topic_id: TopicId | None) -> LoadedLog:
    """Create a new, empty log. Nothing of it is flushed, neither its name nor files in it. After an error that leaves
    the directory in service nothing of it is left: the next attempt may choose another one, and a log must not be in
    two.
    """
    disk = dependencies.disk
    is_there = disk.is_directory(path)
    try:
        return _create_files(dependencies, path, config, topic_id, is_there=is_there)
    except OSError as error:
        if not is_there and not is_error_of_disk(error):
            disk.remove_tree(path)
        raise


def _create_files(
    dependencies: LogDependencies, path: str, config: LogConfig, topic_id: TopicId | None, *, is_there: bool
) -> LoadedLog:
    disk = dependencies.disk
    disk.make_directory(path)
    # Index files are made when there is something to write in them: of thousands of logs most stay empty for long.
    create = create_segment if is_there else open_segment
    segments = Segments([create(dependencies, path, Offset(0), config)])
    if topic_id is not None:
        content = checkpoints.encode_partition_metadata(topic_id)
        checkpoints.write_unflushed(disk, path, checkpoints.PARTITION_METADATA, content, is_new=not is_there)
    zero, epochs = Offset(0), EpochHistory()
    epochs.loaded(checkpointed=(), stored=())
    return LoadedLog(segments, epochs, ProducerStates(), zero, zero, zero, topic_id, is_untouched=True)


def load_log(
    dependencies: LogDependencies,
    path: str,
    config: LogConfig,
    checkpointed: CheckpointedOffsets,
    *,
    is_clean: bool,
    lacks_no_ends: bool = False,
    journaled: JournaledEpochs = NOT_JOURNALED,
    on_segments_left: Callable[[int], None] = lambda left: None,
) -> LoadedLog:
    """Open a partition directory. Raises OSError, also for malformed partition metadata.

    `lacks_no_ends`: no end of a segment can have been lost, so that a gap before the next one is a cleaner's.
    `journaled`: what the journal of the log directory says of the log. `on_segments_left` is called, on this thread,
    with the number of segments still to be recovered.
    """
    disk, names = dependencies.disk, _tidy(dependencies, path)
    markers = find_cut_markers(path, names)
    known = _below_markers(checkpointed, markers.values())
    topic_id, cut = _read_topic_id(disk, path, journaled.topic_id)
    checkpointed_epochs = tuple(_read_epochs(disk, path)) if checkpoints.LEADER_EPOCHS in names else ()
    stored_epochs = _newer_epochs(checkpointed_epochs, journaled, topic_id)
    gaps_end = _end_of_gaps(config, known, lacks_no_ends=lacks_no_ends or is_clean)
    opened = [open_segment(dependencies, path, base, config) for base in _bases(names)]
    epochs = EpochHistory(stored_epochs)
    recovery = SegmentRecovery(opened, epochs, gaps_end=gaps_end)
    try:
        recovery.run(None if is_clean else known.recovery_point, on_segments_left)
        _remove(disk, (path for removed in reversed(recovery.removed) for path in removed.mark_deleted()))
        log_start = _log_start(recovery.kept, known.log_start_offset, markers.values())
        # What is newer than a truncation that was not completed may name offsets that it has removed.
        derived_end = Offset(0) if markers else _derived_end(names, stored_epochs)
        damage = _find_damage(recovery, log_start, known, derived_end)
        segments = _usable_segments(dependencies, path, config, recovery.kept, log_start)
        _save_indexes(list(segments)[:-1])
        end = segments.active.next_offset
        epochs, confirmed = _fit_epochs(epochs, checkpointed_epochs, segments, path, log_start=log_start, end=end)
        point = end if is_clean and not recovery.faults else min(known.recovery_point, end)
        remove_snapshots_after(disk, path, end, names)
        producers = rebuild_producers(disk, path, segments, end, trusted_up_to=point, names=names)
        is_untouched = _is_untouched(disk, path, segments, checkpointed_epochs, cut)
    except BaseException:
        recovery.close()
        raise
    epochs.loaded(checkpointed_epochs, tuple(stored_epochs))
    return LoadedLog(
        *(segments, epochs, producers),
        log_start,
        end,
        point,
        topic_id,
        confirmed_epoch=min(confirmed, _latest(stored_epochs)),
        cut_markers=tuple(markers),
        damage=damage,
        first_dirty_offset=min(known.first_dirty, end),
        has_unflushed_gaps=recovery.has_gaps and point < end,
        is_untouched=is_untouched,
        is_marked=SWAP_MARKER in names,
    )


def _end_of_gaps(config: LogConfig, known: CheckpointedOffsets, *, lacks_no_ends: bool) -> int:
    """The offset below which a segment may end before the next one begins: Kafka's cleaner keeps the end of a cleaning,
    not of each segment. Whatever is above was not cleaned, or may have lost its end.
    """
    if not config.is_compacted:
        return known.first_dirty
    return OFFSET_MAX if lacks_no_ends else max(known.first_dirty, known.recovery_point)


def _save_indexes(sealed: Iterable[Segment]) -> None:
    """Save the indexes of sealed segments; where there is no room for them, the next start scans the segments again."""
    for segment in sealed:
        try:
            segment.save_indexes()
        except OSError as error:
            if not is_want_of_room(error):
                raise


def _tidy(dependencies: LogDependencies, path: str) -> frozenset[str]:
    """Complete or undo what a crash has interrupted; returns the names in the directory."""
    names = finish_swaps(dependencies.disk, path)
    left = set(names)
    logs = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        is_orphan = dot + suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, _TRANSACTION_INDEX_SUFFIX) and stem not in logs
        if name.endswith(UNFINISHED_SUFFIXES) or is_orphan:
            dependencies.disk.remove_file(f"{path}/{name}")
            left.remove(name)
    return frozenset(left)


def _bases(names: Iterable[str]) -> list[Offset]:
    """The base offsets of the segments, in order."""
    logs = sorted(name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX))
    return [base for base in map(parse_offset_name, logs) if base is not None]


def _below_markers(checkpointed: CheckpointedOffsets, markers: Iterable[Offset]) -> CheckpointedOffsets:
    """The checkpointed offsets, lowered to the truncations that the checkpoints may be older than."""
    lowest = min(markers, default=OFFSET_MAX)
    return CheckpointedOffsets(
        Offset(min(checkpointed.recovery_point, lowest)),
        checkpointed.log_start_offset,
        Offset(min(checkpointed.high_watermark, lowest)),
        Offset(min(checkpointed.first_dirty, lowest)),
    )


def _log_start(kept: Sequence[Segment], checkpointed: Offset, markers: Iterable[Offset]) -> Offset:
    """The log start offset; a checkpoint beyond its end may be older than a truncation."""
    base, end = (kept[0].base_offset, kept[-1].next_offset) if kept else (Offset(0), Offset(0))
    return max(base, checkpointed if checkpointed <= end else min((checkpointed, *markers)))


def _find_damage(
    recovery: SegmentRecovery, log_start: Offset, known: CheckpointedOffsets, derived_end: Offset
) -> LogDamage | None:
    """The offsets that the log had by its checkpoints and no longer has; None if nothing is missing.

    More than the checkpoints know may be gone: up to where the files went, or `derived_end`, by what is derived from
    the batches.
    """
    end = recovery.kept[-1].next_offset if recovery.kept else log_start
    # A log start offset, too, was below the log end when it was checkpointed.
    known_end = max(known.recovery_point, known.high_watermark, log_start)
    why = "; ".join(fault.why for fault in recovery.faults)
    if end < known_end:
        lost_end = max(known_end, recovery.reached, derived_end)
        return LogDamage(
            end,
            lost_end,
            recovery.cut_size,
            why or f"the log ends at {end}, its checkpoints at {known_end}",
            is_end_known=recovery.is_whole and lost_end == recovery.reached,
        )
    uncut = [fault for fault in recovery.faults if not fault.was_cut and fault.to_offset > log_start]
    return LogDamage(uncut[0].from_offset, uncut[-1].to_offset, 0, why, is_cut=False) if uncut else None


def _usable_segments(
    dependencies: LogDependencies, path: str, config: LogConfig, kept: list[Segment], log_start: Offset
) -> Segments:
    """The segments that are left; one empty one if there is none, or if they end below the log start."""
    if kept and kept[-1].next_offset >= log_start:
        return Segments(kept)
    _remove(dependencies.disk, (path for useless in reversed(kept) for path in useless.mark_deleted()))
    return Segments([create_segment(dependencies, path, log_start, config)])


def _remove(disk: Disk, paths: Iterable[str]) -> None:
    for path in paths:
        disk.remove_file(path)


def _read_topic_id(
    disk: Disk, path: str, journaled: TopicId | None
) -> tuple[TopicId | None, checkpoints.MalformedCheckpointError | None]:
    """Read the topic id in the partition's metadata; None without the file. Raises OSError, also if it is malformed.

    One that a power failure took is restored from the journal. Otherwise the error is returned of a file that a power
    failure may have cut: that of an untouched log was not flushed.
    """
    metadata = f"{path}/{checkpoints.PARTITION_METADATA}"
    cut: checkpoints.MalformedCheckpointError | None = None
    try:
        topic_id = checkpoints.read_checkpoint(disk, metadata, checkpoints.decode_partition_metadata)
    except checkpoints.MalformedCheckpointError as error:
        if not checkpoints.is_cut_partition_metadata(disk.read_file(metadata) or b""):
            raise
        topic_id, cut = None, error
    if topic_id is None and journaled is not None:
        content = checkpoints.encode_partition_metadata(journaled)
        checkpoints.write_unflushed(disk, path, checkpoints.PARTITION_METADATA, content)
        return journaled, None
    return topic_id, cut


def _newer_epochs(
    checkpointed: Sequence[EpochEntry], journaled: JournaledEpochs, topic_id: TopicId | None
) -> Sequence[EpochEntry]:
    """The epochs in the journal, if they are of this topic and newer than those of the log's own checkpoint."""
    is_of_topic = journaled.topic_id in (None, topic_id)
    return journaled.entries if is_of_topic and _latest(journaled.entries) > _latest(checkpointed) else checkpointed


def _latest(epochs: Sequence[EpochEntry]) -> LeaderEpoch:
    return epochs[-1].epoch if epochs else NO_LEADER_EPOCH


def _derived_end(names: Iterable[str], epochs: Sequence[EpochEntry]) -> Offset:
    """The offset that the log had reached, by what is derived from its batches: names of snapshots, and epochs."""
    return max((latest_snapshot(names), *(entry.start_offset for entry in epochs)))


def _is_untouched(
    disk: Disk,
    path: str,
    segments: Segments,
    checkpointed: Sequence[EpochEntry],
    cut: checkpoints.MalformedCheckpointError | None,
) -> bool:
    """Whether a log has neither records nor epochs; then a topic id that a power failure has cut is removed: the next
    start must not find it beside an epoch. Raises `cut`, why it cannot be read, if the log has any.
    """
    is_untouched = not checkpointed and not segments.size
    if cut is not None:
        if not is_untouched:
            raise cut
        disk.remove_file(f"{path}/{checkpoints.PARTITION_METADATA}")
    return is_untouched


def _read_epochs(disk: Disk, path: str) -> list[EpochEntry]:
    """The entries of the leader epoch checkpoint; none if it is malformed. Raises OSError."""
    try:
        return checkpoints.read_checkpoint(disk, f"{path}/{checkpoints.LEADER_EPOCHS}", checkpoints.decode_epochs)
    except checkpoints.MalformedCheckpointError as error:
        _log.warning("Leader epoch checkpoint is rebuilt", why=str(error))
        return []


def _fit_epochs(
    newest: EpochHistory,
    checkpointed: Sequence[EpochEntry],
    segments: Segments,
    path: str,
    *,
    log_start: Offset,
    end: Offset,
) -> tuple[EpochHistory, LeaderEpoch]:
    """The history of the log, and its newest epoch that does not rest on batch headers alone; -1 if all do.

    It is the newest one, or that of the checkpoint, whichever agrees with the batches first: a release that does not
    know the journal may have left that behind.
    """
    histories = (newest, EpochHistory(checkpointed))
    had_entries = any(history.latest is not None for history in histories)
    for history in histories:
        history.truncate_from_end(end)
        history.truncate_from_start(log_start)
        if _epochs_agree(history, segments, log_start, end):
            return history, NO_LEADER_EPOCH if history.latest is None else history.latest
    if had_entries:
        file = f"{path}/{checkpoints.LEADER_EPOCHS}"
        _log.warning("Leader epoch checkpoint does not agree with the batches; it is rebuilt", file=file)
    epochs, at = EpochHistory(), int(segments.first.base_offset)
    for header in chain.from_iterable(segment.sound_headers() for segment in segments):
        # Not at its first batch, before which a cleaning may have taken others: a follower would keep what it has there
        # of the epoch before.
        assign_epoch(epochs, header.leader_epoch, at)
        at = header.last_offset + 1
    epochs.truncate_from_start(log_start)
    return epochs, NO_LEADER_EPOCH


def _epochs_agree(epochs: EpochHistory, segments: Segments, log_start: Offset, end: Offset) -> bool:
    """Whether the batches just before and just after the start of each epoch have the epochs that the history gives.

    Epochs never fall, so that this leaves no room for others in between. It costs two headers for each entry. There may
    be gaps, even over whole epochs, where a cleaning has left nothing.
    """
    if log_start == end:
        return True
    for entry in epochs.entries:
        behind = islice(segments.headers(max(log_start, entry.start_offset)), 1)
        before = segments.last_before(entry.start_offset) if entry.start_offset > log_start else None
        if before is not None and before.last_offset < log_start:
            before = None
        if not all(_agrees(epochs, header, log_start) for header in (before, *behind) if header is not None):
            return False
    newest = [segment.last_epoch for segment in segments if segment.next_offset > segment.base_offset]
    return not newest or newest[-1] == _epoch_at(epochs, Offset(end - 1))


def _agrees(epochs: EpochHistory, header: BatchHeader, log_start: Offset) -> bool:
    """Whether the history gives the epoch of a batch to its first offset that is in the log, and to its last one."""
    first = max(log_start, Offset(header.base_offset))
    return all(_epoch_at(epochs, at) == header.leader_epoch for at in (first, Offset(header.last_offset)))


def _epoch_at(epochs: EpochHistory, offset: Offset) -> LeaderEpoch:
    epoch = epochs.epoch_at(offset)
    return NO_LEADER_EPOCH if epoch is None else epoch
