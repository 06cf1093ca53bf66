"""Whether a log directory has room for records, by the free space of its file system.

Below a threshold records are refused, so that what is left is there for truncations, deletions, checkpoints, and the
state-change log. Source: klamm; Kafka writes until the disk is full, and then fails the directory.
"""

from typing import Final

from msgspec import Struct

DEFAULT_BYTES: Final = 256 << 20
_SHARE_OF_TOTAL: Final = 20
"""The default is this part of the file system, if that is less."""
_ROOM_TO_TRY: Final = 16 << 20
"""More than a batch has."""
_MORE_TO_RECOVER: Final = 4
"""It takes this part of the threshold more to recover, so that a few records do not turn the state back and forth."""


class DiskRoom(Struct, frozen=True):
    """Bytes of a file system: all, and what the process may still use; -1 where unknown."""

    total: int
    free: int

    @property
    def is_known(self) -> bool:
        return self.free >= 0


def reserve_of(configured: int | None, total: int) -> int:
    """The bytes that records must leave free; `configured`: `klamm.log.dir.min.free.bytes`, None if it is not set."""
    if configured is not None:
        return configured
    return DEFAULT_BYTES if total < 0 else min(DEFAULT_BYTES, total // _SHARE_OF_TOTAL)


def room_to_try(total: int) -> int:
    """The bytes that can be written to a directory that has refused a write, before it is full no longer."""
    return _ROOM_TO_TRY if total < 0 else min(_ROOM_TO_TRY, total // _SHARE_OF_TOTAL)


def is_short(room: DiskRoom, reserve: int, *, was_short: bool) -> bool:
    """Whether there is no room for records; an unknown free space is enough."""
    if not room.is_known:
        return False
    return room.free < (reserve + reserve // _MORE_TO_RECOVER if was_short else reserve)


def has_room_to_clean(room: DiskRoom, reserve: int, largest_output: int) -> bool:
    """Whether a log may be compacted, which needs room before it makes any: up to half of the reserve, as it may be the
    only way out.
    """
    return not room.is_known or room.free - largest_output >= reserve // 2
