"""With `flush.messages=1` nothing that a power failure could lose is acknowledged, committed or read."""

import asyncio

import pytest

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from tests.brokers.agents import TP, AgentProcess, AgentWorld, until, virtually

RULES = pytest.mark.rule("R10.4", "R10.15", "R7.10")


def durable_end(world: AgentWorld, broker: int) -> int:
    log = world.agents[broker].logs.get(TP)
    assert log is not None
    return log.recovery_point


async def started(**settings: object) -> AgentWorld:
    world = AgentWorld(replica_fetch_backoff_ms=50, log_flush_interval_messages=1, **settings)
    await world.start(1, 2)
    return world


@RULES
@pytest.mark.parametrize("acks", [1, -1])
def test_an_acknowledged_record_survives_the_power_failure_of_a_single_replica(acks: int) -> None:
    @virtually
    async def run() -> None:
        world = await started()
        await world.create(1, (1,))
        for _ in range(3):
            result = await world.agents[1].produce(2, acks=acks)
            assert result.error_code is ErrorCode.NONE
        assert durable_end(world, 1) == 6
        await world.agents[1].crash(power_fails=True)
        await asyncio.sleep(7)
        await world.agents[1].start()
        world.decide(1, (1,))
        await world.update_metadata(1, to=[1])
        await world.tell(1)
        assert world.agents[1].offsets() == (6, 6)

    run()


@RULES
@virtually
async def test_a_follower_flushes_before_its_next_fetch_acknowledges() -> None:
    world = await started()
    await world.create(1, (1, 2))
    for _ in range(5):
        result = await world.agents[1].produce(3, acks=-1)
        assert result.error_code is ErrorCode.NONE
        assert durable_end(world, 1) == durable_end(world, 2) == result.base_offset + 3
    await world.stop()


@RULES
@virtually
async def test_producers_that_come_together_share_the_flush_and_all_are_committed() -> None:
    world = await started()
    await world.create(1, (1,))
    results = await asyncio.gather(*(world.agents[1].produce(1, acks=acks) for acks in (1, -1) * 10))
    assert sorted(result.base_offset for result in results) == list(range(20))
    assert world.agents[1].offsets() == (20, 20)
    await world.stop()


@RULES
@virtually
async def test_a_producer_that_hangs_up_leaves_its_record_to_be_committed() -> None:
    world = await started()
    await world.create(1, (1,))
    producing = asyncio.ensure_future(world.agents[1].produce(1))
    await asyncio.sleep(0)
    producing.cancel()
    await until(lambda: world.agents[1].offsets() in {(0, 0), (1, 1)})
    await world.agents[1].produce(1)
    high_watermark, end = world.agents[1].offsets()
    assert high_watermark == end
    await world.stop()


@RULES
@virtually
async def test_a_device_that_fails_in_the_flush_fails_the_request() -> None:
    world = await started()
    process = world.agents[3] = AgentProcess(world, BrokerId(3))
    await process.start("/one", "/other")
    await world.create(3, (3,))
    log = process.partition().log
    assert log is not None
    producing = asyncio.ensure_future(process.produce(1))
    while process.offsets()[1] == 0:  # noqa: ASYNC110 - every single step counts here.
        await asyncio.sleep(0)
    process.disk.break_directory(log.directory)
    assert (await producing).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    await world.stop()
