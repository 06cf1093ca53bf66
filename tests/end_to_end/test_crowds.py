"""A real cluster under crowds: thousands of consumers that wait, of programs that watch, and large requests at once."""

import argparse
import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from admin.connecting.client import AdminClient
from benchmarks.long_polls import Agent, measure
from cluster.model.errors import ErrorCode, PeerBusyError
from cluster.model.partition import TopicPartition
from cluster.process.local_cluster import CONTROLLER
from cluster.requests.cluster import WatchRequest
from cluster.requests.data import ProducePartition, ProduceRequest
from cluster.requests.topics import NewTopic
from cluster.rpc.channels import channel_options
from cluster.rpc.client import RpcClient
from cluster.rpc.methods import METHOD_OF_REQUEST
from deploy.local.cluster import LocalCluster
from simulator.record_batches import encode_client_batch
from tests.processes.commands import klamm
from tests.processes.local_clusters import serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.real, pytest.mark.deep]

WATCHES, WATCHES_OF_ADDRESS = 4300, 65_536 // 8 // 2
LARGE = 16_000_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with serving_cluster(tmp_path_factory.mktemp("crowds") / "c", controllers=1, brokers=3) as running:
        yield running


def peak_bytes(pid: int) -> int:
    """The largest resident memory that a process has had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.rule("AD-1", "AD-4", "AD-6")
def test_five_thousand_waiting_consumers_of_one_agent_keep_nobody_else_out(cluster: LocalCluster) -> None:
    arguments = argparse.Namespace(
        data=cluster.folder, consumers=5000, connections=50, processes=2, max_wait_ms=60_000, replicas=3, seconds=5
    )
    found = asyncio.run(measure(arguments))
    for phase in ("waiting", "woken"):
        under_load = found[phase]
        assert isinstance(under_load, dict)
        assert under_load["consumers"]["waiting"] == 5000
        for requests in ("control", "produce"):
            assert under_load[requests]["failed"] == 0
            assert under_load[requests]["requests"] > 0


@pytest.mark.rule("AD-1", "AD-4")
def test_thousands_of_watches_keep_nobody_out_of_the_controller(cluster: LocalCluster) -> None:
    method = METHOD_OF_REQUEST[WatchRequest]
    [controller] = cluster.members(CONTROLLER)

    async def watch() -> None:
        channels = [
            grpc.aio.insecure_channel(controller.address, options=channel_options(TIMEOUT_S * 1000)) for _ in range(20)
        ]
        openers: list[Any] = [channel.unary_stream(method.path) for channel in channels]
        data = method.request.encode(WatchRequest())
        opened = [await begin(openers[number % len(openers)](data)) for number in range(WATCHES)]
        streams = [stream for stream in opened if stream is not None]
        assert len(streams) == WATCHES_OF_ADDRESS
        await asyncio.to_thread(klamm, cluster, "cluster", "health")
        await asyncio.to_thread(klamm, cluster, "topics", "create", "watched", "--partitions", "3")
        for stream in streams:
            assert await stream.read() is not grpc.aio.EOF
        for channel in channels:
            await channel.close()

    async def begin(stream: Any) -> Any:
        """The stream after its first response; None if it was refused."""
        try:
            await stream.read()
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
            return None
        return stream

    asyncio.run(watch())


@pytest.mark.rule("AD-7")
def test_large_requests_at_once_stay_within_the_budget(cluster: LocalCluster) -> None:
    async def produce() -> tuple[int, int]:
        agent = Agent(cluster, seconds=0)
        async with AdminClient(cluster.bootstrap) as admin:
            large = {"max.message.bytes": str(2 * LARGE)}
            await admin.create_topics([NewTopic("large", assignments={0: (agent.id,)}, configs=large)])
            await agent.clients.leaders("large")
        before = peak_bytes(agent.pid)
        batch = encode_client_batch(bytes(LARGE // 4), 4)
        outcomes = await asyncio.gather(*(send(agent.address, batch) for _ in range(24)))
        await agent.clients.rpc.close()
        return sum(outcomes), peak_bytes(agent.pid) - before

    async def send(address: str, batch: bytes) -> int:
        """Produce twice over a connection of its own; returns how often it was let in."""
        client, item = RpcClient(), ProducePartition(*TopicPartition("large", 0), batch)
        try:
            accepted = 0
            for _ in range(2):
                try:
                    answer = await client.call(address, ProduceRequest(1, 30_000, (item,)), TIMEOUT_S * 1000)
                except PeerBusyError:
                    continue
                assert answer.partitions[0].error_code is ErrorCode.NONE, answer
                accepted += 1
            return accepted
        finally:
            await client.close()

    accepted, grown_bytes = asyncio.run(produce())
    assert accepted == 48
    # Each request is in memory once as a message and once as records while it is decoded.
    assert grown_bytes < 2 * 268_435_456
