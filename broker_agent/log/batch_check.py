"""The check of one record batch against what precedes it; nothing is derived from a header that has not passed.

Shared by the start, the recovery after an unclean stop, a follower's append and every later check of stored batches.
The checksum covers neither the length nor the base offset nor the leader epoch, so that these are compared with the
predecessor first. Source: Kafka LogSegment.recover, DefaultRecordBatch.ensureValid.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from broker_agent.log.index import MAX_RELATIVE_OFFSET
from broker_agent.log.record_batch import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    Buffer,
    find_checksum_fault,
    parse_header,
)
from cluster.model.broker import NO_LEADER_EPOCH

OFFSET_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF
_LARGE_READ: Final = 1 << 20
_SEARCHED: Final = 2 << 20
"""Bytes behind a fault in which the next sound batch is searched for: more than a batch has by default."""


class Expected(NamedTuple):
    """The values that the next batch is compared with. Offsets of a batch lie in [`next_offset`, `offset_max`].

    `leader_epoch`: of the predecessor, -1 without one; `known_epoch`: the newest leader epoch there can be, if known.
    """

    next_offset: int
    offset_max: int = OFFSET_MAX
    leader_epoch: int = NO_LEADER_EPOCH
    known_epoch: int | None = None

    def after(self, header: BatchHeader) -> "Expected":
        """The values for the batch that follows an accepted one."""
        return Expected(header.last_offset + 1, self.offset_max, header.leader_epoch, self.known_epoch)


class CheckedBatch(NamedTuple):
    """A batch that passed, its bytes, and its position in the file."""

    position: int
    header: BatchHeader
    batch: memoryview


class BatchFault(NamedTuple):
    """Says where the sound part of a file ends, and why the bytes from there on are no valid batch."""

    position: int
    why: str


def expected_in_segment(
    base_offset: int, leader_epoch: int = NO_LEADER_EPOCH, next_base: int | None = None
) -> Expected:
    """The values for the first batch of a segment, which ends below `next_base` if there is a next one.

    The index has 31 bits for an offset relative to `base_offset`.
    """
    offset_max = min(base_offset + MAX_RELATIVE_OFFSET, OFFSET_MAX)
    return Expected(base_offset, offset_max if next_base is None else min(offset_max, next_base - 1), leader_epoch)


def find_length_fault(header: BatchHeader, available: int) -> str | None:
    """Say why `header.size` cannot be the size of a batch of which the file has `available` bytes."""
    if header.size < HEADER_SIZE:
        return f"its length field is {header.length}, less than a header"
    if header.size > available:
        return f"its length field claims {header.size} bytes, there are {available}"
    return None


def find_header_fault(header: BatchHeader, expected: Expected) -> str | None:
    """Say why a header of valid length cannot belong to the next batch: magic, offsets, leader epoch, in this order."""
    if header.magic != MAGIC:
        return f"magic is {header.magic}, not {MAGIC}"
    if header.base_offset < expected.next_offset:
        return f"base offset {header.base_offset} is below {expected.next_offset}, where the preceding batch ends"
    if header.last_offset_delta < 0 or header.last_offset > expected.offset_max:
        return f"offsets {header.base_offset}..{header.last_offset} are impossible up to {expected.offset_max}"
    if header.leader_epoch < expected.leader_epoch:
        return f"leader epoch {header.leader_epoch} follows {expected.leader_epoch}"
    if expected.known_epoch is not None and header.leader_epoch > expected.known_epoch:
        return f"leader epoch {header.leader_epoch} is newer than {expected.known_epoch}, the newest one known"
    return None


def find_batch_fault(header: BatchHeader, batch: Buffer, expected: Expected) -> str | None:
    """The whole check of a batch: its length is that of `batch`, then the header, then the checksum."""
    return (
        find_length_fault(header, len(batch))
        or find_header_fault(header, expected)
        or find_checksum_fault(header, batch)
    )


class BatchWalk:
    """Iterates over the batches of a file from a batch boundary on, up to its end or the first fault.

    `read(position, length)` returns the bytes there; fewer, which is a fault, where the file is truncated meanwhile.
    Afterwards `end` is the end of the sound part, `expected` what would have to follow, and `fault` why the rest of the
    file is not sound; None if there is no rest.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int, expected: Expected, *, start: int = 0) -> None:
        self.end, self.expected = start, expected
        self.fault: BatchFault | None = None
        self._read, self._size = read, size
        self._buffer, self._buffer_start = b"", start

    def __iter__(self) -> Iterator[CheckedBatch]:
        while self.end < self._size:
            found = self._check_next()
            if isinstance(found, BatchFault):
                self.fault = found
                return
            self.end += found.header.size
            self.expected = self.expected.after(found.header)
            yield found

    def _check_next(self) -> CheckedBatch | BatchFault:
        available = self._size - self.end
        if available < HEADER_SIZE:
            return BatchFault(self.end, f"{available} bytes are less than a header")
        at = self._load(HEADER_SIZE)
        if len(self._buffer) - at < HEADER_SIZE:
            return BatchFault(self.end, f"the file has {len(self._buffer) - at} bytes more, not {available}")
        header = parse_header(self._buffer, at)
        why = find_length_fault(header, available)
        if why is None:
            at = self._load(header.size)
            batch = memoryview(self._buffer)[at : at + header.size]
            why = find_batch_fault(header, batch, self.expected) or self._find_gap_fault(header)
            if why is None:
                return CheckedBatch(self.end, header, batch)
        return BatchFault(self.end, why)

    def _find_gap_fault(self, header: BatchHeader) -> str | None:
        """Say why a batch that leaves a gap behind its predecessor, which is permitted, is yet the wrong one of two.

        No checksum covers the base offset. If the next batch begins below the end of this one, but not below the end of
        the predecessor, this one was moved.
        """
        expected, behind = self.expected, self.end + header.size
        if header.base_offset == expected.next_offset or self._size - behind < HEADER_SIZE:
            return None
        read = self._read(behind, HEADER_SIZE)
        if len(read) < HEADER_SIZE:
            # The file became shorter; the next batch will be the fault.
            return None
        following = parse_header(read)
        if following.magic != MAGIC or not expected.next_offset <= following.base_offset <= header.last_offset:
            return None
        return f"base offset {header.base_offset} contradicts {following.base_offset} of the next batch"

    def end_behind_fault(self) -> tuple[int, bool]:
        """The offset after the last sound batch behind the fault, at least, and whether the file ends with that batch.

        (0, False) without one. Damage of a few bytes leaves what comes after it as it was.
        """
        end, walk = 0, self
        while walk.fault is not None:
            position = walk._next_sound()
            if position is None:
                return end, False
            walk = BatchWalk(self._read, self._size, walk.expected, start=position)
            for _ in walk:
                pass
            end = walk.expected.next_offset
        return end, True

    def _next_sound(self) -> int | None:
        for position in self._candidates():
            header = parse_header(self._read(position, HEADER_SIZE))
            if find_length_fault(header, self._size - position) or find_header_fault(header, self.expected):
                continue
            if find_checksum_fault(header, self._read(position, header.size)) is None:
                return position
        return None

    def _candidates(self) -> Iterator[int]:
        """Positions behind the fault at which a batch may begin: by the length field of the damaged one, then all that
        have the magic byte in its place.
        """
        last = self._size - HEADER_SIZE
        if self.end <= last:
            header = parse_header(self._read(self.end, HEADER_SIZE))
            if header.size >= HEADER_SIZE and self.end + header.size <= last:
                yield self.end + header.size
        start = self.end + 1
        searched = self._read(start, _SEARCHED)
        at = searched.find(MAGIC, MAGIC_AT)
        while at >= 0 and start + at - MAGIC_AT <= last:
            yield start + at - MAGIC_AT
            at = searched.find(MAGIC, at + 1)

    def _load(self, length: int) -> int:
        """Have `length` bytes from `end` on in the buffer; returns where they begin."""
        if len(self._buffer) - (self.end - self._buffer_start) < length:
            self._buffer, self._buffer_start = self._read(self.end, max(_LARGE_READ, length)), self.end
        return self.end - self._buffer_start
