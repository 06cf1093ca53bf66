"""Loads one log from its files: by its checkpoints after a clean shutdown, otherwise batch by batch.

Everything here blocks and runs in a worker thread, before the log is in use. Source: Kafka LogLoader,
LogSegment.recover.
"""

from collections.abc import Callable, Iterable, Set
from typing import Final

from msgspec import Struct

from broker_agent.log import checkpoints
from broker_agent.log.cut_markers import find_cut_markers
from broker_agent.log.epoch_history import EpochHistory
from broker_agent.log.producer_state import ProducerStates
from broker_agent.log.record_batch import BatchHeader
from broker_agent.log.segment import DELETED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Segment
from broker_agent.log.segments import LogDependencies, Segments, create_segment, open_segment
from broker_agent.log.snapshots import rebuild_producers, remove_snapshots_after
from broker_agent.ports import LogConfig
from cluster.bounds import parse_padded
from cluster.broker import LeaderEpoch, Offset, TopicId

UNFINISHED_SUFFIXES: Final = (DELETED_SUFFIX, ".cleaned", ".swap", ".tmp")


class CheckpointedOffsets(Struct, frozen=True):
    """The log directory's checkpoints for one log."""

    recovery_point: Offset = Offset(0)
    log_start_offset: Offset = Offset(0)


class LoadedLog(Struct):
    """A log loaded from disk. `end_offset` is exclusive; the high watermark is not part of it."""

    segments: Segments
    epochs: EpochHistory
    producers: ProducerStates
    log_start_offset: Offset
    end_offset: Offset
    recovery_point: Offset
    topic_id: TopicId | None
    cut_markers: tuple[str, ...] = ()


def create_log(dependencies: LogDependencies, path: str, config: LogConfig, topic_id: TopicId | None) -> LoadedLog:
    """Create a new, empty log; its topic id is durable before anything can be appended."""
    dependencies.disk.make_directory(path)
    segments = Segments([create_segment(dependencies, path, Offset(0), config)])
    if topic_id is not None:
        content = checkpoints.encode_partition_metadata(topic_id)
        checkpoints.write_atomically(dependencies.disk, path, checkpoints.PARTITION_METADATA, content)
    parent, _, _ = path.rpartition("/")
    dependencies.disk.sync_directory(parent)
    zero = Offset(0)
    return LoadedLog(segments, EpochHistory(), ProducerStates(), zero, zero, zero, topic_id)


def load_log(
    dependencies: LogDependencies,
    path: str,
    config: LogConfig,
    checkpointed: CheckpointedOffsets,
    *,
    is_clean: bool,
    on_segments_left: Callable[[int], None] = lambda left: None,
) -> LoadedLog:
    """Open a partition directory. Raises OSError, also for a malformed epoch checkpoint.

    `on_segments_left` is called, on this thread, with the number of segments still to be recovered.
    """
    disk = dependencies.disk
    bases = _tidy(dependencies, path)
    markers = find_cut_markers(disk, path)
    recovery_point = min((checkpointed.recovery_point, *markers.values()))
    checkpointed_epochs = checkpoints.decode_epochs(disk.read_file(f"{path}/{checkpoints.LEADER_EPOCHS}"))
    epochs = EpochHistory(checkpointed_epochs)
    topic_id = checkpoints.decode_partition_metadata(disk.read_file(f"{path}/{checkpoints.PARTITION_METADATA}"))

    opened = [open_segment(dependencies, path, base, config) for base in bases]
    unsound = {segment.base_offset for segment in opened if not segment.load()}
    walk_from = None if is_clean or not opened else _trusted_recovery_point(opened[-1], recovery_point)
    kept = _recover(dependencies, opened, unsound, epochs, walk_from=walk_from, on_segments_left=on_segments_left)
    on_segments_left(0)
    segments = Segments(kept or [create_segment(dependencies, path, checkpointed.log_start_offset, config)])

    for sealed in list(segments)[:-1]:
        sealed.save_indexes()
    log_start = Offset(max(checkpointed.log_start_offset, segments.first.base_offset))
    end = segments.active.next_offset
    if end < log_start:
        for dropped in segments.mark_all_deleted():
            disk.remove_file(dropped)
        segments.replace_all(create_segment(dependencies, path, log_start, config))
        end = log_start
    epochs.truncate_from_end(end)
    if epochs.epoch_at(log_start) is None:
        # The history was trimmed to a log start that was not checkpointed: rebuild it from the batches.
        epochs = _history_of(segments.headers(log_start))
    epochs.truncate_from_start(log_start)
    point = end if is_clean and not unsound else min(recovery_point, end)
    remove_snapshots_after(disk, path, end)
    producers = rebuild_producers(disk, path, segments, end, trusted_up_to=point)
    epochs.is_dirty = epochs.entries != tuple(checkpointed_epochs)
    return LoadedLog(segments, epochs, producers, log_start, end, point, topic_id, tuple(markers))


def _tidy(dependencies: LogDependencies, path: str) -> list[Offset]:
    """Delete leftovers of unfinished operations; returns the base offsets of the segments, in order."""
    names = dependencies.disk.list_directory(path)
    logs = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        is_orphan = dot + suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) and stem not in logs
        if name.endswith(UNFINISHED_SUFFIXES) or is_orphan:
            dependencies.disk.remove_file(f"{path}/{name}")
    return [Offset(base) for stem in sorted(logs) if (base := parse_padded(stem)) is not None]


def _trusted_recovery_point(active: Segment, checkpointed: Offset) -> Offset:
    """The checkpointed recovery point, or 0 if it cannot be right.

    A recovery point beyond the log end was checkpointed before a truncation. Anything appended since may be torn, so it
    is ignored and the whole log is checked.
    """
    return checkpointed if checkpointed <= active.next_offset else Offset(0)


def _recover(
    dependencies: LogDependencies,
    opened: list[Segment],
    unsound: Set[Offset],
    epochs: EpochHistory,
    *,
    walk_from: Offset | None,
    on_segments_left: Callable[[int], None],
) -> list[Segment]:
    """Check the segments that reach beyond `walk_from` (None: none do), and the last one if it is torn.

    Returns the segments up to the first that had to be truncated; the later ones are deleted.
    """
    kept: list[Segment] = []
    for index, segment in enumerate(opened):
        on_segments_left(len(opened) - index)
        is_last = index == len(opened) - 1
        end = segment.next_offset if is_last else opened[index + 1].base_offset
        is_torn = is_last and segment.base_offset in unsound
        if not is_torn and (walk_from is None or end <= walk_from):
            kept.append(segment)
            continue
        if kept and not _continues(segment, kept[-1], walk_from):
            _remove(dependencies, opened[len(kept) :])
            break
        kept.append(segment)
        if not _recover_segment(segment, epochs):
            _remove(dependencies, opened[len(kept) :])
            break
    return kept


def _continues(segment: Segment, before: Segment, walk_from: Offset | None) -> bool:
    """Whether a segment may follow the one before it.

    The preceding segment may have lost complete batches at its end, or all of them, and still be intact; only the gap
    in offsets shows it. If it was flushed, the gap was always there.
    """
    if walk_from is None or segment.base_offset <= walk_from:
        return segment.base_offset >= before.next_offset
    return segment.base_offset == before.next_offset


def _recover_segment(segment: Segment, epochs: EpochHistory) -> bool:
    """Check one segment and rebuild its epochs; returns whether it was intact up to its last byte."""
    size = segment.size
    # Checkpointed epochs from here on may belong to batches that were truncated after the checkpoint.
    epochs.truncate_from_end(segment.base_offset)
    for header in segment.recover():
        if header.leader_epoch >= 0:
            epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
    return segment.size == size


def _history_of(headers: Iterable[BatchHeader]) -> EpochHistory:
    epochs = EpochHistory()
    for header in headers:
        if header.leader_epoch >= 0:
            epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
    return epochs


def _remove(dependencies: LogDependencies, segments: list[Segment]) -> None:
    for segment in reversed(segments):
        for path in segment.mark_deleted():
            dependencies.disk.remove_file(path)
