"""A client's connections to a cluster: finds its nodes, and the active controller, through any known address.

A bootstrap address may be any controller or agent. What the active controller alone may answer is sent to
it; a refusal with NOT_CONTROLLER names the active controller, which is followed. Unreachable nodes are tried
again until the client's timeout.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self, TypeVar
from uuid import uuid4

from msgspec import Struct

from admin.request_parts import send_in_parts
from cluster.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests.cluster import DescribeClusterRequest, DescribeClusterResponse
from cluster.requests.data import MetadataRequest, MetadataResponse

_T = TypeVar("_T", bound=Struct)

PROBE_TIMEOUT_MS = 3_000
"""A node that hangs must not use up the whole timeout while others would answer."""
RETRY_PAUSE_S = 0.2
_CONNECT_TIMEOUT_MS = 2_000


class ClusterConnection:
    """A cluster that is known by some of its addresses. Use as an async context manager.

    Each call raises PeerUnreachableError when nobody answered within `timeout_ms`, and ApiError when the
    cluster refused.
    """

    def __init__(self, bootstrap: Sequence[str], *, timeout_ms: int = 30_000) -> None:
        from cluster.rpc.client import RpcClient  # noqa: PLC0415 - gRPC loads slowly; the help of a command needs none.

        assert bootstrap, "a client needs an address to start from"
        self.timeout_s = timeout_ms / 1000
        self.rpc = RpcClient(connect_timeout_ms=_CONNECT_TIMEOUT_MS, connect_timeout_max_ms=_CONNECT_TIMEOUT_MS)
        self._bootstrap = tuple(bootstrap)
        self._timeout_ms = timeout_ms
        self._controller: str | None = None
        self._last_failure = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.rpc.close()

    async def describe_cluster(self, *, require_controller: bool = False) -> DescribeClusterResponse:
        """The description of the cluster by the first node that answers; with `require_controller`, one that names the
        active controller.
        """

        async def attempt() -> DescribeClusterResponse:
            failures: list[str] = []
            for address in self._bootstrap:
                try:
                    described = await self.describe_node(address)
                except PeerUnreachableError as error:
                    failures.append(str(error))
                    continue
                if described.controller_address or not require_controller:
                    return described
                failures.append(f"{address}: no controller is active")
            raise PeerUnreachableError(",".join(self._bootstrap), "; ".join(failures))

        return await self._until_timeout(attempt, self.timeout_s)

    async def describe_node(self, address: str, timeout_ms: int = PROBE_TIMEOUT_MS) -> DescribeClusterResponse:
        """One node's description of the cluster, without retries."""
        response = await self.rpc.call(address, DescribeClusterRequest(), timeout_ms)
        assert isinstance(response, DescribeClusterResponse)
        return response

    async def describe_controller(self) -> DescribeClusterResponse:
        """The active controller's description: the authoritative one for broker epochs and states."""

        async def attempt() -> DescribeClusterResponse:
            address = await self._controller_address()
            try:
                described = await self.describe_node(address)
            except PeerUnreachableError:
                self._controller = None
                raise
            if described.node_id != described.controller_id:
                self._controller = None
                raise PeerUnreachableError(address, "is no longer the active controller")
            return described

        return await self._until_timeout(attempt, self.timeout_s)

    async def find_brokers(self) -> list[str]:
        """Addresses of the live brokers, as the first node knows them that knows any; one round, without retries.

        A standby controller knows who is active and no brokers; then that one is asked.
        """
        asked: set[str] = set()
        waiting = list(self._bootstrap)
        while waiting:
            address = waiting.pop(0)
            if address in asked:
                continue
            asked.add(address)
            try:
                described = await self.describe_node(address)
            except PeerUnreachableError:
                continue
            if described.brokers:
                return [b.endpoint.address for b in described.brokers]
            if described.controller_address:
                waiting.insert(0, described.controller_address)
        return []

    async def metadata(self, address: str, request: MetadataRequest, timeout_ms: int) -> MetadataResponse:
        """One broker's metadata cache, without retries."""
        response = await self.rpc.call(address, request, timeout_ms)
        assert isinstance(response, MetadataResponse)
        return response

    async def ask_controller(self, request: Any, expected: type[_T]) -> _T:
        """Send to the active controller, retrying until the timeout under one request id.

        A request that is too large for it is sent in parts.
        """
        return await send_in_parts(request, lambda part: self._ask_controller(part, expected))

    async def _ask_controller(self, request: Any, expected: type[_T]) -> _T:
        limit_ms = self._timeout_ms
        if hasattr(request, "timeout_ms"):
            # The controller waits as long as it was asked to; its answer comes a little later.
            limit_ms = max(limit_ms, request.timeout_ms) + PROBE_TIMEOUT_MS
        request_id = uuid4().hex

        async def attempt() -> _T:
            asked = await self._controller_address()
            try:
                response = await self.rpc.call(asked, request, limit_ms, request_id=request_id)
            except PeerUnreachableError:
                self._controller = None
                raise
            except ApiError as error:
                self._follow(error, asked)
                raise PeerUnreachableError(asked, "is no longer the active controller") from error
            assert isinstance(response, expected)
            return response

        return await self._until_timeout(attempt, limit_ms / 1000)

    async def _controller_address(self) -> str:
        if self._controller is None:
            self._controller = (await self.describe_cluster(require_controller=True)).controller_address
        return self._controller

    def _follow(self, error: ApiError, asked: str) -> None:
        """Remember the controller named by a NOT_CONTROLLER error. Any other error is raised."""
        if error.code is not ErrorCode.NOT_CONTROLLER:
            raise error
        # A standby that names itself has not caught up with its own fall.
        leader = error.leader_address
        self._controller = leader if leader and leader != asked else None

    async def _until_timeout(self, attempt: Callable[[], Awaitable[_T]], limit_s: float) -> _T:
        """Retry an attempt that reaches no node, until the limit. Raises with the last failure."""
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    try:
                        answer = await attempt()
                    except PeerUnreachableError as error:
                        self._last_failure = str(error).removeprefix(f"{','.join(self._bootstrap)}: ")
                    else:
                        self._last_failure = ""
                        return answer
                    await asyncio.sleep(RETRY_PAUSE_S)
        except TimeoutError:
            # Often an attempt within this one was cut off, and only that one knows what it failed by.
            why = f": {self._last_failure}" if self._last_failure else ""
            raise PeerUnreachableError(",".join(self._bootstrap), f"no answer within {limit_s:g} s{why}") from None
