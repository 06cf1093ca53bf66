"""The leader epochs of one log and their start offsets, from which truncation is computed.

In memory only; the log decides when it is written. Source: Kafka LeaderEpochFileCache; KIP-101, KIP-279.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from cluster.model.broker import NO_LEADER_EPOCH, UNKNOWN_OFFSET, LeaderEpoch, Offset
from cluster.requests.data import EpochEndOffset

UNDEFINED = EpochEndOffset(NO_LEADER_EPOCH, UNKNOWN_OFFSET)


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset that was, or would have been, written in it."""

    epoch: LeaderEpoch
    start_offset: Offset


class EpochHistory:
    """Entries with strictly increasing epochs and strictly increasing start offsets."""

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        # Two parallel lists, because both columns are searched by bisection.
        self._epochs: list[LeaderEpoch] = []
        self._starts: list[Offset] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.is_dirty = False
        """Whether it changed since its entries were last read for the checkpoint or the journal."""
        self.is_journaled = False
        """Whether the checkpoint lacks what the journal has."""
        self._checkpointed: tuple[EpochEntry, ...] | None = None

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(map(EpochEntry, self._epochs, self._starts))

    @property
    def latest(self) -> LeaderEpoch | None:
        return self._epochs[-1] if self._epochs else None

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Start `epoch` at `start_offset`, removing entries that contradict it.

        Raises ValueError for a negative epoch or offset.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"cannot assign leader epoch {epoch} at offset {start_offset}")
        if self._epochs and self._epochs[-1] == epoch and self._starts[-1] <= start_offset:
            return
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.is_dirty = True

    def truncate_from_end(self, offset: Offset) -> None:
        """Remove the entries that start at or after `offset`; negative: none."""
        keep = bisect_left(self._starts, offset)
        if offset >= 0 and keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            # What was only in the journal needs no checkpoint to be forgotten: nothing above the log end is taken from
            # it.
            self.is_dirty = self.entries != self._checkpointed
            self.is_journaled &= self.is_dirty

    def loaded(self, checkpointed: tuple[EpochEntry, ...], stored: tuple[EpochEntry, ...]) -> None:
        """Take note of what the checkpoint had when the log was loaded, and of the newest, there or in the journal."""
        self._checkpointed = checkpointed
        self.is_journaled = self.entries not in (checkpointed, ()) and self.entries == stored
        self.is_dirty = self.entries != checkpointed and not self.is_journaled

    def checkpoint_lacks(self, end: Offset) -> bool:
        """Whether the checkpoint lacks an epoch that starts below `end`, as far as is known."""
        count = bisect_left(self._starts, end)
        return self._checkpointed is None or self._checkpointed[:count] != self.entries[:count]

    def checkpointed(self, entries: tuple[EpochEntry, ...]) -> None:
        """Take note of what the checkpoint has, durably, while the entries may have changed since."""
        self._checkpointed = entries
        self.is_dirty |= self.entries != entries
        self.is_journaled = False

    def truncate_from_start(self, offset: Offset) -> None:
        """Start the history at `offset`; negative: unchanged.

        The last entry that starts at or before it is kept and starts there now.
        """
        last_before = bisect_right(self._starts, offset) - 1
        if offset < 0 or last_before < 0 or (last_before == 0 and self._starts[0] == offset):
            return
        del self._epochs[:last_before], self._starts[:last_before]
        self._starts[0] = offset
        self.is_dirty = True

    def replace(self, entries: Iterable[EpochEntry]) -> None:
        """Replace the whole history by the entries of another log, which has the same batches."""
        self.clear()
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)
        self.is_dirty = True

    def clear(self) -> None:
        self.is_dirty |= bool(self._epochs)
        self._epochs.clear()
        self._starts.clear()

    def epoch_at(self, offset: Offset) -> LeaderEpoch | None:
        """The epoch in which `offset` was, or would be, written; None before the first entry."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else None

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEndOffset:
        """The largest known epoch not above `epoch`, and its end offset (exclusive). Both -1 if unknown.

        For an epoch below the first known one, returns that epoch itself: its records, if there ever were any, end
        where the history starts.
        """
        if epoch == NO_LEADER_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED
        if epoch == self._epochs[-1]:
            return EpochEndOffset(epoch, log_end_offset)
        following = bisect_right(self._epochs, epoch)
        if following == 0:
            return EpochEndOffset(epoch, self._starts[0])
        return EpochEndOffset(self._epochs[following - 1], self._starts[following])
