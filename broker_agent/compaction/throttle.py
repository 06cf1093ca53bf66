"""Limits what all cleaners together read and write. Source: Kafka Throttler."""

import asyncio


class IoThrottle:
    """At most `bytes_per_second` on average, over all that ask for their share."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._free_at_s = 0.0

    async def pace(self, size: int) -> None:
        """Wait until `size` bytes, which were read or written, are within the limit; others have their turn anyway."""
        now_s = asyncio.get_running_loop().time()
        self._free_at_s = max(self._free_at_s, now_s) + size / self._bytes_per_second
        await asyncio.sleep(self._free_at_s - now_s)
