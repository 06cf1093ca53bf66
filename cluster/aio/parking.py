"""Lets a request wait without a place: meanwhile it does not count among the requests that are being handled.

A request that waits for records, replicas or a change of the cluster may do so for minutes, and thousands may wait at
once. Source: Kafka's purgatories, in which a request occupies no handler thread.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final, Protocol


class Parkable(Protocol):
    """Stands for a request that is being handled."""

    def park(self) -> None:
        """Count the request as waiting from now on; a second call has no effect."""
        ...

    async def resume(self) -> None:
        """Wait for the turn to continue: thousands of requests may be woken at once."""
        ...


CURRENT: Final[ContextVar[Parkable | None]] = ContextVar("CURRENT", default=None)
"""The request that is being handled in this context; tasks started by it inherit it. None: not a call of a server."""


@asynccontextmanager
async def parked() -> AsyncIterator[None]:
    """Mark the block in which a request waits: meanwhile it does not count as being handled."""
    request = CURRENT.get()
    if request is None:
        yield
        return
    request.park()
    yield
    await request.resume()
