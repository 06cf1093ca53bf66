"""The administrative client over real gRPC: streams that outlive a controller, and retries under one id."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from admin.connecting.client import AdminClient
from cluster.metrics.registry import Metrics
from cluster.model.broker import ControllerEpoch, ControllerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.cluster import (
    ClusterEvent,
    DescribeClusterRequest,
    DescribeClusterResponse,
    WatchRequest,
    WatchResponse,
)
from cluster.requests.context import RequestContext
from cluster.requests.topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from cluster.rpc.serving import Listener, RpcServer
from controller.adapters.grpc_server import serve_controller
from tests.timeouts import TIMEOUT_S


class ScriptedController:
    """Two of them share a script: what was asked, and who is active."""

    def __init__(self, script: "Script", number: int) -> None:
        self.script, self.number = script, number

    async def handle(self, context: RequestContext, request: Any) -> Any:
        if isinstance(request, DescribeClusterRequest):
            return self.script.describe()
        if self.number != self.script.active:
            address = self.script.servers[self.script.active].address
            raise ApiError(ErrorCode.NOT_CONTROLLER, "standby", leader_address=address)
        if isinstance(request, WatchRequest):
            if self.script.refuses:
                raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "too old")
            return self.watch(request)
        assert isinstance(request, DeleteTopicsRequest)
        self.script.request_ids.append(context.request_id)
        if self.script.dies:
            self.script.dies = False
            self.script.active = 1 - self.number
            # Stopping cancels this very call, which must not cut the stopping short.
            stopping = asyncio.ensure_future(self.script.servers[self.number].stop(0))
            self.script.stopping[self.number] = stopping
            await asyncio.shield(stopping)
        return DeleteTopicsResponse((DeletableTopicResult("t", None, ErrorCode.NONE),))

    async def watch(self, request: WatchRequest) -> AsyncIterator[WatchResponse]:
        self.script.cursors.append(request.cursor)
        assert 1 / (not self.script.breaks)
        try:
            for number in range(2):
                kind = f"{self.number}-{number}"
                yield WatchResponse(kind, (ClusterEvent(kind, 0, ControllerEpoch(self.number)),), missed=number == 0)
            if self.script.hold is not None:
                await self.script.hold.wait()
            self.script.active = 1 - self.number
        finally:
            self.script.stream_ended.set()


class Script:
    def __init__(self) -> None:
        self.servers: list[RpcServer] = []
        self.stopping: dict[int, asyncio.Future[None]] = {}
        self.active = 0
        self.dies = False
        self.refuses = False
        self.breaks = False
        self.request_ids: list[str] = []
        self.cursors: list[str] = []
        self.stream_ended = asyncio.Event()
        self.hold: asyncio.Event | None = None

    def describe(self) -> DescribeClusterResponse:
        address = self.servers[self.active].address
        return DescribeClusterResponse("c", ControllerId(self.active), address, ControllerEpoch(1), ())


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    script = Script()
    for number in range(2):
        script.servers.append(
            await serve_controller(Listener("127.0.0.1:0"), ScriptedController(script, number), Metrics())
        )
    yield script
    for number, server in enumerate(script.servers):
        await (script.stopping[number] if number in script.stopping else server.stop(0))


async def test_a_stream_goes_on_at_the_next_controller_behind_what_was_read(script: Script) -> None:
    async with AdminClient([script.servers[1].address]) as client, aclosing(client.watch(["t"])) as responses:
        kinds = []
        async for response in responses:
            kinds.append((response.events[0].kind, response.missed))
            if len(kinds) == 4:
                break
    assert kinds == [("0-0", True), ("0-1", False), ("1-0", True), ("1-1", False)]
    assert script.cursors == ["", "0-1"]


async def test_who_stops_reading_ends_the_stream_at_the_controller_too(script: Script) -> None:
    script.hold = asyncio.Event()
    async with AdminClient([script.servers[0].address]) as client:
        async with aclosing(client.watch()) as responses:
            assert (await anext(responses)).cursor == "0-0"
        async with asyncio.timeout(TIMEOUT_S):
            await script.stream_ended.wait()


async def test_a_controller_that_does_not_stream_says_so(script: Script) -> None:
    script.refuses = True
    async with AdminClient([script.servers[0].address]) as client:
        with pytest.raises(ApiError, match="UNSUPPORTED_VERSION"):
            await anext(client.watch())


async def test_a_stream_that_breaks_within_the_controller_ends_with_its_error(script: Script) -> None:
    script.breaks = True
    async with AdminClient([script.servers[0].address]) as client:
        with pytest.raises(ApiError, match="UNKNOWN_SERVER_ERROR: ZeroDivisionError"):
            await anext(client.watch())


async def test_a_repeated_attempt_has_the_id_of_the_first_and_another_call_another(script: Script) -> None:
    async with AdminClient([server.address for server in script.servers]) as client:
        await client.delete_topics(["t"])
        script.dies = True
        await client.delete_topics(["t"])
    first, second, repeated = script.request_ids
    assert first
    assert first != second == repeated
