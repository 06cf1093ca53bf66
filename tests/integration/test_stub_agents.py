"""The benchmark's agents register and answer like real ones, and notice what they were told."""

from collections.abc import AsyncIterator

import grpc
import pytest

from benchmarks.processes import StubProcesses
from benchmarks.synthetic_cluster import Shape, populate, read_partitions
from cluster.model.broker import BrokerId
from cluster.znodes.paths import BROKERS_IDS, broker_path
from cluster.znodes.registrations import decode_broker
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.port import ZooKeeper
from klamm.v1 import control_pb2 as pb
from klamm.v1.broker_agent_pb2_grpc import BrokerAgentServiceStub
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

SHAPE = Shape(2, 3, 2, (BrokerId(1), BrokerId(2)))


@pytest.fixture
async def client(zookeeper: str) -> AsyncIterator[ZooKeeper]:
    client = KazooZooKeeper(zookeeper, session_timeout_ms=30_000, connection_timeout_ms=TIMEOUT_S * 1000)
    client.listen(lambda event: None)
    await client.start_session()
    await populate(client, SHAPE)
    yield client
    await client.close()


@pytest.fixture
async def stubs(client: ZooKeeper, zookeeper: str) -> AsyncIterator[StubProcesses]:
    stubs = StubProcesses(zookeeper, SHAPE.brokers, 2)
    await stubs.start()
    yield stubs
    await stubs.stop()


async def requests_for(client: ZooKeeper, broker: BrokerId) -> tuple[pb.LeaderAndIsrRequest, pb.UpdateMetadataRequest]:
    """What a controller would tell this agent about the whole cluster."""
    stat = await client.exists(broker_path(broker))
    assert stat is not None
    leader_and_isr = pb.LeaderAndIsrRequest(controller_epoch=2, broker_epoch=stat.czxid)
    update_metadata = pb.UpdateMetadataRequest(controller_epoch=2, broker_epoch=stat.czxid)
    for other in SHAPE.brokers:
        update_metadata.live_brokers.add(id=other)
    for tp, partition in (await read_partitions(client)).items():
        assert partition.leadership is not None
        state = partition.leadership
        same = {
            "partition_index": tp.partition,
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "isr": state.isr,
            "replicas": partition.replicas,
        }
        leader_and_isr.topic_states.add(
            topic_name=tp.topic,
            partition_states=[pb.LeaderAndIsrPartitionState(partition_epoch=state.partition_epoch, **same)],
        )
        update_metadata.topic_states.add(
            topic_name=tp.topic,
            partition_states=[pb.UpdateMetadataPartitionState(zk_version=state.partition_epoch, **same)],
        )
    return leader_and_isr, update_metadata


async def tell(client: ZooKeeper, broker: BrokerId, *, without_the_last: bool = False) -> None:
    znode = await client.get(broker_path(broker))
    assert znode is not None
    endpoint = decode_broker(broker, znode.data).endpoint()
    assert endpoint is not None
    leader_and_isr, update_metadata = await requests_for(client, broker)
    if without_the_last:
        del leader_and_isr.topic_states[-1]
    async with grpc.aio.insecure_channel(endpoint.address) as channel:
        stub = BrokerAgentServiceStub(channel)
        assert (await stub.LeaderAndIsr(leader_and_isr)).error_code == 0
        assert (await stub.UpdateMetadata(update_metadata)).error_code == 0


async def test_agents_that_received_everything_agree_with_zookeeper(client: ZooKeeper, stubs: StubProcesses) -> None:
    for broker in SHAPE.brokers:
        await tell(client, broker)
    assert await stubs.differences() == []
    received = await stubs.received()
    assert sorted((r.broker, r.kind, r.partitions) for r in received) == [
        (broker, kind, 6) for broker in SHAPE.brokers for kind in ("LeaderAndIsr", "UpdateMetadata")
    ]
    assert all(r.bytes > 0 and r.acknowledged_at_ms >= r.arrived_at_ms for r in received)


async def test_a_partition_that_an_agent_was_not_informed_about_is_found(
    client: ZooKeeper, stubs: StubProcesses
) -> None:
    await tell(client, BrokerId(1))
    await tell(client, BrokerId(2), without_the_last=True)
    assert len(await stubs.differences()) == 1


async def test_a_dropped_agent_is_gone_and_comes_back_knowing_nothing(client: ZooKeeper, stubs: StubProcesses) -> None:
    await tell(client, BrokerId(1))
    await stubs.drop(BrokerId(1))
    assert await client.children(BROKERS_IDS) == ("2",)
    await stubs.register(BrokerId(1))
    assert await client.children(BROKERS_IDS) == ("1", "2")
    assert any(line.startswith("agent 1:") for line in await stubs.differences())
