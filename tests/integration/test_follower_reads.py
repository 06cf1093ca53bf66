"""A consumer that names its rack reads from the follower to which the leader sends it, over real gRPC."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from admin.connecting.client import AdminClient
from admin.consuming.consumer import Consumer, ConsumerOptions
from admin.describing.topology import Topology
from admin.producing.producer import Producer
from cluster.aio.clock import SystemClock
from cluster.model.broker import Offset
from cluster.model.errors import ErrorCode
from tests.controllers.scripted_cluster import TOPIC, ScriptedCluster, served_cluster
from tests.timeouts import TIMEOUT_S


@pytest.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with served_cluster() as served:
        # Node 0 leads partition 0.
        served.read_replicas = {0: 2}
        yield served


@pytest.fixture
async def client(cluster: ScriptedCluster) -> AsyncIterator[AdminClient]:
    async with AdminClient([s.address for s in cluster.servers.values()], timeout_ms=TIMEOUT_S * 1000) as connected:
        yield connected


async def produce(client: AdminClient, count: int) -> None:
    async with Producer(Topology(client), SystemClock()) as producer:
        for number in range(count):
            await producer.send(TOPIC, None, b"%d" % number, 0)


async def read(client: AdminClient, until: int, options: ConsumerOptions) -> list[int]:
    topology = Topology(client)
    await topology.partitions(TOPIC)
    async with Consumer(topology, TOPIC, {0: Offset(0)}, until={0: Offset(until)}, options=options) as consumer:
        return [int(record.value or 0) async for part in consumer.fetched() for record in part.records]


IN_RACK = ConsumerOptions(client_rack="b", fetch_max_wait_ms=10)


async def test_it_reads_from_the_follower(cluster: ScriptedCluster, client: AdminClient) -> None:
    await produce(client, 100)
    assert await read(client, 100, IN_RACK) == list(range(100))
    assert {node for _, node in cluster.fetched_from} == {2}


async def test_without_a_rack_it_reads_from_the_leader(cluster: ScriptedCluster, client: AdminClient) -> None:
    await produce(client, 100)
    assert await read(client, 100, ConsumerOptions()) == list(range(100))
    assert {node for _, node in cluster.fetched_from} == {0}


@pytest.mark.parametrize("error", [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
async def test_an_error_of_the_follower_leads_back_to_the_leader(
    cluster: ScriptedCluster, client: AdminClient, error: ErrorCode
) -> None:
    await produce(client, 100)
    cluster.follower_errors = [error]
    assert await read(client, 100, IN_RACK) == list(range(100))
    # The leader has sent it to the follower again.
    assert cluster.follower_errors == []
    assert {node for _, node in cluster.fetched_from} == {2}


async def test_a_follower_that_is_gone_is_left_for_the_leader(cluster: ScriptedCluster, client: AdminClient) -> None:
    await produce(client, 100)
    await cluster.servers[2].stop(0)
    # The leader learns of it later than the consumer.
    asyncio.get_running_loop().call_later(0.5, cluster.read_replicas.clear)
    assert await read(client, 100, IN_RACK) == list(range(100))
    assert {node for _, node in cluster.fetched_from} == {0}


async def test_after_the_age_of_metadata_the_leader_is_asked_again(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    await produce(client, 100)
    options = ConsumerOptions(client_rack="b", fetch_max_wait_ms=10, metadata_max_age_ms=1)
    topology = Topology(client)
    await topology.partitions(TOPIC)
    read_values: list[int] = []
    async with Consumer(topology, TOPIC, {0: Offset(0)}, until={0: Offset(200)}, options=options) as consumer:
        async for part in consumer.fetched():
            read_values += [int(record.value or 0) for record in part.records]
            if len(read_values) == 100:
                cluster.read_replicas = {}
                await produce(client, 100)
    assert read_values == [*range(100), *range(100)]
    assert [node for _, node in cluster.fetched_from][-1] == 0
