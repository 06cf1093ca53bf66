"""The hosts of registered brokers, who have a reserve among the connections of the Kafka listeners."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import structlog

from cluster.aio.tasks import TaskSet
from cluster.model.broker import Broker
from cluster.model.errors import ClusterError
from controller.adapters.kafka.connection_table import ConnectionTable

_INTERVAL_S: Final = 1.0
_LOOK_UP_S: Final = 5.0
_REMEMBERED_S: Final = 60.0
_log = structlog.stdlib.get_logger()


class BrokerHosts:
    """Tells the table of connections which addresses are those of brokers, when it asks.

    `registered` reads the registrations; it may raise ClusterError.
    """

    def __init__(
        self, registered: Callable[[], Awaitable[Collection[Broker]]], table: ConnectionTable, tasks: TaskSet
    ) -> None:
        self._registered, self._table, self._tasks = registered, table, tasks
        self._looking: asyncio.Task[None] | None = None
        self._looked_at: float | None = None
        self._addresses: dict[str, tuple[frozenset[str], float]] = {}
        """Host name -> its addresses, and when they were looked up."""

    def look(self) -> None:
        """Look soon, and at most once a second."""
        now = asyncio.get_running_loop().time()
        if self._looking is not None or (self._looked_at is not None and now - self._looked_at < _INTERVAL_S):
            return
        self._looking = self._tasks.start(self._look(), name="hosts of brokers")

    async def _look(self) -> None:
        try:
            brokers = await self._registered()
            hosts = {endpoint.host for broker in brokers for endpoint in broker.endpoints}
            found = await asyncio.gather(*map(self._addresses_of, hosts))
            self._table.expect_brokers_at(frozenset().union(*found))
        except ClusterError as error:
            _log.warning("The hosts of brokers are not known", why=str(error))
        finally:
            self._looked_at, self._looking = asyncio.get_running_loop().time(), None

    async def _addresses_of(self, host: str) -> frozenset[str]:
        loop = asyncio.get_running_loop()
        known, looked_up_at = self._addresses.get(host, (frozenset[str](), -_REMEMBERED_S))
        if loop.time() - looked_up_at < _REMEMBERED_S:
            return known
        try:
            async with asyncio.timeout(_LOOK_UP_S):
                known = frozenset(
                    str(entry[4][0]) for entry in await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                )
        except (TimeoutError, OSError, UnicodeError):
            # What was known of it may still be so; a name that nobody knows is not asked for all the time.
            _log.debug("The host of a broker has no address", host=host)
        self._addresses[host] = known, loop.time()
        return known
