"""The simulated network: requests between nodes with latency, node crashes and broken links.

Requests enter the target through `handle`, as from a gRPC servicer. A request whose target crashes or whose link is
broken fails with PeerUnreachableError; the caller does not know whether it was processed, as on a real network. A
request in flight no longer depends on its sender, and a paused process receives on resumption what has arrived.
"""

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from random import Random
from typing import Any, NamedTuple, TypeVar

from cluster.model.broker import Broker, BrokerId, Endpoint
from cluster.model.errors import ApiError, PeerUnreachableError, StoppingError
from cluster.model.listeners import ListenerNames
from cluster.requests.context import RequestContext, RequestHandler
from cluster.requests.control import ControlRequest, ControlResponse, refusal
from cluster.requests.recovery import DescribeReplicasRequest, DescribeReplicasResponse
from cluster.requests.request import RequestFor, Response
from simulator.virtual_time_loop import OUTSIDE, Process

REQUEST_TIMEOUT_S = 30.0

T = TypeVar("T")


class _Endpoint(NamedTuple):
    """A listener's request handler and name, the context for handling, and the event of its process's end."""

    handler: RequestHandler
    listener: str
    context: Context
    closed: asyncio.Future[None]


class SimulatedNetwork:
    """All links of one simulated cluster. Addresses are those of the nodes' endpoints; a link is between hosts."""

    def __init__(self, random: Random, latency_s: tuple[float, float] = (0.0002, 0.002)) -> None:
        self._random = random
        self.latency_s = latency_s
        self._doors: dict[str, _Endpoint] = {}
        self._cut: set[tuple[str, str]] = set()
        # Requests in flight or being handled; a caller's timeout does not cancel them.
        self._exchanges: set[asyncio.Task[object]] = set()

    def attach(self, endpoint: Endpoint, handler: RequestHandler, process: Process | None = None) -> None:
        """Deliver requests for this endpoint to this node from now on. Without a process it cannot be paused."""
        assert endpoint.address not in self._doors, f"{endpoint.address} is in use"
        context = OUTSIDE if process is None else process.context
        closed = asyncio.get_running_loop().create_future()
        self._doors[endpoint.address] = _Endpoint(handler, endpoint.listener, context, closed)

    def detach(self, endpoint: Endpoint) -> None:
        """The node has ended: pending calls fail, and later ones are refused."""
        attached = self._doors.pop(endpoint.address, None)
        if attached is not None:
            attached.closed.set_result(None)

    def cut(self, source: str, target: str) -> None:
        """Lose everything from `source` to `target` until `heal`."""
        self._cut.add((_host(source), _host(target)))

    def heal(self, source: str, target: str) -> None:
        """Repair one direction between two ends."""
        self._cut.discard((_host(source), _host(target)))

    def heal_all(self) -> None:
        """Repair every link."""
        self._cut.clear()

    async def call(self, source: str, target: str, request: RequestFor[Response]) -> Response:
        """Deliver one request and return the answer. Raises PeerUnreachableError."""
        exchange = self._start(self._exchange(source, target, request), OUTSIDE)
        await asyncio.wait({exchange}, timeout=REQUEST_TIMEOUT_S)
        answer = exchange.result() if exchange.done() else PeerUnreachableError(target, "timed out")
        if isinstance(answer, PeerUnreachableError):
            raise answer
        response: Response = answer
        return response

    def _start(self, work: Coroutine[Any, Any, object], context: Context) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, context=context.copy())
        self._exchanges.add(task)
        task.add_done_callback(self._exchanges.discard)
        return task

    async def _exchange(self, source: str, target: str, request: object) -> object:
        """The response, or the PeerUnreachableError for a caller that still waits."""
        if not await self._travels(source, target):
            return PeerUnreachableError(target, "timed out")
        endpoint = self._doors.get(target)
        if endpoint is None:
            return PeerUnreachableError(target, "connection refused")
        context = RequestContext(peer=source, listener=endpoint.listener)
        handling = self._start(endpoint.handler.handle(context, request), endpoint.context)
        await asyncio.wait({handling, endpoint.closed}, return_when=asyncio.FIRST_COMPLETED)
        if endpoint.closed.done():
            return PeerUnreachableError(target, "connection reset")
        if not await self._travels(target, source):
            return PeerUnreachableError(target, "timed out")
        try:
            return handling.result()
        except StoppingError as error:
            # As over gRPC: the answer is the error's code, whatever its class.
            raise ApiError(error.code, str(error)) from error

    async def _travels(self, source: str, target: str) -> bool:
        """Whether a message arrives; for a lost one, returns after any caller's timeout."""
        await asyncio.sleep(self._random.uniform(*self.latency_s))
        if (_host(source), _host(target)) not in self._cut:
            return True
        await asyncio.sleep(REQUEST_TIMEOUT_S)
        return False


def _host(address: str) -> str:
    return address.partition(":")[0]


class SimulatedBrokerClient:
    """BrokerClient over the simulated network."""

    def __init__(self, network: SimulatedNetwork, source: str, listeners: ListenerNames) -> None:
        self._network, self._source, self._listeners = network, source, listeners

    async def send(self, broker: Broker, request: ControlRequest) -> ControlResponse:
        try:
            response = await self._network.call(self._source, self._address(broker), request)
        except ApiError as error:
            return refusal(request, error.code)
        assert isinstance(response, ControlResponse), f"broker {broker.id} answered {response!r}"
        return response

    def oldest_release(self) -> str | None:
        return None

    def brokers_with_authorizer(self) -> frozenset[BrokerId]:
        return frozenset()

    async def describe_replicas(self, broker: Broker, *, recovers: bool) -> DescribeReplicasResponse:
        return await self._network.call(self._source, self._address(broker), DescribeReplicasRequest(recovers))

    def _address(self, broker: Broker) -> str:
        endpoint = self._listeners.control_endpoint(broker.endpoints)
        assert endpoint is not None, f"broker {broker.id} has no endpoint of {self._listeners}"
        return endpoint.address

    async def forget(self, broker: Broker) -> None:
        """No effect: no connections are kept."""


class SimulatedClusterClient:
    """ClusterClient over the simulated network."""

    def __init__(self, network: SimulatedNetwork, source: str) -> None:
        self._network, self._source = network, source

    async def ask_controller(self, controller: Endpoint, request: RequestFor[Response]) -> Response:
        return await self._network.call(self._source, controller.address, request)

    async def ask_leader(self, leader: Endpoint, request: RequestFor[Response]) -> Response:
        return await self._network.call(self._source, leader.address, request)
