"""The simulated network: requests between nodes with latency, and nodes or links that are cut.

Requests enter the target through `handle`, as they do from a gRPC servicer. A request whose target dies or
whose link is cut fails with PeerUnreachableError, and whether it was processed stays unknown to the
caller, as on a real network.
"""

import asyncio
from random import Random

from cluster.broker import DEFAULT_LISTENER, Broker, Endpoint
from cluster.errors import PeerUnreachableError
from cluster.node import RequestHandler
from cluster.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControlRequest,
    ControlResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
    RequestContext,
)

REQUEST_TIMEOUT_S = 30.0


class SimulatedNetwork:
    """All links of one simulated cluster. Addresses are those of the nodes' endpoints."""

    def __init__(self, random: Random, latency_s: tuple[float, float] = (0.0002, 0.002)) -> None:
        self._random = random
        self._latency_s = latency_s
        self._nodes: dict[str, RequestHandler] = {}
        self._down: dict[str, asyncio.Future[None]] = {}
        self._cut: set[tuple[str, str]] = set()
        self._silenced: set[str] = set()
        # Handlers run in tasks of their own: a caller that gives up does not end the work at the target.
        self._handling: set[asyncio.Task[object]] = set()

    def attach(self, address: str, handler: RequestHandler) -> None:
        """Begin to deliver requests for `address` to this node."""
        assert address not in self._nodes, f"{address} is in use"
        self._nodes[address] = handler
        self._down[address] = asyncio.get_running_loop().create_future()

    def detach(self, address: str) -> None:
        """The node is gone: callers that wait for it learn so, and later ones cannot connect."""
        self._nodes.pop(address, None)
        down = self._down.pop(address, None)
        if down is not None and not down.done():
            down.set_result(None)

    def silence(self, source: str) -> None:
        """Send nothing more from a process that is no more; its calls never come back."""
        self._silenced.add(source)

    def cut(self, source: str, target: str) -> None:
        """Lose everything from `source` to `target` until `heal`."""
        self._cut.add((source, target))

    def heal(self, source: str, target: str) -> None:
        self._cut.discard((source, target))

    def heal_all(self) -> None:
        """Repair every link."""
        self._cut.clear()

    async def call(self, source: str, target: str, request: object) -> object:
        """Deliver one request and return the answer. Raises PeerUnreachableError."""
        if source in self._silenced:
            await asyncio.get_running_loop().create_future()
        await self._travel(source, target)
        handler = self._nodes.get(target)
        if handler is None:
            raise PeerUnreachableError(target, "connection refused")
        handling = asyncio.get_running_loop().create_task(handler.handle(RequestContext(peer=source), request))
        self._handling.add(handling)
        handling.add_done_callback(self._handling.discard)
        down = self._down[target]
        await asyncio.wait({handling, down}, timeout=REQUEST_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        if down.done() or not handling.done():
            raise PeerUnreachableError(target, "connection reset" if down.done() else "timed out")
        await self._travel(target, source)
        return handling.result()

    async def _travel(self, source: str, target: str) -> None:
        await asyncio.sleep(self._random.uniform(*self._latency_s))
        if (source, target) in self._cut:
            await asyncio.sleep(REQUEST_TIMEOUT_S)
            raise PeerUnreachableError(target, "timed out")


class SimulatedBrokerClient:
    """BrokerClient over the simulated network."""

    def __init__(self, network: SimulatedNetwork, source: str) -> None:
        self._network, self._source = network, source

    async def send(self, broker: Broker, request: ControlRequest) -> ControlResponse:
        endpoint = broker.endpoint(DEFAULT_LISTENER)
        assert endpoint is not None, f"broker {broker.id} has no {DEFAULT_LISTENER} endpoint"
        return await self._network.call(self._source, endpoint.address, request)  # type: ignore[return-value]

    async def forget(self, broker: Broker) -> None:
        """Nothing is kept between requests."""


class SimulatedClusterClient:
    """ClusterClient over the simulated network."""

    def __init__(self, network: SimulatedNetwork, source: str) -> None:
        self._network, self._source = network, source

    async def alter_partition(self, controller: Endpoint, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return await self._call(controller, request)  # type: ignore[return-value]

    async def controlled_shutdown(
        self, controller: Endpoint, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        return await self._call(controller, request)  # type: ignore[return-value]

    async def fetch(self, leader: Endpoint, request: FetchRequest) -> FetchResponse:
        return await self._call(leader, request)  # type: ignore[return-value]

    async def offsets_for_leader_epoch(
        self, leader: Endpoint, request: OffsetsForLeaderEpochRequest
    ) -> OffsetsForLeaderEpochResponse:
        return await self._call(leader, request)  # type: ignore[return-value]

    async def list_offsets(self, leader: Endpoint, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return await self._call(leader, request)  # type: ignore[return-value]

    async def _call(self, target: Endpoint, request: object) -> object:
        return await self._network.call(self._source, target.address, request)
