"""Answers clients that reach the cluster by other addresses, such as those outside a network of containers.

Their requests are handled as at the listener for clients. In the responses each process has the address of its external
listener, so that a client that follows it arrives there. Source: Kafka MetadataCache.getAliveBrokerNodes(listenerName).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from cluster.model.broker import Endpoint
from cluster.model.errors import ApiError, ZooKeeperError
from cluster.model.listeners import EXTERNAL_LISTENER, ListenerNames
from cluster.requests.cluster import DescribeClusterResponse
from cluster.requests.context import RequestContext, RequestHandler
from cluster.requests.data import MetadataResponse

_READ_TIMEOUT_S: Final = 2.0
_READ_INTERVAL_S: Final = 1.0


class ExternalListener:
    """Stands as a RequestHandler in front of that of the process, and replaces addresses in its responses.

    `registered` reads the endpoints of all processes; it may raise ZooKeeperError. A process without an external
    listener keeps its address.
    """

    def __init__(
        self,
        handler: RequestHandler,
        names: ListenerNames,
        registered: Callable[[], Awaitable[Sequence[Sequence[Endpoint]]]],
    ) -> None:
        self._handler, self._names, self._registered = handler, names, registered
        self._external: dict[str, Endpoint] = {}
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def handle(self, context: RequestContext, request: Any) -> Any:
        """Handle a request. Raises what the handler raises, with the leader's external address."""
        try:
            response = await self._handler.handle(context, request)
        except ApiError as error:
            if error.leader_address:
                await self._read()
                error.leader_address = self._address(error.leader_address)
            raise
        match response:
            case MetadataResponse():
                await self._read()
                return self._metadata(response)
            case DescribeClusterResponse():
                await self._read()
                return self._description(response)
        return response

    def _metadata(self, response: MetadataResponse) -> MetadataResponse:
        ends = [self._external.get(Endpoint(b.host, b.port).address) for b in response.brokers]
        return replace(
            response,
            brokers=tuple(
                broker if end is None else replace(broker, host=end.host, port=end.port)
                for broker, end in zip(response.brokers, ends, strict=True)
            ),
        )

    def _description(self, response: DescribeClusterResponse) -> DescribeClusterResponse:
        return replace(
            response,
            controller_address=self._address(response.controller_address),
            brokers=tuple(
                replace(b, endpoint=self._external.get(b.endpoint.address, b.endpoint)) for b in response.brokers
            ),
            controllers=tuple(replace(c, address=self._address(c.address)) for c in response.controllers),
        )

    def _address(self, address: str) -> str:
        external = self._external.get(address)
        return address if external is None else external.address

    async def _read(self) -> None:
        """Read the addresses, unless they were read within the last second. Without ZooKeeper the last ones stay."""
        async with self._reading:
            now = asyncio.get_running_loop().time()
            if now - self._read_at < _READ_INTERVAL_S:
                return
            self._read_at = now
            try:
                async with asyncio.timeout(_READ_TIMEOUT_S):
                    self._external = self._by_address(await self._registered())
            except (ZooKeeperError, TimeoutError):
                return

    def _by_address(self, processes: Sequence[Sequence[Endpoint]]) -> dict[str, Endpoint]:
        """Map the address for other clients to the external endpoint, for each process that has one."""
        found: dict[str, Endpoint] = {}
        for endpoints in processes:
            client = self._names.client_endpoint(endpoints)
            external = next((e for e in endpoints if e.listener == EXTERNAL_LISTENER), None)
            if client is not None and external is not None:
                found[client.address] = external
        return found
