"""Real gRPC servers on the loopback interface over a handler that answers by a script, each with a client."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from broker_agent.adapters.grpc_server import serve_broker_agent
from cluster.metrics.registry import Metrics
from cluster.model.broker import (
    ControllerEpoch,
    ControllerId,
)
from cluster.requests.cluster import DescribeClusterResponse
from cluster.requests.context import RequestContext
from cluster.rpc.client import RpcClient
from cluster.rpc.serving import Listener, RpcServer
from controller.adapters.grpc_server import serve_controller
from tests.timeouts import TIMEOUT_S

TIMEOUT_MS = TIMEOUT_S * 1000
DESCRIPTION = DescribeClusterResponse("a-cluster", ControllerId(1001), "127.0.0.1:9", ControllerEpoch(3), ())


class Scripted:
    """Answers as told and keeps what it was asked."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer
        self.asked: list[tuple[RequestContext, Any]] = []
        self.was_asked = asyncio.Event()

    async def handle(self, context: RequestContext, request: Any) -> Any:
        self.asked.append((context, request))
        self.was_asked.set()
        answer = self.answer(request)
        return await answer if asyncio.iscoroutine(answer) else answer


def refuse(error: Exception) -> Callable[[Any], Any]:
    def answer(_request: Any) -> Any:
        raise error

    return answer


@asynccontextmanager
async def controller(answer: Callable[[Any], Any]) -> AsyncIterator[tuple[RpcServer, Scripted, RpcClient]]:
    handler = Scripted(answer)
    server, client = await serve_controller(Listener("127.0.0.1:0"), handler, Metrics()), RpcClient()
    try:
        yield server, handler, client
    finally:
        await client.close()
        await server.stop(0)


@asynccontextmanager
async def agent(
    answer: Callable[[Any], Any], metrics: Metrics | None = None
) -> AsyncIterator[tuple[RpcServer, Scripted, RpcClient]]:
    handler = Scripted(answer)
    server, client = await serve_broker_agent(Listener("127.0.0.1:0"), handler, metrics or Metrics()), RpcClient()
    try:
        yield server, handler, client
    finally:
        await client.close()
        await server.stop(0)
