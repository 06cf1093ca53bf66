"""Connections of gRPC clients: peers that are absent, that return, that are slow, and channels that are closed."""

import asyncio
import socket

import pytest

from cluster.metrics.registry import Metrics
from cluster.model.errors import ConnectionRefusedByHostError, PeerNotConnectedError, PeerUnreachableError
from cluster.requests.cluster import DescribeClusterRequest, DescribeClusterResponse
from cluster.rpc.channels import CLIENT_CONCURRENCY_MAX
from cluster.rpc.client import RpcClient
from cluster.rpc.serving import Listener
from controller.adapters.grpc_server import serve_controller
from deploy.local.processes import choose_free_ports
from tests.processes.scripted_servers import DESCRIPTION, TIMEOUT_MS, Scripted, controller
from tests.timeouts import TIMEOUT_S


async def test_nobody_at_the_address_is_an_unreachable_peer() -> None:
    client = RpcClient()
    try:
        with pytest.raises(PeerUnreachableError, match="connection refused"):
            await client.call(f"127.0.0.1:{choose_free_ports(1)[0]}", DescribeClusterRequest(), TIMEOUT_MS)
    finally:
        await client.close()


async def test_calls_that_wait_for_one_attempt_to_connect_fail_with_its_reason() -> None:
    """Also those that still wait for their turn when the first one fails."""
    address, client = f"127.0.0.1:{choose_free_ports(1)[0]}", RpcClient()
    try:
        calls = [client.call(address, DescribeClusterRequest(), TIMEOUT_MS) for _ in range(2 * CLIENT_CONCURRENCY_MAX)]
        failures = await asyncio.gather(*calls, return_exceptions=True)
    finally:
        await client.close()
    assert {(type(failure), str(failure)) for failure in failures} == {
        (ConnectionRefusedByHostError, f"{address}: connection refused")
    }


async def test_a_call_in_flight_is_answered_though_others_can_no_longer_connect() -> None:
    """A peer that stops takes no more connections, and still answers what it has been sent."""
    address, client = f"127.0.0.1:{choose_free_ports(1)[0]}", RpcClient()
    entered, released = asyncio.Event(), asyncio.Event()

    async def answer_late() -> DescribeClusterResponse:
        entered.set()
        await released.wait()
        return DESCRIPTION

    server = await serve_controller(Listener(address), Scripted(lambda _: answer_late()), Metrics())
    in_flight = asyncio.create_task(client.call(address, DescribeClusterRequest(), TIMEOUT_MS))
    await asyncio.wait_for(entered.wait(), TIMEOUT_S)
    stopping = asyncio.create_task(server.stop(TIMEOUT_S))
    try:
        refused = 0
        async with asyncio.timeout(TIMEOUT_S):
            while refused < 3:
                with pytest.raises(PeerUnreachableError) as failed:
                    await client.call(address, DescribeClusterRequest(), 200)
                refused += isinstance(failed.value, PeerNotConnectedError)
        released.set()
        assert await in_flight == DESCRIPTION
    finally:
        released.set()
        in_flight.cancel()
        await client.close()
        await stopping


async def test_a_peer_that_returns_is_reached_again_on_the_same_channel() -> None:
    address, client = f"127.0.0.1:{choose_free_ports(1)[0]}", RpcClient()
    server = await serve_controller(Listener(address), Scripted(lambda _: DESCRIPTION), Metrics())
    try:
        await client.call(address, DescribeClusterRequest(), TIMEOUT_MS)
        await server.stop(0)
        with pytest.raises(PeerUnreachableError):
            await client.call(address, DescribeClusterRequest(), TIMEOUT_MS)
        server = await serve_controller(Listener(address), Scripted(lambda _: DESCRIPTION), Metrics())
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    assert await client.call(address, DescribeClusterRequest(), TIMEOUT_MS) == DESCRIPTION
                    break
                except PeerUnreachableError:
                    await asyncio.sleep(0.05)
    finally:
        await client.close()
        await server.stop(0)


async def test_each_attempt_to_connect_may_take_twice_as_long_as_the_one_before_until_one_succeeds() -> None:
    address, client = (
        f"127.0.0.1:{choose_free_ports(1)[0]}",
        RpcClient(connect_timeout_ms=1000, connect_timeout_max_ms=3000),
    )
    timeouts = []
    try:
        for _ in range(4):
            timeouts.append(client.connect_timeout_ms(address))
            with pytest.raises(PeerUnreachableError):
                await client.call(address, DescribeClusterRequest(), TIMEOUT_MS)
        assert timeouts == [1000, 2000, 3000, 3000]
        assert client.connect_timeout_ms("127.0.0.1:1") == 1000
        server = await serve_controller(Listener(address), Scripted(lambda _: DESCRIPTION), Metrics())
        await client.call(address, DescribeClusterRequest(), TIMEOUT_MS)
        assert client.connect_timeout_ms(address) == 1000
        await server.stop(0)
        # The loss of a connection is no failed attempt; those that follow are.
        for expected in (1000, 1000, 2000):
            assert client.connect_timeout_ms(address) == expected
            with pytest.raises(PeerUnreachableError):
                await client.call(address, DescribeClusterRequest(), TIMEOUT_MS)
    finally:
        await client.close()


async def test_a_peer_that_does_not_even_refuse_costs_one_attempt() -> None:
    client = RpcClient(connect_timeout_ms=300, connect_timeout_max_ms=300)
    with socket.socket() as listening, socket.socket() as queued, socket.socket() as waiting:
        # The queue of the listening socket is full: nobody answers a request for a connection.
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        queued.connect(listening.getsockname())
        waiting.setblocking(False)
        waiting.connect_ex(listening.getsockname())
        try:
            with pytest.raises(PeerNotConnectedError, match=": connection timed out$"):
                await client.call(f"127.0.0.1:{listening.getsockname()[1]}", DescribeClusterRequest(), TIMEOUT_MS)
        finally:
            await client.close()


async def test_a_slow_peer_is_unreachable_when_the_time_is_over() -> None:
    async with controller(lambda _: asyncio.sleep(3600)) as (server, _, client):
        with pytest.raises(PeerUnreachableError, match="timed out"):
            await client.call(server.address, DescribeClusterRequest(), 100)


async def test_closing_a_channel_fails_its_calls_but_does_not_cancel_the_caller() -> None:
    async with controller(lambda _: asyncio.sleep(3600)) as (server, handler, client):
        call = asyncio.create_task(client.call(server.address, DescribeClusterRequest(), TIMEOUT_MS))
        async with asyncio.timeout(TIMEOUT_S):
            await handler.was_asked.wait()
        await client.forget(server.address)
        with pytest.raises(PeerUnreachableError):
            await call


async def test_a_cancelled_caller_stays_cancelled() -> None:
    async with controller(lambda _: asyncio.sleep(3600)) as (server, handler, client):
        call = asyncio.create_task(client.call(server.address, DescribeClusterRequest(), TIMEOUT_MS))
        async with asyncio.timeout(TIMEOUT_S):
            await handler.was_asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_thousands_of_calls_at_one_instant_are_all_answered() -> None:
    async with controller(lambda _: DESCRIPTION) as (server, _, client):
        calls = [client.call(server.address, DescribeClusterRequest(), TIMEOUT_MS) for _ in range(3000)]
        assert await asyncio.gather(*calls) == [DESCRIPTION] * len(calls)
