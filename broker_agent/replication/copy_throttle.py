"""Limits how fast replicas are copied between the log directories of a broker.

Source: Kafka ReplicationQuotaManager; `replica.alter.log.dirs.io.max.bytes.per.second`, KIP-113.
"""

import asyncio
from contextlib import suppress
from typing import Final

RATE_KEY: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
"""The config of the broker."""


class CopyThrottle:
    """The limit for all copies together, in bytes per second; 0: nothing is copied.

    It is that of the configuration file, until a dynamic config of this broker or of all brokers overrides it.
    """

    def __init__(self, bytes_per_second: int) -> None:
        self.bytes_per_second = self._of_file = bytes_per_second
        self.is_overridden = False
        self.is_of_all = False
        """Whether the override is the cluster-wide one."""
        self._changed = asyncio.Event()
        self._due = 0.0
        """When what was copied so far is paid for, in seconds of the event loop's time."""

    def override(self, *, own: int | None, of_all: int | None) -> None:
        """Change the limit to this broker's own, else to the cluster-wide one, else to that of the file; whoever waits
        because of the former one copies on, at the new rate.
        """
        overrides = [rate for rate in (own, of_all) if rate is not None]
        self.is_overridden, self.is_of_all = bool(overrides), own is None
        bytes_per_second = overrides[0] if overrides else self._of_file
        if bytes_per_second != self.bytes_per_second:
            self.bytes_per_second = bytes_per_second
            self._due = 0.0
            self._changed.set()

    def piece(self, size_max: int) -> int:
        """The bytes to copy at once: no more than in one second, so that the rate is even."""
        return min(size_max, max(1, self.bytes_per_second))

    async def pay(self, size: int) -> None:
        """Wait until `size` bytes more are within the limit; not for what others copy after them."""
        if self.bytes_per_second:
            now = asyncio.get_running_loop().time()
            self._due = max(self._due, now) + size / self.bytes_per_second
        await self._until(self._due)

    async def until_open(self) -> None:
        """Wait while the limit is 0."""
        while self.bytes_per_second == 0:
            self._changed.clear()
            await self._changed.wait()

    async def _until(self, due: float) -> None:
        """Wait until that time, or until the limit changes."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(due):
                await self._changed.wait()
