"""What completes a delayed fetch, and what does not."""

import asyncio

import pytest

from broker_agent.log.record_batch import HEADER_SIZE
from cluster.model.broker import BrokerId, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import FetchPartition, FetchRequest, FetchResponse
from simulator.record_batches import encode_batch
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, virtually

OTHER = TopicPartition(TOPIC, 1)
BATCH_SIZE = HEADER_SIZE + 20
"""Of what `AgentProcess.produce` sends."""


async def lead_both(world: AgentWorld) -> AgentProcess:
    """Agent 1 leads two partitions, alone in their ISRs."""
    await world.start(1)
    for tp in (TP, OTHER):
        world.decide(1, (1,), tp=tp)
    await world.update_metadata()
    for tp in (TP, OTHER):
        await world.tell(1, tp=tp)
    return world.agents[1]


def request(*offsets: int, **fields: int) -> FetchRequest:
    """A consumer's, for the partitions 0, 1, … from these offsets on."""
    items = tuple(
        FetchPartition(TOPIC, None, number, Offset(offset), fields.get("partition_max_bytes", 1 << 20))
        for number, offset in enumerate(offsets)
    )
    return FetchRequest(
        BrokerId(-1),
        items,
        fields.get("max_wait_ms", 5000),
        fields.get("min_bytes", 1),
        fields.get("max_bytes", 1 << 25),
    )


@pytest.mark.rule("R6.15")
@virtually
async def test_bytes_are_summed_over_all_partitions_of_the_request() -> None:
    world = AgentWorld()
    leader = await lead_both(world)
    waiting = asyncio.ensure_future(leader.handle(request(0, 0, min_bytes=3 * BATCH_SIZE)))
    for tp in (TP, OTHER):
        await leader.produce(1, tp=tp)
        await asyncio.sleep(0.01)
        assert not waiting.done()
    await leader.produce(1)
    await asyncio.sleep(0.001)
    assert [len(data.records) for data in waiting.result().partitions] == [2 * BATCH_SIZE, BATCH_SIZE]
    await world.stop()


@pytest.mark.rule("R6.15")
@virtually
async def test_what_exceeds_the_limit_of_a_partition_does_not_count() -> None:
    world = AgentWorld()
    leader = await lead_both(world)
    limits = {"min_bytes": 2 * BATCH_SIZE, "partition_max_bytes": BATCH_SIZE}
    waiting = asyncio.ensure_future(leader.handle(request(0, 0, **limits)))
    for _ in range(5):
        await leader.produce(1)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await leader.produce(1, tp=OTHER)
    await asyncio.sleep(0.001)
    assert [len(data.records) for data in waiting.result().partitions] == [BATCH_SIZE, BATCH_SIZE]
    await world.stop()


@pytest.mark.rule("R6.14")
@virtually
async def test_more_than_an_answer_may_hold_is_not_waited_for() -> None:
    world = AgentWorld()
    leader = await lead_both(world)
    await leader.produce(1)
    async with asyncio.timeout(0.1):
        await leader.handle(request(0, min_bytes=1 << 30, max_bytes=BATCH_SIZE))
    waiting = asyncio.ensure_future(leader.handle(request(1, min_bytes=1 << 30, max_bytes=BATCH_SIZE)))
    await asyncio.sleep(0.01)
    await leader.produce(1)
    await asyncio.sleep(0.001)
    assert len(waiting.result().partitions[0].records) == BATCH_SIZE
    await world.stop()


@pytest.mark.rule("R6.15", "R6.14")
@virtually
async def test_a_reader_in_an_older_segment_is_answered_without_counting() -> None:
    world = AgentWorld(log_segment_bytes=2 * BATCH_SIZE)
    leader = await lead_both(world)
    for _ in range(3):
        await leader.produce(1)
    async with asyncio.timeout(0.1):
        response: FetchResponse = await leader.handle(request(1, min_bytes=1 << 20))
    assert len(response.partitions[0].records) == BATCH_SIZE
    waiting = asyncio.ensure_future(leader.handle(request(2, min_bytes=1 << 20, max_wait_ms=300)))
    await leader.produce(1)
    await asyncio.sleep(0.1)
    assert not waiting.done()
    assert len((await waiting).partitions[0].records) == 2 * BATCH_SIZE
    await world.stop()


@pytest.mark.rule("R6.9")
@virtually
async def test_the_first_partition_that_has_anything_gives_a_whole_batch_whatever_the_limit() -> None:
    world = AgentWorld()
    leader = await lead_both(world)
    await leader.produce(1, tp=OTHER)
    response: FetchResponse = await leader.handle(request(0, 0, max_bytes=1, partition_max_bytes=1))
    assert [len(data.records) for data in response.partitions] == [0, BATCH_SIZE]
    await world.stop()


@pytest.mark.rule("R6.7")
@virtually
async def test_an_offset_below_the_start_is_out_of_range_even_where_epochs_diverge() -> None:
    world = AgentWorld()
    leader = await lead_both(world)
    await leader.produce(10)
    world.decide(1, (1,), leader_epoch=LeaderEpoch(4))
    await world.tell(1)
    await leader.produce(10)
    assert (await leader.fetch(5, last_epoch=2)).diverging_epoch is not None
    log = leader.partition().log
    assert log is not None
    log.raise_log_start_offset(Offset(6))
    below = await leader.fetch(5, last_epoch=2)
    assert (below.error_code, below.diverging_epoch) == (ErrorCode.OFFSET_OUT_OF_RANGE, None)
    await world.stop()


@pytest.mark.rule("R6.15", "R6.8")
@virtually
async def test_a_reader_beyond_the_bound_does_not_wait_nor_one_whose_history_was_cut_below() -> None:
    world = AgentWorld()
    leader = await lead_both(world)
    await leader.produce(5)
    log = leader.partition().log
    assert log is not None
    log.set_high_watermark(Offset(3))
    async with asyncio.timeout(0.1):
        above = await leader.fetch(4, max_wait_ms=5000)
    assert (above.error_code, above.records) == (ErrorCode.NONE, b"")
    log.set_high_watermark(Offset(5))
    waiting = asyncio.ensure_future(leader.fetch(5, last_epoch=0, max_wait_ms=5000, min_bytes=1 << 20))
    await asyncio.sleep(0.01)
    log.truncate_to(Offset(0))
    for at in (0, 4):
        log.append_as_follower(encode_batch(b"", 4, base_offset=at, leader_epoch=0 if at == 0 else 2), LeaderEpoch(2))
    log.set_high_watermark(Offset(8))
    leader.agent.manager.complete_delayed(TP)
    await asyncio.sleep(0.001)
    diverging = waiting.result().diverging_epoch
    assert diverging is not None
    assert (diverging.epoch, diverging.end_offset) == (0, 4)
    await world.stop()


@pytest.mark.rule("R6.15", "R6.3")
@virtually
async def test_a_new_epoch_of_the_same_leader_ends_the_waiting_of_those_who_named_the_old_one() -> None:
    world = AgentWorld()
    leader = await lead_both(world)
    async with asyncio.TaskGroup() as group:
        named = group.create_task(leader.fetch(0, epoch=0, max_wait_ms=5000))
        unnamed = group.create_task(leader.fetch(0, max_wait_ms=5000))
        await asyncio.sleep(0.01)
        world.decide(1, (1,))
        await world.tell(1)
        await leader.produce(1)
        await asyncio.sleep(0.001)
        assert named.result().error_code is ErrorCode.FENCED_LEADER_EPOCH
        assert (unnamed.result().error_code, len(unnamed.result().records)) == (ErrorCode.NONE, BATCH_SIZE)
    await world.stop()


@pytest.mark.rule("R6.14", "R6.7")
@virtually
async def test_an_error_or_a_divergence_of_one_partition_answers_for_all_at_once() -> None:
    world = AgentWorld()
    leader = await lead_both(world)
    await leader.produce(3, tp=OTHER)
    async with asyncio.timeout(0.1):
        response: FetchResponse = await leader.handle(request(0, 99))
        assert [d.error_code for d in response.partitions] == [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE]
        world.decide(1, (1,), tp=OTHER, leader_epoch=LeaderEpoch(4))
        await world.tell(1, tp=OTHER)
        data = await leader.fetch(3, last_epoch=2, tp=OTHER, max_wait_ms=5000)
        assert data.diverging_epoch is not None
        assert (await leader.handle(request(max_wait_ms=5000))).partitions == ()
    await world.stop()
