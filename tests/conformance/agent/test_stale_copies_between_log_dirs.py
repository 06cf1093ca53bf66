"""Copies that became those of another history: they are truncated, or deleted, and never take a log's place."""

import asyncio

import pytest

from broker_agent.log.directory_names import SWAP_MARKER
from cluster.model.broker import LeaderEpoch, Offset, TopicId
from cluster.model.errors import ErrorCode
from simulator.record_batches import encode_batch
from tests.brokers.agents import TP, AgentProcess, AgentWorld, until, virtually
from tests.brokers.log_dirs import (
    content,
    directory_of,
    limit_copies,
    move,
    moved,
    other_than,
    partition_dirs,
    world_of_directories,
)

NONE = ErrorCode.NONE
RATE = 10_000


async def diverged(world: AgentWorld) -> tuple[AgentProcess, AgentProcess]:
    """Two brokers that each have led after they were cut off from one another: as many records, but others."""
    await world.start(1, 2)
    await world.create(1, (1, 2))
    process, other = world.agents[1], world.agents[2]
    for _ in range(5):
        await process.produce(10, acks=-1)
    for ends in (("broker-2:9092", "broker-1:9092"), ("broker-1:9092", "broker-2:9092")):
        world.network.cut(*ends)
    for _ in range(5):
        await process.produce(10)
    world.decide(2, (2,), replicas=(1, 2))
    await world.update_metadata()
    await world.tell(2)
    for _ in range(5):
        await other.produce(10)
    return process, other


@pytest.mark.rule("R5.20", "R11.11", "R11.12")
@virtually
async def test_a_level_copy_that_is_to_be_truncated_is_not_swapped_in_after_a_wait_for_the_throttle() -> None:
    world = world_of_directories()
    process, other = await diverged(world)
    await limit_copies(world, RATE)
    process.disk.latency_s = (0.2, 0.2)
    target = other_than(directory_of(process))
    assert await move(process, target) == [NONE]
    future = process.logs.futures.get(TP)
    assert future is not None
    await until(lambda: f"{future.path}/{SWAP_MARKER}" in process.disk._files)
    # Other copies use up the limit for a long time; meanwhile the log gets other records, as many as before.
    throttle = process.agent.copies.throttle
    paying = asyncio.ensure_future(throttle.pay(60 * RATE))
    await asyncio.sleep(1)
    process.disk.latency_s = (0.0, 0.0)
    assert future.log_end_offset == 100
    world.network.heal_all()
    await world.tell(1)
    await until(lambda: process.offsets() == (100, 100))
    await moved(process, target, within_s=300)
    await paying
    assert content(process.partition().log) == content(other.partition().log)
    assert process.agent.copies.failed == ()
    await world.stop()


@pytest.mark.rule("R11.10", "R11.12")
@virtually
async def test_a_copy_that_has_nothing_left_to_copy_does_not_wait_for_what_others_have_copied() -> None:
    world = world_of_directories()
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    for _ in range(5):
        await process.produce(10)
    await limit_copies(world, RATE)
    process.disk.latency_s = (0.2, 0.2)
    target = other_than(directory_of(process))
    assert await move(process, target) == [NONE]
    future = process.logs.futures.get(TP)
    assert future is not None
    await until(lambda: future.log_end_offset == 50)
    # What this copy owes itself is paid within a second.
    await asyncio.sleep(0.1)
    paying = asyncio.ensure_future(process.agent.copies.throttle.pay(600 * RATE))
    await moved(process, target, within_s=10)
    assert not paying.done()
    paying.cancel()
    await world.stop()


@pytest.mark.rule("R11.6", "R4.3")
@virtually
async def test_a_topic_that_is_created_again_does_not_get_the_copy_of_a_log_that_is_gone() -> None:
    world = world_of_directories()
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    for _ in range(5):
        await process.produce(10)
    source = directory_of(process)
    target = other_than(source)
    await limit_copies(world, 500)
    assert await move(process, target) == [NONE]
    await asyncio.sleep(1)
    await process.crash()
    # The disk with the log itself is replaced by an empty one.
    process.disk.remove_tree(f"{source}/{TP}")
    await asyncio.sleep(7)
    await process.start()
    future = process.logs.futures.get(TP)
    assert future is not None
    assert 0 < future.log_end_offset < 50
    world.decide(1, (1,), is_new=True)
    assert await world.tell(1, topic_id=TopicId("AAAAAAAAAAAAAAAAAAAAAg")) is NONE
    assert (process.logs.futures.all, process.logs.paused) == ({}, set())
    assert sorted(kind for kinds in partition_dirs(process).values() for kind in kinds) == ["delete", "orders-0"]
    log = process.partition().log
    assert log is not None
    for _ in range(10):
        log.append_as_leader(encode_batch(b"x" * 20, 10), LeaderEpoch(1), 1)
    before = content(log)
    await limit_copies(world, None)
    await asyncio.sleep(30)
    assert process.partition().log is log
    assert (content(log), log.log_end_offset) == (before, Offset(100))
    await process.crash()
    await asyncio.sleep(7)
    await process.start()
    assert process.logs.futures.all == {}
    assert content(process.logs.get(TP)) == before
    await world.stop()
