"""The newest offset of each key in the dirty part of a log; its size is bounded.

A key of up to 15 bytes stands for itself, any longer one for its digest of 16 bytes, so that the two kinds never meet.
Source: Kafka SkimpyOffsetMap, which has 24 bytes for each key; a dictionary needs more.
"""

from hashlib import blake2b
from typing import Final

from cluster.model.broker import UNKNOWN_OFFSET, Offset

ENTRY_BYTES: Final = 200
"""Memory of an entry, measured with millions of them, while the dictionary grows."""
_DIGEST_SIZE: Final = 16


class OffsetMap:
    """At most `capacity` keys. `latest`: the offset up to which, inclusive, all records were taken into account."""

    def __init__(self, capacity: int) -> None:
        assert capacity > 0, "a map has room for one key"
        self._capacity = capacity
        self._offsets: dict[bytes, int] = {}
        self.latest = UNKNOWN_OFFSET

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def utilization(self) -> float:
        """The share of its capacity that is used."""
        return len(self._offsets) / self._capacity

    def clear(self) -> None:
        """Forget everything, for the next log."""
        self._offsets = {}
        self.latest = UNKNOWN_OFFSET

    def put(self, key: bytes, offset: Offset) -> bool:
        """Take the record of `key` at `offset` into account; False if there is no room, and nothing changes."""
        if len(key) >= _DIGEST_SIZE:
            key = blake2b(key, digest_size=_DIGEST_SIZE).digest()
        if len(self._offsets) >= self._capacity and key not in self._offsets:
            return False
        self._offsets[key] = self.latest = offset
        return True

    def newest(self, key: bytes) -> int:
        """The newest known offset of a record with this key; -1 without one."""
        if len(key) >= _DIGEST_SIZE:
            key = blake2b(key, digest_size=_DIGEST_SIZE).digest()
        return self._offsets.get(key, -1)
