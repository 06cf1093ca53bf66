"""Control requests whose sender disconnects, interrupted long polls, and requests for a failed log."""

import asyncio

import pytest

from broker_agent.replication.log_reconciliation import LeaderEndPoint
from broker_agent.replication.replica_fetchers import FetchStart
from cluster.model.broker import BrokerId, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import FetchPartition, FetchRequest, OffsetForLeaderPartition, OffsetsForLeaderEpochRequest
from tests.brokers.agents import TOPIC_ID, TP, AgentWorld, until, virtually


@pytest.mark.rule("R2.17", "R3.2")
@virtually
async def test_a_role_change_is_carried_to_its_end_when_the_controller_hangs_up() -> None:
    world = AgentWorld(replica_fetch_backoff_ms=50)
    await world.start(1, 2)
    state = world.decide(1, (1, 2))
    await world.update_metadata()
    await world.tell(1)
    order = asyncio.ensure_future(world.agents[2].handle(world.leader_and_isr(state)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    order.cancel()
    await until(lambda: world.agents[2].agent.fetchers.state(TP) is not None)
    await world.agents[1].produce(3)
    await until(lambda: world.agents[2].offsets()[1] == 3)
    await world.stop()


@pytest.mark.rule("R5.8")
@virtually
async def test_a_long_poll_may_be_interrupted_again_while_it_is_on_its_way_to_an_end() -> None:
    world = AgentWorld(replica_fetch_backoff_ms=50)
    await world.start(1, 2)
    await world.create(1, (1, 2))
    await asyncio.sleep(0.2)
    leader = LeaderEndPoint(BrokerId(1), world.agents[1].endpoint)
    for number in range(1, 12):
        start = FetchStart(TOPIC_ID, leader, LeaderEpoch(0), Offset(0), None)
        world.agents[2].agent.fetchers.add({TopicPartition(TP.topic, number): start})
        await asyncio.sleep(0)
    await world.agents[1].produce(3)
    await until(lambda: world.agents[2].offsets()[1] == 3)
    await world.stop()


@pytest.mark.rule("R11.5", "R13.9")
@virtually
async def test_a_waiting_fetch_whose_log_has_failed_is_answered_and_disturbs_nobody() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, (1,))
    manager = world.agents[1].agent.manager
    item = FetchPartition(TP.topic, TOPIC_ID, TP.partition, Offset(0), 1 << 20, last_fetched_epoch=LeaderEpoch(0))
    waiting = asyncio.ensure_future(world.agents[1].handle(FetchRequest(BrokerId(-1), (item,), 20_000, 1, 1 << 20)))
    await asyncio.sleep(0.1)
    world.agents[1].disk.break_directory("/data")
    failing = await world.agents[1].produce(1)
    assert failing.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    manager.complete_delayed(TP)
    response = await asyncio.wait_for(waiting, 1)
    assert response.partitions[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.rule("R6.20", "R11.1")
@virtually
async def test_a_question_about_epochs_of_a_failed_log_has_an_answer_of_its_own() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, (1,))
    log = world.agents[1].partition().log
    assert log is not None
    world.agents[1].disk.break_directory("/data")
    world.agents[1].logs.directories["/data"].failure = OSError("broken")
    item = OffsetForLeaderPartition(TP.topic, TP.partition, LeaderEpoch(0), LeaderEpoch(0))
    response = await world.agents[1].handle(OffsetsForLeaderEpochRequest(BrokerId(2), (item,)))
    assert response.partitions[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR
