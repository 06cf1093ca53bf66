"""The administrative client: finds the active controller through any node and asks it.

A bootstrap address may be any controller or agent. What the active controller alone may answer is sent to
it; a refusal with NOT_CONTROLLER names the one in office, which is followed. Unreachable nodes are tried
again until the client's timeout.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from cluster.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    ListTopicsRequest,
    ListTopicsResponse,
    MetadataRequest,
    MetadataResponse,
    NewTopic,
    ReadStateChangesRequest,
    ReadStateChangesResponse,
)
from cluster.rpc.client import RpcClient

_T = TypeVar("_T")

_CONNECT_TIMEOUT_MS = 2_000
_PROBE_TIMEOUT_MS = 3_000
"""A node that hangs must not use up the whole timeout while others would answer."""
_RETRY_PAUSE_S = 0.2


class AdminClient:
    """Calls to a cluster that is known by some of its addresses. Use as an async context manager.

    Each call raises PeerUnreachableError when nobody answered within `timeout_ms`, and ApiError when the
    cluster refused.
    """

    def __init__(self, bootstrap: Sequence[str], *, timeout_ms: int = 30_000) -> None:
        assert bootstrap, "a client needs an address to start from"
        self.timeout_s = timeout_ms / 1000
        self.rpc = RpcClient(connect_timeout_ms=_CONNECT_TIMEOUT_MS)
        self._bootstrap = tuple(bootstrap)
        self._controller: str | None = None

    async def __aenter__(self) -> "AdminClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.rpc.close()

    async def describe_cluster(self, *, require_controller: bool = False) -> DescribeClusterResponse:
        """What the first node that answers knows; with `require_controller`, one that knows who is in office."""

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
                failures.append(f"{address}: no controller is in office")
            raise PeerUnreachableError(",".join(self._bootstrap), "; ".join(failures))

        return await self._until_timeout(attempt)

    async def describe_node(self, address: str, timeout_ms: int = _PROBE_TIMEOUT_MS) -> DescribeClusterResponse:
        """One node's own answer, without a second try."""
        response = await self.rpc.call(address, DescribeClusterRequest(), timeout_ms)
        assert isinstance(response, DescribeClusterResponse)
        return response

    async def find_brokers(self) -> list[str]:
        """Addresses of the live brokers, as the first node knows them that knows any; one round, no second try.

        A standby controller knows who is in office and no brokers; then that one is asked.
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

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> CreateTopicsResponse:
        """Create topics and wait until their partitions have leaders. One result per topic.

        An attempt whose answer was lost is sent again: TOPIC_ALREADY_EXISTS may then speak of our own topic.
        """
        request = CreateTopicsRequest(tuple(topics), int(self.timeout_s * 1000), validate_only)
        response = await self._ask_controller(request, int(self.timeout_s * 1000) + _PROBE_TIMEOUT_MS)
        assert isinstance(response, CreateTopicsResponse)
        return response

    async def list_topics(self) -> ListTopicsResponse:
        response = await self._ask_controller(ListTopicsRequest())
        assert isinstance(response, ListTopicsResponse)
        return response

    async def describe_topics(self, names: Sequence[str] | None = None) -> DescribeTopicsResponse:
        """Partitions and configs of these topics, of all with None; an unknown one has its error code."""
        wanted = None if names is None else tuple(names)
        response = await self._ask_controller(DescribeTopicsRequest(wanted))
        assert isinstance(response, DescribeTopicsResponse)
        return response

    async def metadata(self, address: str, request: MetadataRequest, timeout_ms: int) -> MetadataResponse:
        """One broker's metadata cache, without a second try."""
        response = await self.rpc.call(address, request, timeout_ms)
        assert isinstance(response, MetadataResponse)
        return response

    async def read_state_changes(self, address: str, topic: str, partition: int) -> ReadStateChangesResponse:
        """One node's state-change records of a partition, without a second try."""
        request = ReadStateChangesRequest(topic, partition)
        response = await self.rpc.call(address, request, int(self.timeout_s * 1000))
        assert isinstance(response, ReadStateChangesResponse)
        return response

    async def _ask_controller(self, request: Any, timeout_ms: int | None = None) -> Any:
        limit_ms = int(self.timeout_s * 1000) if timeout_ms is None else timeout_ms

        async def attempt() -> Any:
            if self._controller is None:
                self._controller = (await self.describe_cluster(require_controller=True)).controller_address
            asked = self._controller
            try:
                return await self.rpc.call(asked, request, limit_ms)
            except PeerUnreachableError:
                self._controller = None
                raise
            except ApiError as error:
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    raise
                # A standby that names itself has not caught up with its own fall.
                leader = error.leader_address
                self._controller = leader if leader and leader != asked else None
                raise PeerUnreachableError(asked, "is not the active controller any more") from error

        return await self._until_timeout(attempt)

    async def _until_timeout(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """Repeat an attempt that finds nobody, until the timeout; then raise what the last one raised."""
        last: PeerUnreachableError | None = None
        try:
            async with asyncio.timeout(self.timeout_s):
                while True:
                    try:
                        return await attempt()
                    except PeerUnreachableError as error:
                        last = error
                    await asyncio.sleep(_RETRY_PAUSE_S)
        except TimeoutError:
            if last is not None:
                raise last from None
            raise PeerUnreachableError(",".join(self._bootstrap), f"no answer within {self.timeout_s:g} s") from None
