"""Registration of an agent in ZooKeeper, across session expiries and lost responses."""

import asyncio
import json
from random import Random
from typing import Any

import pytest
from msgspec import structs

from broker_agent.registration.identity import agree_on_cluster_id, choose_broker_id
from broker_agent.registration.registration import IdTakenError, Registration
from cluster.model.broker import Broker, BrokerId, ControllerId, Endpoint
from cluster.model.errors import ErrorCode, StartupError
from cluster.requests.cluster import DescribeClusterRequest, DescribedController
from cluster.requests.data import MetadataRequest
from cluster.znodes.paths import PERSISTENT_PATHS, broker_path, controller_registration_path
from cluster.zookeeper.port import Create
from simulator.cluster import VirtualClock
from simulator.zookeeper import SimulatedZooKeeper
from tests.brokers.agents import AgentWorld, connect, until, virtually

BROKER = Broker(BrokerId(1), (Endpoint("host-1", 9092),))


@pytest.mark.rule("R1.1", "R1.2")
@virtually
async def test_paths_are_created_where_missing_and_the_first_cluster_id_wins() -> None:
    server = SimulatedZooKeeper(Random(1))
    first, second = await connect(server), await connect(server)
    ids = await asyncio.gather(agree_on_cluster_id(first, Random(1)), agree_on_cluster_id(second, Random(2)))
    assert ids[0] == ids[1]
    assert len(ids[0]) == 22
    assert all(server.tree.exists(path) is not None for path in PERSISTENT_PATHS)


@pytest.mark.rule("R1.3", "R1.4")
@virtually
async def test_the_id_is_configured_else_stored_else_generated_without_touching_controllers() -> None:
    client = await connect(SimulatedZooKeeper(Random(1)))

    async def choose(configured: int, stored: int | None, *, generation_enabled: bool = True) -> int:
        return await choose_broker_id(
            client,
            configured=configured,
            stored=None if stored is None else BrokerId(stored),
            generation_enabled=generation_enabled,
            reserved_max=1000,
        )

    assert await choose(5, None) == 5
    assert await choose(-1, 7) == 7
    with pytest.raises(StartupError, match="belong to broker 7"):
        await choose(5, 7)
    with pytest.raises(StartupError, match="generation"):
        await choose(-1, None, generation_enabled=False)
    await client.multi([Create(controller_registration_path(ControllerId(1001)), b"{}")])
    assert await choose(-1, None) == 1002
    assert await choose(-1, None) == 1003


@pytest.mark.rule("R1.5", "R1.9", "ZK-12", "ZK-13")
@virtually
async def test_a_lost_answer_to_the_registration_is_found_out() -> None:
    client = await connect(SimulatedZooKeeper(Random(1)))
    registration = Registration(client, BROKER, VirtualClock())
    client.lose_answer_of_next_write()
    await registration.register()
    stat = await client.exists(broker_path(BROKER.id))
    assert stat is not None
    assert registration.epoch == stat.czxid


@pytest.mark.rule("R1.6")
@virtually
async def test_the_protocol_version_says_which_registration_is_written() -> None:
    client = await connect(SimulatedZooKeeper(Random(1)))
    await Registration(client, BROKER, VirtualClock(), version=4).register()
    znode = await client.get(broker_path(BROKER.id))
    assert znode is not None
    body = json.loads(znode.data)
    assert (body["version"], "features" in body) == (4, False)


@pytest.mark.rule("R1.8", "R1.9")
@virtually
async def test_an_id_or_an_address_of_another_process_is_refused() -> None:
    server = SimulatedZooKeeper(Random(1))
    first, second = await connect(server), await connect(server)
    await Registration(first, BROKER, VirtualClock()).register()
    rival = Registration(second, BROKER, VirtualClock())
    await rival.check_address_is_free()
    with pytest.raises(IdTakenError, match="another session"):
        await rival.register()
    same_address = Registration(second, Broker(BrokerId(2), BROKER.endpoints), VirtualClock())
    with pytest.raises(StartupError, match="host-1:9092"):
        await same_address.check_address_is_free()


@pytest.mark.rule("R1.12", "R1.13", "R1.14", "R1.15", "R1.16", "P15", "AG-1")
@virtually
async def test_an_expired_agent_registers_again_with_a_new_epoch_and_keeps_its_roles() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, [1, 2])
    leader = world.agents[1]
    old = leader.epoch
    leader.zookeeper.expire()
    await until(lambda: leader.epoch != old)
    assert leader.epoch > old
    assert leader.partition().is_leader
    assert (await leader.produce(2, acks=-1)).error_code is ErrorCode.NONE
    stat = world.zookeeper.tree.exists(broker_path(BrokerId(1)))
    assert stat is not None
    assert stat.czxid == leader.epoch
    response = await leader.handle(world.leader_and_isr(world.decide(1, [1, 2]), broker_epoch=old))
    assert response.error_code is ErrorCode.STALE_BROKER_EPOCH
    states = [change.to_state for change in leader.records.all if change.kind == "registration"]
    assert states == ["registered", "expired", "registered"]
    assert leader.agent.finder.controller_id == 1001
    await world.stop()


@pytest.mark.rule("R1.12", "R1.15")
@virtually
async def test_an_agent_that_expires_while_zookeeper_is_away_registers_when_it_is_back() -> None:
    world = AgentWorld()
    await world.start(1)
    agent = world.agents[1]
    old = agent.epoch
    agent.zookeeper.expire()
    world.zookeeper.shut_down()
    await asyncio.sleep(60)
    assert agent.epoch == old
    world.zookeeper.start_up()
    await until(lambda: agent.epoch > old, within_s=60)
    await world.stop()


@virtually
async def test_every_agent_tells_who_is_active_and_who_is_there() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, [1, 2])

    async def describe() -> Any:
        return await world.agents[2].handle(DescribeClusterRequest())

    described = await describe()
    assert (described.controller_id, described.controller_address) == (1001, "controller:9090")
    assert described.controllers == (DescribedController(ControllerId(1001), "controller:9090"),)
    assert [(b.id, b.epoch) for b in described.brokers] == [(1, world.agents[1].epoch), (2, world.agents[2].epoch)]
    metadata = await world.agents[2].handle(MetadataRequest())
    assert [topic.name for topic in metadata.topics] == ["orders"]
    assert metadata.topics[0].partitions[0].leader_id == 1
    world.zookeeper.shut_down()
    described = await describe()
    assert [broker.id for broker in described.brokers] == [1, 2]
    assert described.controllers == ()
    world.zookeeper.start_up()
    await world.stop()


@pytest.mark.rule("R12.3", "R12.5", "R9.21")
@virtually
async def test_a_graceful_stop_takes_the_registration_away_at_once_and_leaves_the_clean_marker() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, [1, 2])
    await world.agents[1].produce(3, acks=-1)
    stopping = world.agents.pop(1)
    await stopping.stop()
    await stopping.agent.stop()
    assert world.zookeeper.tree.exists(broker_path(BrokerId(1))) is None
    assert stopping.disk.read_file("/data/.kafka_cleanshutdown") is not None
    assert stopping.metrics.gauge("kafka.server", "KafkaServer", "BrokerState").value == 0
    await world.stop()


@pytest.mark.rule("R1.6", "RQ-30", "ZK-10")
@virtually
async def test_an_agent_registers_and_finds_its_peers_by_the_names_of_its_listeners() -> None:
    world = AgentWorld(inter_broker_listener_name="INTERNAL", control_plane_listener_name="CONTROLLER")
    await world.start(1)
    znode = world.zookeeper.tree.get(broker_path(BrokerId(1)))
    assert znode is not None
    body = json.loads(znode.data)
    address = "broker-1:9092"
    assert body["endpoints"] == [f"INTERNAL://{address}", "CONTROLLER://broker-1:9093"]
    assert body["listener_security_protocol_map"] == {"INTERNAL": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    assert f"{body['host']}:{body['port']}" == address
    agent = world.agents[1].agent
    peers = (
        Broker(BrokerId(1), (Endpoint("host-1", 9093, "CONTROLLER"), Endpoint("host-1", 9092, "INTERNAL"))),
        Broker(BrokerId(2), (Endpoint("host-2", 9092, "PLAINTEXT"),)),
    )
    agent.metadata.apply(structs.replace(world.metadata(1), live_brokers=peers))
    assert agent.metadata.endpoint(BrokerId(1)) == peers[0].endpoints[1]
    assert agent.metadata.endpoint(BrokerId(2)) is None
    assert [(broker.node_id, broker.port) for broker in agent.metadata.describe_brokers()] == [(1, 9092)]
    described = await world.agents[1].handle(DescribeClusterRequest())
    assert [broker.endpoint.address for broker in described.brokers] == [address]
    await world.stop()
