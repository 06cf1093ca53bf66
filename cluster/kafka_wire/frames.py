"""Frames: what both sides send is the size of a message in four bytes, and then the message."""

import asyncio
from collections.abc import Iterator
from struct import Struct as Layout
from typing import Final

from cluster.model.errors import ClusterError, ErrorCode

_SIZE: Final = Layout(">i")
_CHUNK: Final = 65_536


class FrameError(ClusterError):
    """The bytes of a connection are no Kafka frames, or one is larger than may be."""

    code = ErrorCode.INVALID_REQUEST


def with_size(frame: bytes) -> bytes:
    """The frame as it is sent."""
    return _SIZE.pack(len(frame)) + frame


def checked_size(prefix: bytes | bytearray, bytes_max: int) -> int:
    """The size that four bytes say. Raises FrameError if it cannot be, or is larger than `bytes_max`."""
    (size,) = _SIZE.unpack_from(prefix)
    if not 0 <= size <= bytes_max:
        raise FrameError(f"a frame of {size} bytes; at most {bytes_max} are taken")
    return int(size)


class FrameSplitter:
    """Finds the frames in what arrives at a connection."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._arrived = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that are complete with these bytes, those before a broken one included. Raises FrameError."""
        self._arrived += data
        at = 0
        try:
            while len(self._arrived) - at >= _SIZE.size:
                end = at + _SIZE.size + checked_size(self._arrived[at : at + _SIZE.size], self._bytes_max)
                if len(self._arrived) < end:
                    break
                frame, at = bytes(self._arrived[at + _SIZE.size : end]), end
                yield frame
        finally:
            del self._arrived[:at]


class FrameMemory:
    """Bytes that the frames of all connections may use together.

    They count as they arrive, not as a client says, so that sizes that are only claimed take no room.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.used = 0

    def take(self, amount: int) -> None:
        """Take room for a frame. Raises FrameError if there is none."""
        if self.used + amount > self._bytes_max:
            raise FrameError(f"no room: requests in memory use {self.used} of {self._bytes_max} bytes")
        self.used += amount

    def give_back(self, amount: int) -> None:
        self.used -= amount


async def read_frame_into(arrived: bytearray, reader: asyncio.StreamReader, size: int, memory: FrameMemory) -> None:
    """Read the rest of a frame. `arrived` holds what counts in `memory`, whatever happens.

    Raises FrameError, and IncompleteReadError if the client goes away.
    """
    while len(arrived) < size:
        chunk = await reader.read(min(_CHUNK, size - len(arrived)))
        if not chunk:
            raise asyncio.IncompleteReadError(bytes(0), size)
        memory.take(len(chunk))
        arrived += chunk
