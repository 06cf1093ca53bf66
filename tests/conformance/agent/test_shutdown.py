"""Controlled shutdown of an agent: requests to the controller, what it still serves, and the order of steps."""

import asyncio
from itertools import pairwise

import pytest

from broker_agent.agent import NOT_RUNNING, PENDING_CONTROLLED_SHUTDOWN, RUNNING
from broker_agent.log.checkpoints import CLEAN_MARKER
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerId, Endpoint
from cluster.model.errors import ErrorCode
from cluster.requests.agents import ControlledShutdownRequest, ControlledShutdownResponse, RemainingPartition
from cluster.requests.elections import ShutdownRequest, ShutdownResponse
from cluster.znodes.controller import encode_controller
from cluster.znodes.paths import CONTROLLER, broker_path, controller_registration_path
from cluster.znodes.registrations import encode_controller_registration
from cluster.zookeeper.port import Create, SetData
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.brokers.agents import AgentProcess, AgentWorld, PlayedController, finished, until, virtually

SOME_REMAIN = ControlledShutdownResponse(ErrorCode.NONE, (RemainingPartition("t", 0),))


def state_of(process: AgentProcess) -> float:
    return process.metrics.gauge("kafka.server", "KafkaServer", "BrokerState").value


async def start(world: AgentWorld, *brokers: int) -> None:
    """Start these agents, and let them find the controller."""
    await world.start(*brokers)
    for broker in brokers:
        await until(lambda: world.agents[broker].agent.finder.endpoint is not None)  # noqa: B023 (awaited at once)


async def leave(process: AgentProcess) -> float:
    """Virtual seconds that it took."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    await finished(process.agent.leave(), within_s=1000)
    return loop.time() - started


@pytest.mark.rule("R12.1", "CS-16")
@virtually
async def test_the_controller_learns_who_shuts_down_and_one_good_answer_is_enough() -> None:
    world = AgentWorld()
    await start(world, 1)
    epoch = world.agents[1].epoch
    assert await leave(world.agents[1]) < 1
    assert [request for _, request in world.controller.shutdown_requests] == [
        ControlledShutdownRequest(BrokerId(1), epoch)
    ]
    await world.stop()
    assert state_of(world.agents[1]) == NOT_RUNNING


@pytest.mark.rule("R12.1", "CS-16")
@pytest.mark.parametrize(
    "refusal",
    [
        SOME_REMAIN,
        ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH),
        ControlledShutdownResponse(ErrorCode.NOT_CONTROLLER),
        ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH),
        ControlledShutdownResponse(ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
@virtually
async def test_a_refusal_is_answered_by_asking_again_after_a_pause(refusal: ControlledShutdownResponse) -> None:
    world = AgentWorld(controlled_shutdown_retry_backoff_ms=2000)
    world.controller.shutdown_answers = [refusal, refusal]
    await start(world, 1)
    assert 4 <= await leave(world.agents[1]) < 4.1
    times = [time for time, _ in world.controller.shutdown_requests]
    assert [round(later - earlier) for earlier, later in pairwise(times)] == [2, 2]
    await world.stop()


@pytest.mark.rule("R12.1", "CS-16")
@virtually
async def test_after_the_last_attempt_the_agent_ends_all_the_same_and_its_logs_are_closed_cleanly() -> None:
    world = AgentWorld(controlled_shutdown_max_retries=2)
    world.controller.shutdown_answers = [SOME_REMAIN] * 5
    await start(world, 1)
    await world.create(1, [1])
    await world.agents[1].produce(3)
    assert 5 <= await leave(world.agents[1]) < 5.1
    assert len(world.controller.shutdown_requests) == 2
    await world.stop()
    assert state_of(world.agents[1]) == NOT_RUNNING
    assert world.agents[1].disk.read_file(f"/data/{CLEAN_MARKER}") is not None


@pytest.mark.rule("R12.1", "R12.5")
@virtually
async def test_a_controller_that_does_not_answer_costs_one_timeout_per_attempt() -> None:
    world = AgentWorld(controller_socket_timeout_ms=3000, controlled_shutdown_retry_backoff_ms=1000)
    world.controller.shutdown_answers = [None, None, None]
    await start(world, 1)
    assert 11 - 1e-6 <= await leave(world.agents[1]) < 11.1
    await world.stop()


@pytest.mark.rule("R12.1")
@virtually
async def test_the_controller_is_found_anew_for_each_attempt() -> None:
    world = AgentWorld()
    world.controller.shutdown_answers = [ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH)]
    await start(world, 1)
    successor = PlayedController(world)
    endpoints = Endpoint("controller-2", 9000), Endpoint("controller-2", 9001, "CONTROL")
    world.network.attach(endpoints[1], successor)
    leaving = asyncio.ensure_future(leave(world.agents[1]))
    await until(lambda: len(world.controller.shutdown_requests) == 1)
    client = SimulatedZooKeeperClient(world.zookeeper)
    client.listen(lambda _: None)
    await client.start_session()
    registration = encode_controller_registration(ControllerId(1002), endpoints, 0)
    await client.multi(
        [
            Create(controller_registration_path(ControllerId(1002)), registration, ephemeral=True),
            SetData(CONTROLLER, encode_controller(ControllerId(1002), 0)),
        ]
    )
    assert 5 <= await finished(leaving) < 5.1
    assert (len(world.controller.shutdown_requests), len(successor.shutdown_requests)) == (1, 1)
    await world.stop()


@pytest.mark.rule("R12.1", "R12.5")
@virtually
async def test_without_zookeeper_the_end_comes_too() -> None:
    world = AgentWorld()
    await start(world, 1)
    world.zookeeper.shut_down()
    await asyncio.sleep(1)
    assert await leave(world.agents[1]) < 120
    await finished(world.stop(), within_s=120)
    assert state_of(world.agents[1]) == NOT_RUNNING
    assert world.agents[1].disk.read_file(f"/data/{CLEAN_MARKER}") is not None


@pytest.mark.rule("R12.1")
@pytest.mark.parametrize(
    "settings", [{"controlled_shutdown_enable": False}, {"controlled_shutdown_max_retries": 0}], ids=str
)
@virtually
async def test_nobody_is_asked_where_that_is_switched_off(settings: dict[str, object]) -> None:
    world = AgentWorld(**settings)
    await start(world, 1)
    assert await leave(world.agents[1]) == 0
    assert world.controller.shutdown_requests == []
    await world.stop()


@pytest.mark.rule("R12.2", "R12.4", "R3.2")
@virtually
async def test_an_agent_that_leaves_serves_and_obeys_but_fetches_from_no_new_leader() -> None:
    world = AgentWorld()
    world.controller.shutdown_answers = [SOME_REMAIN]
    await start(world, 1, 2)
    await world.create(1, [1, 2])
    leaving = asyncio.ensure_future(leave(world.agents[1]))
    await until(lambda: state_of(world.agents[1]) == PENDING_CONTROLLED_SHUTDOWN)
    assert state_of(world.agents[2]) == RUNNING
    assert (await world.agents[1].produce(2, acks=-1)).error_code is ErrorCode.NONE
    world.decide(2, [2], replicas=[1, 2])
    assert await world.tell(2, 1) is ErrorCode.NONE
    assert (await world.agents[1].produce(1)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await world.agents[2].produce(4)
    await asyncio.sleep(2)
    # What it would fetch now it would only fetch to be let into the ISR again.
    assert world.agents[1].offsets()[1] == 2
    answer = await world.stop_replica(1, epoch=1)
    assert answer.error_code is ErrorCode.NONE
    await finished(leaving)
    await world.stop()


@pytest.mark.rule("R12.5")
@virtually
async def test_a_second_leave_does_nothing() -> None:
    world = AgentWorld()
    world.controller.shutdown_answers = [SOME_REMAIN]
    await start(world, 1)
    first = asyncio.ensure_future(leave(world.agents[1]))
    await until(lambda: state_of(world.agents[1]) == PENDING_CONTROLLED_SHUTDOWN)
    assert await leave(world.agents[1]) == 0
    assert 5 <= await finished(first) < 5.1
    await world.stop()
    assert await leave(world.agents[1]) == 0
    assert len(world.controller.shutdown_requests) == 2


@pytest.mark.rule("R12.1", "FN-10")
@virtually
async def test_an_attempt_after_a_lost_session_carries_the_new_epoch() -> None:
    world = AgentWorld()
    world.controller.shutdown_answers = [ControlledShutdownResponse(ErrorCode.STALE_BROKER_EPOCH)]
    await start(world, 1)
    agent = world.agents[1]
    leaving = asyncio.ensure_future(leave(agent))
    await until(lambda: len(world.controller.shutdown_requests) == 1)
    znode = world.zookeeper.tree.get(broker_path(BrokerId(1)))
    assert znode is not None
    session = next(s for s in world.zookeeper._sessions.values() if s.id == znode.stat.ephemeral_owner)
    world.zookeeper.end_session(session)
    await finished(leaving)
    epochs = [request.broker_epoch for _, request in world.controller.shutdown_requests]
    assert epochs[0] < epochs[1] == agent.epoch
    await world.stop()


@pytest.mark.rule("R12.3", "R12.5", "R9.21")
@virtually
async def test_a_step_that_fails_keeps_no_later_one_from_running() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, [1])
    await world.agents[1].produce(3)
    agent = world.agents[1]
    agent.disk.break_directory("/data")
    await agent.stop()
    agent.disk.mend_directory("/data")
    # What could not be closed cleanly is not called clean, and the registration is gone all the same.
    assert agent.disk.read_file(f"/data/{CLEAN_MARKER}") is None
    assert world.zookeeper.tree.exists(broker_path(BrokerId(1))) is None
    assert state_of(agent) == NOT_RUNNING


@virtually
async def test_a_request_to_shut_down_begins_what_a_signal_begins() -> None:
    world = AgentWorld()
    await start(world, 1)
    agent = world.agents[1]
    for request, code in (
        (ShutdownRequest(BrokerId(2)), ErrorCode.INVALID_REQUEST),
        (ShutdownRequest(BrokerId(1), BrokerEpoch(agent.epoch - 1)), ErrorCode.STALE_BROKER_EPOCH),
        (ShutdownRequest(BrokerId(1), BrokerEpoch(agent.epoch + 1)), ErrorCode.STALE_BROKER_EPOCH),
    ):
        assert await agent.handle(request) == ShutdownResponse(code)
        assert not agent.stop_requested.is_set()
    assert await agent.handle(ShutdownRequest(BrokerId(1), agent.epoch)) == ShutdownResponse(ErrorCode.NONE)
    assert agent.stop_requested.is_set()
    assert await agent.handle(ShutdownRequest(BrokerId(1))) == ShutdownResponse(ErrorCode.NONE)
    await world.stop()
