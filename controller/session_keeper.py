"""Opens a new ZooKeeper session of a candidate after the expiry of the old one was processed (EL-22).

This is a task beside the event loop: it may take as long as ZooKeeper is away, and callers must be refused meanwhile.
"""

import asyncio
from collections.abc import Callable

import structlog

from cluster.model.errors import ZooKeeperError
from cluster.zookeeper.port import ZooKeeper
from controller.election_pauses import NEXT_ATTEMPT_S

_log = structlog.stdlib.get_logger()


class ControllerSessionKeeper:
    """Waits for the loss of a session, and opens another one.

    `opened` is called after each new session; it must only enqueue an event.
    """

    def __init__(self, zookeeper: ZooKeeper, opened: Callable[[], None]) -> None:
        self._zookeeper, self._opened = zookeeper, opened
        self.lost = asyncio.Event()
        """Set once the expiry of the session was processed: before that the old controller may still be active."""

    async def run(self) -> None:
        """Open a session after each loss, until cancelled; retries without a limit."""
        while True:
            await self.lost.wait()
            while True:
                # Covers also a session that was lost before it could be used: the call below replaces it.
                self.lost.clear()
                try:
                    await self._zookeeper.start_session()
                except ZooKeeperError as error:
                    _log.warning("Opening a ZooKeeper session failed", error=str(error))
                    await asyncio.sleep(NEXT_ATTEMPT_S)
                else:
                    break
            self._opened()
