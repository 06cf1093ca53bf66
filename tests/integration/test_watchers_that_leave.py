"""A client that leaves a stream of events, in whatever way, is nothing that a controller's log has to say."""

import asyncio
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
from cluster.requests.cluster import WatchRequest, WatchResponse
from cluster.requests.context import RequestContext
from cluster.rpc.client import RpcClient
from cluster.rpc.serving import Listener, RpcServer
from controller.adapters.grpc_server import serve_controller
from controller.event_feed import EventFeed
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
    assert [record.getMessage() for record in caplog.records] == []
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
