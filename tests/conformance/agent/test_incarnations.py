"""Incarnations of one broker: broker states, conflicting registrations, requests for an earlier incarnation."""

import asyncio
from random import Random
from typing import Any

import pytest

from broker_agent.agent import NOT_RUNNING, PENDING_CONTROLLED_SHUTDOWN, RUNNING, SHUTTING_DOWN
from broker_agent.registration.registration import IdTakenError, Registration
from cluster.model.broker import Broker, BrokerEpoch, BrokerId, ControllerEpoch, Endpoint, LeaderEpoch
from cluster.model.errors import ErrorCode
from cluster.requests.agents import ControlledShutdownResponse
from cluster.requests.cluster import DescribeClusterRequest
from cluster.requests.control import StopReplicaPartitionState, StopReplicaRequest, UpdateMetadataRequest
from cluster.znodes.paths import broker_path
from cluster.zookeeper.port import Delete, Stat
from simulator.cluster import VirtualClock
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.brokers.agents import CONTROLLER_ID, TOPIC, TP, AgentProcess, AgentWorld, connect, until, virtually

BROKER = Broker(BrokerId(1), (Endpoint("host-1", 9092),))


class Sessions:
    """One process over several sessions, of which the server may still keep an earlier one."""

    def __init__(self, current: SimulatedZooKeeperClient) -> None:
        self.current = current

    def __getattr__(self, name: str) -> Any:
        return getattr(self.current, name)


@pytest.mark.rule("R1.11", "R12.1", "R12.3")
@virtually
async def test_the_state_of_a_broker_goes_from_running_over_both_ways_of_leaving_to_the_end() -> None:
    world = AgentWorld(controlled_shutdown_retry_backoff_ms=1000)
    world.controller.shutdown_answers = [ControlledShutdownResponse(ErrorCode.NOT_CONTROLLER)]
    await world.start(1)
    agent = world.agents[1]
    state = agent.metrics.gauge("kafka.server", "KafkaServer", "BrokerState")
    assert state.value == RUNNING == 3
    await until(lambda: agent.agent.finder.endpoint is not None)
    leaving = asyncio.ensure_future(agent.agent.leave())
    await until(lambda: len(world.controller.shutdown_requests) == 1)
    assert state.value == PENDING_CONTROLLED_SHUTDOWN == 6
    await leaving
    await agent.agent.control.lock.acquire()  # A role change is under way, and the end waits for it.
    ending = asyncio.ensure_future(world.stop())
    await asyncio.sleep(1)
    assert state.value == SHUTTING_DOWN == 7
    agent.agent.control.lock.release()
    await ending
    assert state.value == NOT_RUNNING == 0


@pytest.mark.rule("R1.10")
@virtually
async def test_requests_that_come_before_the_registration_wait_for_it() -> None:
    world = AgentWorld()
    await world.start()
    process = AgentProcess(world, BrokerId(1))
    starting = asyncio.ensure_future(process.start())
    await until(lambda: hasattr(process, "agent"))
    asking = asyncio.ensure_future(process.handle(DescribeClusterRequest()))
    await asyncio.sleep(0)
    assert world.zookeeper.tree.exists(broker_path(BrokerId(1))) is None
    assert not asking.done()
    await starting
    described = await asking
    assert [(broker.id, broker.epoch) for broker in described.brokers] == [(1, process.epoch)]
    await process.stop()


@pytest.mark.rule("R1.9", "R1.12")
@virtually
async def test_the_node_of_the_own_former_session_is_replaced_and_that_of_another_process_is_not() -> None:
    server = SimulatedZooKeeper(Random(1))
    sessions = Sessions(await connect(server))
    registration = Registration(sessions, BROKER, VirtualClock())  # type: ignore[arg-type]
    await registration.register()
    former, path = registration.epoch, broker_path(BROKER.id)
    sessions.current = client = await connect(server)  # The server keeps the session before for a while.
    rival = Registration(await connect(server), BROKER, VirtualClock())
    with pytest.raises(IdTakenError):
        await rival.register()
    await registration.register()
    assert registration.epoch > former
    stat = server.tree.exists(path)
    assert stat is not None
    assert (stat.czxid, stat.ephemeral_owner) == (registration.epoch, client.session_id)


@pytest.mark.rule("R1.9")
@virtually
async def test_a_node_that_vanishes_while_its_owner_is_looked_up_is_created_again() -> None:
    server = SimulatedZooKeeper(Random(1))
    client, other = await connect(server), await connect(server)
    await Registration(other, BROKER, VirtualClock()).register()
    exists = client.exists

    async def vanish(path: str, *, watch: bool = False) -> Stat | None:
        await other.multi([Delete(path)])
        return await exists(path, watch=watch)

    client.exists = vanish  # type: ignore[method-assign]
    registration = Registration(client, BROKER, VirtualClock())
    await registration.register()
    stat = server.tree.exists(broker_path(BROKER.id))
    assert stat is not None
    assert (stat.czxid, stat.ephemeral_owner) == (registration.epoch, client.session_id)


@pytest.mark.rule("R1.18", "R1.16", "R1.17", "P15", "P26")
@virtually
async def test_a_quick_bounce_shows_in_the_epoch_and_what_was_meant_for_the_former_epoch_changes_nothing() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, [1])
    agent = world.agents[1]
    await agent.produce(3)
    former = agent.epoch
    await agent.stop()
    await agent.start()
    assert agent.epoch > former
    assert agent.agent.manager.online(TP) is None  # Its log is there, but nothing is hosted until it is told.
    log = agent.logs.get(TP)
    assert log is not None
    assert log.log_end_offset == 3
    world.controller_epoch = ControllerEpoch(9)

    def requests(epoch: BrokerEpoch) -> list[Any]:
        stop = StopReplicaPartitionState(TOPIC, 0, LeaderEpoch(-2), delete_partition=True)
        metadata = world.metadata()
        return [
            world.leader_and_isr(world.decide(1, [1]), broker_epoch=epoch),
            UpdateMetadataRequest(
                CONTROLLER_ID, world.controller_epoch, epoch, metadata.topic_states, metadata.live_brokers
            ),
            StopReplicaRequest(CONTROLLER_ID, world.controller_epoch, epoch, (stop,)),
        ]

    for request in requests(former):
        answer = await agent.handle(request)
        assert answer.error_code is ErrorCode.STALE_BROKER_EPOCH
    assert agent.agent.manager.online(TP) is None
    assert agent.agent.metadata.snapshot.brokers == {}
    assert agent.logs.get(TP) is log
    assert agent.agent.control.known_controller_epoch == 0
    for request in requests(BrokerEpoch(agent.epoch + 7)):  # The controller may have heard of it first.
        answer = await agent.handle(request)
        assert answer.error_code is ErrorCode.NONE
    assert agent.agent.control.known_controller_epoch == 9
    assert agent.logs.get(TP) is None
    await world.stop()


@pytest.mark.rule("R1.13", "R1.14")
@virtually
async def test_a_change_of_the_isr_outlives_the_session_and_is_sent_under_the_new_epoch() -> None:
    world = AgentWorld(replica_lag_time_max_ms=3000)
    await world.start(1, 2)
    await world.create(1, [1, 2])
    leader = world.agents[1]
    world.controller.top_level = ErrorCode.NOT_CONTROLLER
    await world.agents.pop(2).crash()
    await leader.produce(2)
    await until(lambda: world.controller.requests != [], within_s=10)
    former = leader.epoch
    leader.zookeeper.expire()
    await until(lambda: leader.epoch > former)
    assert leader.offsets() == (0, 2)
    world.controller.requests.clear()
    world.controller.top_level = ErrorCode.NONE
    await until(lambda: leader.partition().isr == (1,))
    assert {request.broker_epoch for request in world.controller.requests} == {leader.epoch}
    assert leader.offsets() == (2, 2)
    await world.stop()
