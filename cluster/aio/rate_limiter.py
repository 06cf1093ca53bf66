"""Limits the rate of work in the background, such as copies of logs: bytes that are paid for by waiting."""

import asyncio


class RateLimiter:
    """A rate that all who share this object keep together, and that may change while they wait.

    Nothing is saved up: after a pause the rate is no higher than before. Source: Kafka Throttler.
    """

    def __init__(self, bytes_per_second: float | None = None) -> None:
        """`bytes_per_second`: None does not limit."""
        self._rate = _checked(bytes_per_second)
        self._owed: float = 0
        """Bytes that were passed and not yet waited for, at `_counted_at`."""
        self._counted_at: float | None = None
        self._changed = asyncio.Event()

    @property
    def bytes_per_second(self) -> float | None:
        """The rate; None does not limit."""
        return self._rate

    def set_rate(self, bytes_per_second: float | None) -> None:
        """Change the rate, also for those who are waiting."""
        if _checked(bytes_per_second) == self._rate:
            return
        if self._counted_at is not None:
            self._count()
        self._rate = bytes_per_second
        self._changed.set()
        self._changed = asyncio.Event()

    async def pass_bytes(self, size: int) -> None:
        """Wait for as long as `size` bytes take at the rate, after those that passed before them."""
        if self._rate is None:
            return
        self._count()
        self._owed += size
        left = self._owed
        while self._rate is not None and left > 0:
            counted_at, rate, changed = asyncio.get_running_loop().time(), self._rate, self._changed
            try:
                async with asyncio.timeout(left / rate):
                    await changed.wait()
            except TimeoutError:
                return
            left -= rate * (asyncio.get_running_loop().time() - counted_at)

    def _count(self) -> None:
        """Take off what the time since the last count has paid for."""
        now = asyncio.get_running_loop().time()
        if self._counted_at is not None and self._rate is not None:
            self._owed = max(0.0, self._owed - self._rate * (now - self._counted_at))
        elif self._rate is None:
            self._owed = 0
        self._counted_at = now


def _checked(rate: float | None) -> float | None:
    assert rate is None or rate > 0, f"a rate of {rate} never lets anything pass"
    return rate
