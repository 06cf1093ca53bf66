"""How long calls may take: the timeout of the client is that of each, or in a block that of all together."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

PROBE_TIMEOUT_MS: Final = 3_000
"""A node that hangs must not use up the whole timeout while others would answer."""
_PROBE_SHARE: Final = 0.75
"""Nor this share of what is left of it: others are asked afterwards."""


class CallLimits:
    """The timeout of one client, and what is left of it."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_s: Final = timeout_ms / 1000
        self._ends_at: float | None = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Bound all calls in this block, together, by the timeout."""
        self._ends_at = asyncio.get_running_loop().time() + self.timeout_s
        try:
            yield
        finally:
            self._ends_at = None

    @asynccontextmanager
    async def outlasting_calls(self) -> AsyncIterator[None]:
        """Raise TimeoutError where this block outlasts what is left of the timeout; no call in it ends before."""
        left_s, ends_at = self.left_s, self._ends_at
        self._ends_at = None
        try:
            async with asyncio.timeout(left_s):
                yield
        finally:
            self._ends_at = ends_at

    @property
    def left_s(self) -> float:
        """The seconds that a call may take: the timeout, or what is left of it in a block `together`."""
        if self._ends_at is None:
            return self.timeout_s
        return max(0.0, self._ends_at - asyncio.get_running_loop().time())

    @property
    def left_ms(self) -> int:
        return round(self.left_s * 1000)

    @property
    def probe_ms(self) -> int:
        """The milliseconds that one node may take to answer; the rest is left for others."""
        return PROBE_TIMEOUT_MS if self._ends_at is None else min(PROBE_TIMEOUT_MS, int(self.left_ms * _PROBE_SHARE))

    def named_s(self, limit_s: float) -> float:
        """The limit that messages name for a call that had `limit_s`: the one that somebody chose."""
        return limit_s if self._ends_at is None else self.timeout_s
