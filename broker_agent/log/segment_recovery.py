"""Which segments of a log are sound: those that may be torn are checked batch by batch and cut at the first fault.

Source: Kafka LogLoader.recoverLog, LogSegment.recover.
"""

from collections.abc import Callable, Sequence

import structlog
from msgspec import Struct

from broker_agent.log.batch_check import BatchFault
from broker_agent.log.epoch_history import EpochHistory
from broker_agent.log.index import MAX_RELATIVE_OFFSET
from broker_agent.log.record_batch import BatchHeader
from broker_agent.log.segment import Segment
from cluster.model.broker import NO_LEADER_EPOCH, LeaderEpoch, Offset

_log = structlog.stdlib.get_logger()


class SegmentFault(Struct, frozen=True):
    """A segment that is not sound from some offset on, up to where the next one begins, and whether it was cut."""

    from_offset: Offset
    to_offset: Offset
    was_cut: bool
    why: str


class _EpochRun:
    """Consecutive batches of one leader epoch in a segment: from the `first` to the `last` offset.

    `earliest`: where the batch before them ends, and the epoch may have begun; what it began with may be cleaned away.
    """

    __slots__ = ("earliest", "epoch", "first", "last")

    def __init__(self, header: BatchHeader, earliest: int) -> None:
        self.epoch, self.earliest = header.leader_epoch, earliest
        self.first, self.last = header.base_offset, header.last_offset

    def is_in(self, epochs: EpochHistory) -> bool:
        """Whether the history gives these batches their epoch. Epochs never fall: not only to the first and last."""
        found = (epochs.epoch_at(Offset(at)) for at in (self.first, self.last))
        return all((NO_LEADER_EPOCH if epoch is None else epoch) == self.epoch for epoch in found)


class SegmentRecovery:
    """Opened segments in offset order are divided into `kept` and `removed` ones; `epochs` follows what is checked.
    A segment that begins at or below `gaps_end` may leave a gap behind the one before it.

    A fault below the recovery point is cut only in the last segment; elsewhere the file stays as it is.
    """

    def __init__(self, opened: Sequence[Segment], epochs: EpochHistory, *, gaps_end: int) -> None:
        self.kept: list[Segment] = []
        self.removed: list[Segment] = []
        self.faults: list[SegmentFault] = []
        self.cut_size = 0
        """Bytes cut off, removed segments included."""
        self.reached = Offset(0)
        """Up to where there are batches in the files, or are by a segment's name, wherever the log ends now."""
        self.is_whole = False
        """Whether the last file ends with a sound batch: what followed it, if anything, is not known."""
        self.has_gaps = False
        """Whether there is such a gap."""
        self._opened, self._epochs, self._gaps_end = opened, epochs, gaps_end
        self._recovered: dict[Offset, tuple[BatchFault | None, list[_EpochRun]]] = {}

    def run(self, recovery_point: Offset | None, on_segments_left: Callable[[int], None]) -> None:
        """Load and check all segments. `recovery_point` None: the last stop was clean, only what is torn is checked."""
        if not self._opened:
            return
        loaded = {segment.base_offset: self._load(index) for index, segment in enumerate(self._opened[:-1])}
        last = len(self._opened) - 1
        if recovery_point is not None or self._opened[last].load() is not None:
            self._recover(last)
        checked_from = self._trusted(recovery_point)
        for index, segment in enumerate(self._opened):
            on_segments_left(len(self._opened) - index)
            end = self._end(index)
            if end is not None and (checked_from is None or end <= checked_from):
                self._keep_as_it_is(index, loaded[segment.base_offset])
            elif not self._check(index, checked_from):
                break
        ends = (max(segment.base_offset, segment.next_offset) for segment in self._opened)
        self.reached = max(self.reached, *ends)
        on_segments_left(0)

    def close(self) -> None:
        """Close the files of all segments."""
        for segment in self._opened:
            segment.close()

    def _end(self, index: int) -> Offset | None:
        """The base offset of the next segment; None for the last one."""
        return self._opened[index + 1].base_offset if index + 1 < len(self._opened) else None

    def _load(self, index: int) -> BatchFault | None:
        return self._opened[index].load(self._end(index))

    def _recover(self, index: int) -> None:
        segment, size = self._opened[index], self._opened[index].size
        runs: list[_EpochRun] = []
        before = [s.next_offset for s in self._opened[:index] if s.next_offset > s.base_offset]
        end = before[-1] if before else self._opened[0].base_offset

        def on_batch(header: BatchHeader) -> None:
            if not runs or header.leader_epoch != runs[-1].epoch:
                runs.append(_EpochRun(header, end if not runs else runs[-1].last + 1))
            runs[-1].last = header.last_offset

        walk = segment.recover(self._epoch_before(index), on_batch, self._end(index))
        is_whole = walk.fault is None
        if walk.fault is not None:
            behind, is_whole = walk.end_behind_fault()
            self.reached = max(self.reached, Offset(behind))
            segment.cut(walk.end)
        if index == len(self._opened) - 1:
            self.is_whole = is_whole
        self.cut_size += size - segment.size
        self._recovered[segment.base_offset] = walk.fault, runs

    def _epoch_before(self, index: int) -> int:
        """The leader epoch before a segment: by the batches or by the history, whichever is lower.

        Damage of one of the two must not make the other one look wrong.
        """
        before = [s.last_epoch for s in self._opened[:index] if s.last_epoch != NO_LEADER_EPOCH]
        by_history = self._epochs.epoch_at(Offset(self._opened[index].base_offset - 1))
        by_batches = before[-1] if before else NO_LEADER_EPOCH
        return by_batches if by_history is None else min(by_batches, by_history)

    def _trusted(self, recovery_point: Offset | None) -> Offset | None:
        """The recovery point, or 0 if it cannot be right.

        One beyond the end of a log without a fault was checkpointed before a truncation. Anything appended since may be
        torn, so it is ignored and the whole log is checked.
        """
        last = self._opened[-1]
        if recovery_point is None or recovery_point <= last.next_offset or self._recovered[last.base_offset][0]:
            return recovery_point
        return Offset(0)

    def _keep_as_it_is(self, index: int, fault: BatchFault | None) -> None:
        segment, next_base = self._opened[index], self._end(index)
        self.kept.append(segment)
        is_gap = next_base is not None and 0 < next_base - segment.next_offset <= MAX_RELATIVE_OFFSET
        if is_gap and next_base is not None and next_base <= self._gaps_end:
            self.has_gaps = True
        elif is_gap and fault is None:
            # A new segment begins where its predecessor ends, unless that is too far away for its index.
            fault = BatchFault(
                segment.size, f"offset {segment.next_offset} would follow, the next segment has {next_base}"
            )
        if fault is not None:
            self._report(index, fault, was_cut=False)

    def _check(self, index: int, checked_from: Offset | None) -> bool:
        """Keep a segment as far as it is sound; whether the next one may follow."""
        segment = self._opened[index]
        if self.kept and not self._continues(segment, self.kept[-1], checked_from):
            self._remove_from(index)
            return False
        if index < len(self._opened) - 1:
            self._recover(index)
        self.kept.append(segment)
        fault, runs = self._recovered.get(segment.base_offset, (None, []))
        if not all(run.is_in(self._epochs) for run in runs):
            # Checkpointed epochs from here on may belong to batches that were truncated after the checkpoint.
            self._epochs.truncate_from_end(segment.base_offset)
            for run in runs:
                assign_epoch(self._epochs, run.epoch, run.earliest)
        if fault is None:
            return True
        self._report(index, fault, was_cut=True)
        self._remove_from(index + 1)
        return False

    def _continues(self, segment: Segment, before: Segment, checked_from: Offset | None) -> bool:
        """Whether a segment may follow the one before it.

        The preceding segment may have lost complete batches at its end, or all of them, and still be intact; only the
        gap in offsets shows it. If it was flushed, or cleaned, the gap was always there.
        """
        if segment.base_offset <= before.next_offset:
            return segment.base_offset == before.next_offset
        is_cleaned = segment.base_offset <= self._gaps_end
        self.has_gaps |= is_cleaned
        return is_cleaned or checked_from is None or segment.base_offset <= checked_from

    def _remove_from(self, index: int) -> None:
        self.removed = list(self._opened[index:])
        self.cut_size += sum(segment.size for segment in self.removed)

    def _report(self, index: int, fault: BatchFault, *, was_cut: bool) -> None:
        segment, next_base = self._opened[index], self._end(index)
        end = segment.next_offset if next_base is None else next_base
        why = f"{segment.path} at byte {fault.position}: {fault.why}"
        self.faults.append(SegmentFault(segment.next_offset, end, was_cut, why))
        _log.warning("Segment is not sound", file=segment.path, position=fault.position, why=fault.why, was_cut=was_cut)


def assign_epoch(epochs: EpochHistory, epoch: int, start_offset: int) -> None:
    """Enter the leader epoch of a batch, unless it has none."""
    if epoch >= 0:
        epochs.assign(LeaderEpoch(epoch), Offset(start_offset))
