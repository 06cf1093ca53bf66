"""The two sparse indexes of a segment; both can be rebuilt from the segment.

An entry is added at a batch once enough bytes were written since the last entry: the batch's last offset, as in Kafka,
and its position. A read starts at the greatest entry at or below its target and scans forward. Entries are kept in
arrays and written to files when a segment is rolled or closed; entries missing in a file are found by scanning.
"""

from array import array
from bisect import bisect_left, bisect_right
from operator import ge
from struct import Struct, iter_unpack
from sys import byteorder
from typing import Final

OFFSET_ENTRY_SIZE: Final = 8
TIME_ENTRY_SIZE: Final = 12
MAX_RELATIVE_OFFSET: Final = 0x7FFF_FFFF
_TIME_ENTRY: Final = Struct(">qi")


class OffsetIndex:
    """Last offset of a batch, relative to the segment's base offset, to file position; both strictly increasing."""

    def __init__(self) -> None:
        self._offsets = array("I")
        self._positions = array("I")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def last(self) -> tuple[int, int]:
        """(relative offset, position) of the last entry; (0, 0) if there is none."""
        return (self._offsets[-1], self._positions[-1]) if self._offsets else (0, 0)

    def add(self, relative_offset: int, position: int) -> None:
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def entry_before(self, relative_offset: int) -> tuple[int, int] | None:
        """The greatest entry at or below the offset, as (relative offset, position); None if there is none."""
        index = bisect_right(self._offsets, relative_offset) - 1
        return (self._offsets[index], self._positions[index]) if index >= 0 else None

    def cut(self, position: int) -> None:
        """Remove the entries at `position` or after it."""
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:], self._positions[keep:]

    def encode(self, start: int) -> bytes:
        """The entries from number `start` on, encoded as in the file."""
        columns = self._offsets[start:], self._positions[start:]
        entries = array("I", bytes(OFFSET_ENTRY_SIZE * len(columns[0])))
        entries[0::2], entries[1::2] = columns
        if byteorder == "little":
            entries.byteswap()
        return entries.tobytes()

    @classmethod
    def decode(cls, content: bytes) -> "OffsetIndex | None":
        """Decode an index file; None if its content is not a valid index."""
        if len(content) % OFFSET_ENTRY_SIZE:
            return None
        entries = array("I", content)
        if byteorder == "little":
            entries.byteswap()
        index = cls()
        index._offsets, index._positions = entries[0::2], entries[1::2]
        increasing = not any(any(map(ge, column, column[1:])) for column in (index._offsets, index._positions))
        return index if increasing else None


class TimeIndex:
    """Largest timestamp so far, to the relative last offset of the batch that has it; both increasing."""

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("I")

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def last(self) -> tuple[int, int]:
        """(timestamp, relative offset) of the last entry; (-1, 0) if there is none."""
        return (self._timestamps[-1], self._offsets[-1]) if self._timestamps else (-1, 0)

    def add(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry; ignored unless the timestamp is larger than all before."""
        if timestamp > self.last[0]:
            self._timestamps.append(timestamp)
            self._offsets.append(relative_offset)

    def entry_before(self, timestamp: int) -> tuple[int, int] | None:
        """The last entry below a timestamp, as (timestamp, relative offset): all timestamps up to there are smaller."""
        index = bisect_left(self._timestamps, timestamp) - 1
        return (self._timestamps[index], self._offsets[index]) if index >= 0 else None

    def cut(self, relative_offset: int) -> None:
        """Remove the entries of batches that end at or after the offset."""
        keep = bisect_left(self._offsets, relative_offset)
        del self._timestamps[keep:], self._offsets[keep:]

    def encode(self, start: int) -> bytes:
        """The entries from number `start` on, encoded as in the file."""
        return b"".join(map(_TIME_ENTRY.pack, self._timestamps[start:], self._offsets[start:]))

    @classmethod
    def decode(cls, content: bytes) -> "TimeIndex | None":
        """Decode an index file; None if its content is not a valid index."""
        if len(content) % TIME_ENTRY_SIZE:
            return None
        index = cls()
        for timestamp, relative_offset in iter_unpack(_TIME_ENTRY.format, content):
            is_first = not len(index)
            if timestamp <= index.last[0] or relative_offset <= (-1 if is_first else index.last[1]):
                return None
            index.add(timestamp, relative_offset)
        return index
