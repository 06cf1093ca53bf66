"""A client that leaves a stream of events, in whatever way, is nothing that a controller's log has to say."""

import asyncio
import gc
import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from cluster.aio.clock import SystemClock
from cluster.metrics.registry import Metrics
from cluster.model.broker import ControllerEpoch, ControllerId
from cluster.requests.cluster import ClusterEvent, WatchRequest, WatchResponse
from cluster.requests.context import RequestContext
from cluster.rpc.client import RpcClient
from cluster.rpc.serving import Listener, RpcServer
from controller.adapters.grpc_server import serve_controller
from controller.event_feed import RESPONSE_EVENTS_MAX, EventFeed
from tests.contract.zookeeper_worlds import Relay
from tests.timeouts import TIMEOUT_S

WATCHER = """
import asyncio
from cluster.requests.cluster import WatchRequest
from cluster.rpc.client import RpcClient

async def main():
    async for response in RpcClient().stream({address!r}, WatchRequest("", None)):
        print(response.cursor, flush=True)

asyncio.run(main())
"""
STALLED = 10


class Controller:
    """Only its events: the topic `busy` changes all the time."""

    def __init__(self) -> None:
        self.feed = EventFeed(ControllerEpoch(1), ControllerId(1001), SystemClock())
        self.followed = 0

    async def handle(self, _context: RequestContext, request: Any) -> AsyncIterator[WatchResponse]:
        self.followed += 1
        return self.feed.follow(request)

    async def change(self) -> None:
        while True:
            self.feed.publish_settings_of("busy")
            await asyncio.sleep(0.001)


class TalkativeController:
    """Has large responses for each watcher, as many as it takes."""

    def __init__(self) -> None:
        self.followed = self.taken = 0
        event = ClusterEvent("configs_changed", 0, ControllerEpoch(1), ControllerId(1001), "t" * 200)
        self._response = WatchResponse("1-0", [event] * RESPONSE_EVENTS_MAX, False)

    async def handle(self, _context: RequestContext, _request: Any) -> AsyncIterator[WatchResponse]:
        return self._responses()

    async def _responses(self) -> AsyncIterator[WatchResponse]:
        self.followed += 1
        try:
            while True:
                yield self._response
                self.taken += 1
        finally:
            self.followed -= 1

    async def until_nobody_takes_more(self) -> None:
        taken = -1
        while taken != self.taken:
            taken = self.taken
            await asyncio.sleep(0.5)

    async def until_nobody_follows(self) -> None:
        while self.followed:
            # What has been logged may hold the streams.
            gc.collect()
            await asyncio.sleep(0.01)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged, but for gRPC's own: several event loops of a process read one socket (grpc/grpc#42357)."""
    said = [record.getMessage() for record in caplog.records]
    return [text for text in said if not text.startswith("Exception in callback PollerCompletionQueue._handle_events")]


@pytest.mark.parametrize("is_busy", [False, True], ids=["quiet", "busy"])
async def test_a_watcher_that_leaves_is_not_logged(
    is_busy: bool, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.WARNING)
    controller = Controller()
    server = await serve_controller(Listener("127.0.0.1:0"), controller, Metrics())
    changes = asyncio.create_task(controller.change()) if is_busy else None
    async with asyncio.timeout(TIMEOUT_S):
        for leave in (cancel, close_the_connection, *map(end_by, (signal.SIGKILL, signal.SIGINT, signal.SIGTERM))):
            before = controller.followed
            await leave(server)
            assert controller.followed == before + 1
        client = RpcClient()
        async with aclosing(client.stream(server.address, WatchRequest("", None))) as responses:
            await anext(responses)
        await client.close()
    if changes is not None:
        changes.cancel()
    await server.stop(0)
    assert logged(caplog) == []
    said = "".join(capfd.readouterr())
    assert "Traceback" not in said
    assert "Stream failed" not in said


async def test_watchers_whose_connection_breaks_while_they_are_written_to_are_not_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each reads nothing, so that a write to it waits when its connection breaks, and fails."""
    caplog.set_level(logging.WARNING)
    controller = TalkativeController()
    server = await serve_controller(Listener("127.0.0.1:0"), controller, Metrics())
    relay = Relay(server.port)
    address = f"127.0.0.1:{await relay.open()}"
    clients = [RpcClient() for _ in range(STALLED)]
    async with asyncio.timeout(TIMEOUT_S):
        streams = [client.stream(address, WatchRequest("", None)) for client in clients]
        for stream in streams:
            await anext(stream)
        await controller.until_nobody_takes_more()
        relay.cut(0)
        await controller.until_nobody_follows()
        for client in clients:
            await client.close()
    await relay.close()
    await server.stop(0)
    assert logged(caplog) == []
    said = "".join(capfd.readouterr())
    assert "Traceback" not in said
    assert "Stream failed" not in said


async def cancel(server: RpcServer) -> None:
    client, began = RpcClient(), asyncio.Event()

    async def watch() -> None:
        async for _ in client.stream(server.address, WatchRequest("", None)):
            began.set()

    watching = asyncio.create_task(watch())
    await began.wait()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    await client.close()


async def close_the_connection(server: RpcServer) -> None:
    client = RpcClient()
    responses = client.stream(server.address, WatchRequest("", None))
    await anext(responses)
    await client.close()


def end_by(number: signal.Signals) -> Any:
    async def leave(server: RpcServer) -> None:
        script = WATCHER.format(address=server.address)
        watcher = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert watcher.stdout is not None
        await watcher.stdout.readline()
        watcher.send_signal(number)
        await watcher.wait()

    return leave
