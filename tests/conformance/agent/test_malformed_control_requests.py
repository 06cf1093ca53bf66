"""Control requests that succeed only for some partitions, and their effect."""

import asyncio
from typing import Any

import pytest

from broker_agent.log.partition_log import PartitionLog
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, until, virtually
from tests.brokers.followers import data, follow

ZERO, ONE, TWO = (TopicPartition(TOPIC, number) for number in range(3))


def break_creation_of(agent: AgentProcess, broken: TopicPartition) -> None:
    """Let the creation of one log fail as only a bug could, once."""
    get_or_create, failed = agent.logs.get_or_create, False

    async def create(tp: TopicPartition, **options: Any) -> PartitionLog:
        nonlocal failed
        if tp == broken and not failed:
            failed = True
            raise RuntimeError("a bug")
        return await get_or_create(tp, **options)

    agent.logs.get_or_create = create  # type: ignore[method-assign, assignment]


@pytest.mark.rule("R2.17", "R3.1")
@virtually
async def test_an_unexpected_error_is_everybodys_answer_but_what_was_switched_stays_switched() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    world.decide(1, [1], tp=ZERO)
    world.decide(1, [1], tp=ONE)
    world.decide(2, [2, 1], tp=TWO)
    await world.update_metadata()
    agent = world.agents[1]
    break_creation_of(agent, ZERO)
    response = await world.tell_together(1, ZERO, ONE, TWO)
    assert response.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert [error.error_code for error in response.partition_errors] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 3
    assert [agent.partition(tp).leader_epoch for tp in (ZERO, ONE, TWO)] == [-1, 0, -1]
    assert (await agent.produce(tp=ONE)).error_code is ErrorCode.NONE
    response = await world.tell_together(1, ZERO, ONE, TWO)
    assert [error.error_code for error in response.partition_errors] == [
        ErrorCode.NONE,
        ErrorCode.STALE_CONTROLLER_EPOCH,
        ErrorCode.NONE,
    ]
    assert (await agent.produce(tp=ZERO)).error_code is ErrorCode.NONE
    await world.stop()


@pytest.mark.rule("R2.17", "R3.2")
@virtually
async def test_followers_that_were_switched_before_an_unexpected_error_do_follow() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    for tp in (ZERO, ONE):
        world.decide(2, [2, 1], tp=tp)
    await world.update_metadata()
    agent = world.agents[1]
    break_creation_of(agent, ZERO)
    response = await world.tell_together(1, ZERO, ONE)
    assert [error.error_code for error in response.partition_errors] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    await world.tell_together(2, ZERO, ONE)
    await world.agents[2].produce(3, tp=ONE)
    await until(lambda: agent.offsets(ONE) == (3, 3))
    await world.tell_together(1, ZERO, ONE)
    await world.agents[2].produce(2, tp=ZERO)
    await until(lambda: agent.offsets(ZERO) == (2, 2))
    await world.stop()


@pytest.mark.rule("R3.2", "R0.5", "R5.22")
@virtually
async def test_fetching_begins_at_the_end_that_the_log_has_when_the_old_fetcher_is_gone() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    leader.answers.put_nowait(data(0, 5))
    await until(lambda: len(leader.fetches) == 2)
    follower.disk.latency_s = (3, 3)  # The other log takes its time; meanwhile the old leader's answer arrives.
    world.decide(2, [2], replicas=[1, 2])
    world.decide(2, [2], replicas=[1, 2], tp=ONE)
    order = asyncio.ensure_future(world.tell_together(1, TP, ONE))
    await asyncio.sleep(1)
    leader.answers.put_nowait(data(5, 2))
    await order
    follower.disk.latency_s = (0, 0)
    await until(lambda: len(leader.fetches) == 3)
    [item] = [item for item in leader.fetches[2].partitions if item.partition == 0]
    assert (item.fetch_offset, item.current_leader_epoch) == (follower.offsets()[1], 1)
    leader.answers.put_nowait(data(item.fetch_offset, 2, epoch=1))
    await until(lambda: follower.offsets()[1] == item.fetch_offset + 2)
    assert follower.agent.fetchers.failed == ()
    await world.stop()


@pytest.mark.rule("R3.2", "R13.9", "R7.14")
@virtually
async def test_who_waits_for_a_leader_that_becomes_a_follower_is_answered_before_anything_is_cut() -> None:
    world = AgentWorld()
    await world.start(1, 2, 3)
    await world.create(1, [1, 2, 3])
    leader = world.agents[1]
    for broker in (2, 3):
        world.network.cut("broker-1:9092", f"broker-{broker}:9092")
        world.network.cut(f"broker-{broker}:9092", "broker-1:9092")
    produced = asyncio.ensure_future(leader.produce(5, acks=-1, timeout_ms=60_000))
    fetched = asyncio.ensure_future(leader.fetch(0, max_wait_ms=60_000))
    await asyncio.sleep(2)
    assert not produced.done()
    assert not fetched.done()
    world.decide(2, [2, 3])
    await world.tell(2, 3, 1)
    await asyncio.sleep(0)
    assert leader.offsets() == (0, 5)
    assert (await asyncio.wait_for(produced, 0.01)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await asyncio.wait_for(fetched, 0.01)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.network.heal_all()
    await until(lambda: leader.offsets() == (0, 0), within_s=60)
    await world.stop()
