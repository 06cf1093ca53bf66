"""Producer ids for clients: each is given once, from blocks of the controller."""

import asyncio

import pytest

from cluster.model.errors import ErrorCode
from cluster.requests.agents import AllocateProducerIdsRequest
from cluster.requests.data import InitProducerIdRequest, InitProducerIdResponse
from cluster.requests.recovery import DescribeReplicasRequest
from cluster.znodes.paths import CONTROLLER
from cluster.zookeeper.port import Delete
from tests.brokers.agents import AgentProcess, AgentWorld, connect, until, virtually
from tests.brokers.producing import ProducerIdBlocks

E = ErrorCode


async def init(agent: AgentProcess) -> InitProducerIdResponse:
    answer = await agent.handle(InitProducerIdRequest())
    assert isinstance(answer, InitProducerIdResponse)
    return answer


@pytest.mark.rule("R7.20")
@virtually
async def test_ids_are_given_once_and_a_block_at_a_time_is_asked_for() -> None:
    world = AgentWorld()
    blocks = ProducerIdBlocks(world)
    await world.start(1, 2)
    one, two = world.agents[1], world.agents[2]
    assert await init(one) == InitProducerIdResponse(E.NONE, 0, 0)
    assert await init(two) == InitProducerIdResponse(E.NONE, 1000, 0)
    assert blocks.requests[0] == AllocateProducerIdsRequest(one.id, one.epoch)
    given = [(await init(one)).producer_id for _ in range(1000)]
    assert given == [*range(1, 1000), 2000]
    assert len(blocks.requests) == 3
    await world.stop()


@pytest.mark.rule("R7.20")
@virtually
async def test_many_who_ask_at_once_share_one_block() -> None:
    world = AgentWorld()
    blocks = ProducerIdBlocks(world)
    await world.start(1)
    answers = await asyncio.gather(*(init(world.agents[1]) for _ in range(1500)))
    assert sorted(answer.producer_id for answer in answers) == list(range(1500))
    assert len(blocks.requests) == 2
    await world.stop()


@pytest.mark.rule("R7.20")
@virtually
async def test_what_a_stopped_broker_had_left_is_given_to_nobody() -> None:
    world = AgentWorld()
    ProducerIdBlocks(world)
    await world.start(1)
    assert (await init(world.agents[1])).producer_id == 0
    await world.agents[1].crash()
    await asyncio.sleep(10)
    await world.agents[1].start()
    assert (await init(world.agents[1])).producer_id == 1000
    await world.stop()


@pytest.mark.rule("R7.20")
@virtually
async def test_a_refused_allocation_is_asked_for_again_until_it_is_granted() -> None:
    world = AgentWorld()
    blocks = ProducerIdBlocks(world)
    await world.start(1)
    blocks.code = E.STALE_BROKER_EPOCH
    asked = asyncio.create_task(init(world.agents[1]))
    await until(lambda: len(blocks.requests) > 3)
    blocks.code = E.NONE
    assert (await asked).error_code is E.NONE
    await world.stop()


@pytest.mark.rule("R7.20")
@virtually
async def test_without_a_controller_the_client_is_asked_to_come_again() -> None:
    world = AgentWorld(request_timeout_ms=2_000)
    blocks = ProducerIdBlocks(world)
    await world.start(1)
    tool = await connect(world.zookeeper)
    await tool.multi([Delete(CONTROLLER)])
    agent = world.agents[1]
    await until(lambda: agent.agent.finder.control_endpoint is None)
    began = asyncio.get_running_loop().time()
    assert await init(agent) == InitProducerIdResponse(E.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert asyncio.get_running_loop().time() - began < 3
    assert blocks.requests == []
    await world.stop()


@pytest.mark.rule("R7.20")
@virtually
async def test_a_reserve_lets_producers_start_while_no_controller_is_active() -> None:
    world = AgentWorld()
    blocks = ProducerIdBlocks(world)
    await world.start(1)
    agent = world.agents[1]
    keeping = agent.tasks.start(agent.node.producer_ids.keep_reserve(), name="producer ids")
    await until(lambda: len(blocks.requests) == 1)
    blocks.code = E.UNKNOWN_SERVER_ERROR
    assert [(await init(agent)).producer_id for _ in range(950)] == list(range(950))
    await until(lambda: len(blocks.requests) > 2)
    blocks.code = E.NONE
    granted = len(blocks.requests) + 1
    await until(lambda: len(blocks.requests) == granted)
    assert [(await init(agent)).producer_id for _ in range(51)] == [*range(950, 1000), 1000 * (granted - 1)]
    keeping.cancel()
    await world.stop()


@pytest.mark.rule("R7.20")
@virtually
async def test_a_recovery_learns_of_ids_that_are_in_no_log_yet() -> None:
    world = AgentWorld()
    ProducerIdBlocks(world)
    await world.start(1)
    agent = world.agents[1]
    assert (await agent.handle(DescribeReplicasRequest())).producer_id == -1
    await init(agent)
    assert (await agent.handle(DescribeReplicasRequest())).producer_id == 999
    await world.stop()
