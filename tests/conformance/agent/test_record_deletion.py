"""DeleteRecords on the leader and then on its followers; the response waits for all of them."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from broker_agent.replica_changes import ReplicaOffline
from cluster.model.broker import Offset
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ProducePartitionResult,
)
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, until, virtually

OTHER = TopicPartition(TOPIC, 1)
Outcome = tuple[ErrorCode, int]


async def delete(
    process: AgentProcess, *offsets: int, tps: tuple[TopicPartition, ...] = (TP,), timeout_ms: int = 5000
) -> list[Outcome]:
    """(code, low watermark) for each partition, each with its offset."""
    items = tuple(DeleteRecordsPartition(*tp, Offset(offset)) for tp, offset in zip(tps, offsets, strict=True))
    response: DeleteRecordsResponse = await process.handle(DeleteRecordsRequest(timeout_ms, items))
    return [(result.error_code, result.low_watermark) for result in response.partitions]


def waiting(process: AgentProcess) -> tuple[float, float, float]:
    """(entries in the lists of the purgatory, operations with a running timer, partitions that were too late)."""
    gauges = [
        process.metrics.gauge("kafka.server", "DelayedOperationPurgatory", name, delayedOperation="DeleteRecords")
        for name in ("PurgatorySize", "NumDelayedOperations")
    ]
    expired = process.metrics.meter("kafka.server", "DelayedDeleteRecordsMetrics", "ExpiresPerSec")
    return gauges[0].value, gauges[1].value, expired.count


def start_of(process: AgentProcess) -> int:
    log = process.partition().log
    assert log is not None
    return log.log_start_offset


async def one(**settings: object) -> tuple[AgentWorld, AgentProcess]:
    """An agent alone in the ISR, with ten records."""
    world = AgentWorld(**settings)
    await world.start(1)
    await world.create(1, (1,))
    assert (await world.agents[1].produce(10)).error_code is ErrorCode.NONE
    return world, world.agents[1]


async def two(**settings: object) -> tuple[AgentWorld, AgentProcess, AgentProcess]:
    """A leader and its follower, with ten records on both."""
    world = AgentWorld(**settings)
    await world.start(1, 2)
    await world.create(1, (1, 2))
    produced: ProducePartitionResult = await world.agents[1].produce(10, acks=-1)
    assert produced.error_code is ErrorCode.NONE
    await until(lambda: world.agents[2].offsets() == (10, 10))
    return world, world.agents[1], world.agents[2]


async def led_with_a_played_follower() -> tuple[AgentWorld, AgentProcess]:
    """Agent 1 leads ten committed records; broker 2 is alive, and fetches when the test says so."""
    world = AgentWorld()
    await world.start(1)
    leader = world.agents[1]
    world.decide(1, (1, 2))
    world.agents[2] = leader
    await world.update_metadata()
    del world.agents[2]
    await world.tell(1)
    await leader.produce(10)
    await leader.fetch(10, replica=2, epoch=0)
    assert leader.offsets() == (10, 10)
    return world, leader


@pytest.mark.rule("R7.15")
@pytest.mark.parametrize(
    ("offset", "code", "low_watermark"),
    [
        (4, ErrorCode.NONE, 4),
        (0, ErrorCode.NONE, 0),
        (10, ErrorCode.NONE, 10),
        (-1, ErrorCode.NONE, 10),
        (11, ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        (-2, ErrorCode.OFFSET_OUT_OF_RANGE, -1),
    ],
)
@virtually
async def test_records_go_up_to_an_offset_or_to_the_high_watermark_and_not_beyond(
    offset: int, code: ErrorCode, low_watermark: int
) -> None:
    world, leader = await one()
    assert await delete(leader, offset) == [(code, low_watermark)]
    assert start_of(leader) == max(0, low_watermark)
    assert leader.offsets() == (10, 10)
    await world.stop()


@pytest.mark.rule("R7.15", "R10.20")
@virtually
async def test_a_lower_offset_than_the_last_one_deletes_nothing_and_is_no_error() -> None:
    world, leader = await one()
    assert await delete(leader, 6) == [(ErrorCode.NONE, 6)]
    assert await delete(leader, 3) == [(ErrorCode.NONE, 6)]
    assert start_of(leader) == 6
    await world.stop()


@pytest.mark.rule("R7.15")
@virtually
async def test_nothing_above_the_high_watermark_can_be_deleted() -> None:
    world, leader = await led_with_a_played_follower()
    await leader.produce(5)
    assert leader.offsets() == (10, 15)
    assert await delete(leader, 12) == [(ErrorCode.OFFSET_OUT_OF_RANGE, -1)]
    deleting = asyncio.ensure_future(delete(leader, -1))
    await asyncio.sleep(0.1)
    assert (start_of(leader), deleting.done()) == (10, False)
    await leader.fetch(15, replica=2, epoch=0, log_start=10)
    assert await deleting == [(ErrorCode.NONE, 10)]  # What was the high watermark when it was asked for.
    await world.stop()


@pytest.mark.rule("R7.15", "R2.5")
@virtually
async def test_only_the_leader_deletes_and_each_partition_has_its_own_answer() -> None:
    world, leader, follower = await two()
    assert await delete(follower, 3) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    world.decide(2, (2,), tp=OTHER)
    await world.update_metadata()
    asked = TP, OTHER, TopicPartition("nowhere", 0), TopicPartition("__consumer_offsets", 0)
    assert await delete(leader, 3, 3, 3, 3, tps=asked) == [
        (ErrorCode.NONE, 3),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, -1),
    ]
    await world.stop()


@pytest.mark.rule("R7.15")
@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("delete", ErrorCode.NONE),
        ("compact,delete", ErrorCode.NONE),
        ("compact", ErrorCode.POLICY_VIOLATION),
    ],
)
@virtually
async def test_a_topic_that_keeps_its_records_loses_none(policy: str, code: ErrorCode) -> None:
    world, leader = await one()
    log = leader.partition().log
    assert log is not None
    log.config = replace(log.config, cleanup_policy=policy)
    ((found, _),) = await delete(leader, 3)
    assert (found, start_of(leader)) == (code, 3 if code is ErrorCode.NONE else 0)
    if code is not ErrorCode.NONE:
        ((found, _),) = await delete(leader, 11)  # The policy is looked at before the offset.
        assert found is code
    await world.stop()


@pytest.mark.rule("R7.15", "R5.24", "R10.19")
@virtually
async def test_the_answer_comes_when_the_follower_has_raised_its_start_too() -> None:
    world, leader, follower = await two()
    deleting = asyncio.ensure_future(delete(leader, 7))
    await asyncio.sleep(0.001)
    assert (start_of(leader), start_of(follower)) == (7, 0)
    assert (waiting(leader), deleting.done()) == ((1, 1, 0), False)
    assert await deleting == [(ErrorCode.NONE, 7)]
    assert start_of(follower) == 7
    assert waiting(leader) == (0, 0, 0)
    for process in (leader, follower):
        log = process.partition().log
        assert log is not None
        assert log.epoch_at_offset(Offset(7)) == 0
    await world.stop()


@pytest.mark.rule("R7.15", "R13.5", "R13.6")
@virtually
async def test_a_follower_that_hangs_makes_it_time_out_and_the_leader_has_deleted_all_the_same() -> None:
    world, leader = await led_with_a_played_follower()
    began = asyncio.get_running_loop().time()
    assert await delete(leader, 7, timeout_ms=800) == [(ErrorCode.REQUEST_TIMED_OUT, 0)]
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.8)
    assert (start_of(leader), waiting(leader)) == (7, (0, 0, 1))
    assert await delete(leader, 7, timeout_ms=0) == [(ErrorCode.REQUEST_TIMED_OUT, 0)]
    await leader.fetch(10, replica=2, epoch=0, log_start=7)
    assert await delete(leader, 7, timeout_ms=0) == [(ErrorCode.NONE, 7)]
    await world.stop()


@pytest.mark.rule("R7.15")
@virtually
async def test_a_follower_that_has_not_reported_its_start_is_waited_for_and_a_dead_one_is_not() -> None:
    world, leader = await led_with_a_played_follower()
    world.decide(1, (1,))
    await world.tell(1)  # A new epoch keeps what is known of the follower; a new replica is unknown.
    world.decide(1, (1,), replicas=(1, 2, 3))
    world.agents.update({2: leader, 3: leader})
    await world.update_metadata(1, 2, 3, to=[1])
    await world.tell(1)
    assert await delete(leader, 5, timeout_ms=500) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]
    deleting = asyncio.ensure_future(delete(leader, 5))
    await leader.fetch(10, replica=2, epoch=2, log_start=5)
    await asyncio.sleep(0.1)
    assert not deleting.done()
    await world.update_metadata(1, 2, to=[1])
    assert await deleting == [(ErrorCode.NONE, 5)]
    await world.update_metadata(1, to=[1])
    assert await delete(leader, 6) == [(ErrorCode.NONE, 6)]
    del world.agents[2], world.agents[3]
    await world.stop()


@pytest.mark.rule("R13.8", "R13.9", "R6.12")
@virtually
async def test_a_fetch_that_raises_the_low_watermark_wakes_who_waits_in_a_purgatory_of_its_own() -> None:
    world, leader = await led_with_a_played_follower()
    three, eight = (asyncio.ensure_future(delete(leader, offset)) for offset in (3, 8))
    await asyncio.sleep(0.01)
    assert waiting(leader) == (2, 2, 0)
    await leader.fetch(10, replica=2, epoch=0, log_start=3)
    assert await three == [(ErrorCode.NONE, 3)]
    assert (waiting(leader), eight.done()) == ((1, 1, 0), False)
    await leader.fetch(10, replica=2, epoch=0, log_start=8)
    assert await eight == [(ErrorCode.NONE, 8)]
    await world.stop()


@pytest.mark.rule("R13.9")
@virtually
async def test_whoever_waits_for_a_leader_that_gives_up_or_loses_its_directory_is_answered_at_once() -> None:
    async def change_leader(world: AgentWorld) -> None:
        world.decide(2, (2,))
        world.agents[2] = world.agents[1]
        await world.update_metadata(1, 2, to=[1])
        del world.agents[2]
        await world.tell(1)

    async def stop_replica(world: AgentWorld) -> None:
        await world.stop_replica(1, delete=True, epoch=-2)

    async def fail_directory(world: AgentWorld) -> None:
        world.agents[1].agent.manager.commit(ReplicaOffline(TP))

    changes: list[tuple[Any, ErrorCode]] = [
        (change_leader, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (stop_replica, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (fail_directory, ErrorCode.KAFKA_STORAGE_ERROR),
    ]
    for change, code in changes:
        world, leader = await led_with_a_played_follower()
        deleting = asyncio.ensure_future(delete(leader, 7, timeout_ms=60_000))
        await asyncio.sleep(0.01)
        await change(world)
        await asyncio.sleep(0.01)
        assert deleting.done(), change
        assert deleting.result() == [(code, -1)]
        await world.stop()


@pytest.mark.rule("R13.10")
@virtually
async def test_the_end_of_the_agent_ends_the_waiting() -> None:
    world, leader = await led_with_a_played_follower()
    deleting = asyncio.ensure_future(delete(leader, 7, timeout_ms=60_000))
    await asyncio.sleep(0.01)
    await world.stop()
    assert deleting.done()
    assert deleting.result() == [(ErrorCode.REQUEST_TIMED_OUT, 0)]


@pytest.mark.rule("R7.15", "R6.8")
@virtually
async def test_who_reads_below_the_start_is_out_of_range_and_above_it_nothing_changed() -> None:
    world, leader = await one()
    await leader.produce(10)
    assert await delete(leader, 12) == [(ErrorCode.NONE, 12)]
    below, inside = await leader.fetch(11), await leader.fetch(12)
    assert (below.error_code, below.log_start_offset, below.records) == (ErrorCode.OFFSET_OUT_OF_RANGE, 12, b"")
    assert (inside.error_code, inside.log_start_offset, len(inside.records) > 0) == (ErrorCode.NONE, 12, True)
    await world.stop()


@pytest.mark.rule("R7.15", "R9.1", "R10.17")
@virtually
async def test_a_restart_keeps_the_start_also_within_a_segment_and_after_a_crash_what_was_checkpointed() -> None:
    world, leader = await one(log_segment_bytes=1050, log_retention_check_interval_ms=10_000)
    for _ in range(9):
        await leader.produce(10)
    assert await delete(leader, 45) == [(ErrorCode.NONE, 45)]
    await world.stop()
    await leader.start()
    assert await again(world, leader) == 45
    assert await delete(leader, 75) == [(ErrorCode.NONE, 75)]
    await asyncio.sleep(65)  # The checkpoint is written, and the segments below the start are deleted.
    log = leader.logs.get(TP)
    assert log is not None
    assert log.segments.first.base_offset == 40
    await leader.crash()
    await asyncio.sleep(7)  # Its session ends.
    await leader.start()
    assert await again(world, leader) == 75
    assert (await leader.fetch(74)).error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await leader.fetch(75)).error_code is ErrorCode.NONE
    await world.stop()


async def again(world: AgentWorld, process: AgentProcess) -> int:
    """Lead again after a restart; the log start found."""
    await world.update_metadata()
    world.decide(process.id, (process.id,))
    await world.tell(process.id)
    return start_of(process)


@pytest.mark.rule("R7.15", "R5.21")
@virtually
async def test_a_follower_that_was_away_during_the_deletion_follows_when_it_returns() -> None:
    world, leader, follower = await two()
    await follower.crash()
    del world.agents[2]
    world.decide(1, (1,))
    await world.update_metadata(1)
    await world.tell(1)
    assert await delete(leader, 8) == [(ErrorCode.NONE, 8)]
    await leader.produce(5)
    await asyncio.sleep(7)  # Its session ends.
    await follower.start()
    world.agents[2] = follower
    world.decide(1, (1,))
    await world.update_metadata()
    await world.tell(1, 2)
    await until(lambda: follower.offsets() == (15, 15))
    await until(lambda: start_of(follower) == 8)
    assert await delete(leader, -1) == [(ErrorCode.NONE, 15)]
    assert (start_of(follower), (await leader.produce(1, acks=-1)).base_offset) == (15, 15)
    await world.stop()


@virtually
async def test_a_deletion_can_be_checked_without_being_made() -> None:
    world, leader = await led_with_a_played_follower()
    items = tuple(DeleteRecordsPartition(TOPIC, 0, Offset(offset)) for offset in (4, 11))
    response: DeleteRecordsResponse = await leader.handle(DeleteRecordsRequest(5000, items, validate_only=True))
    fine, refused = response.partitions
    assert (fine.error_code, fine.low_watermark) == (ErrorCode.NONE, 0)
    assert refused.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert refused.error_message == "offset 11 is neither -1 nor within 0 and the high watermark 10"
    assert start_of(leader) == 0
    await world.stop()
