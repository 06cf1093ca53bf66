"""Fetch, Produce, ListOffsets and OffsetsForLeaderEpoch on a real agent."""

import asyncio

import pytest
from msgspec.structs import replace

from broker_agent.requests import fetch as fetch_requests
from cluster.model.broker import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    OffsetForLeaderPartition,
    OffsetsForLeaderEpochRequest,
    ProducePartition,
    ProduceRequest,
)
from cluster.rpc.call_kinds import CallKind
from simulator.record_batches import encode_client_batch
from tests.brokers.agents import TOPIC, TOPIC_ID, TP, AgentProcess, AgentWorld, until, virtually


async def lead_alone(world: AgentWorld, *replicas: int) -> AgentProcess:
    """Agent 1 leads; the other replicas exist only in the controller's words, and a test plays them."""
    await world.start(1)
    for broker in replicas:
        world.agents[broker] = world.agents[1]
    world.decide(1, [1, *replicas])
    await world.update_metadata(to=[1])
    for broker in replicas:
        del world.agents[broker]
    await world.tell(1)
    return world.agents[1]


@pytest.mark.rule("R6.1", "R6.3", "R6.4", "R6.5", "R2.5")
@virtually
async def test_fetches_are_admitted_by_topic_then_epoch_then_leadership_then_replica() -> None:
    world = AgentWorld()
    leader = await lead_alone(world, 2)
    unknown = TopicPartition("nowhere", 0)
    assert (await leader.fetch(0, tp=unknown, topic_id=None)).error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await leader.fetch(0, topic_id=TopicId("B" * 22))).error_code is ErrorCode.UNKNOWN_TOPIC_ID
    assert (await leader.fetch(0, topic_id=None)).error_code is ErrorCode.NONE
    world.decide(1, [1, 2])
    await world.tell(1)
    assert (await leader.fetch(0, replica=2, epoch=0)).error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert (await leader.fetch(0, replica=2, epoch=2)).error_code is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await leader.fetch(0, replica=2, epoch=1)).error_code is ErrorCode.NONE
    assert (await leader.fetch(0, replica=3, epoch=1)).error_code is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await leader.fetch(0, replica=3)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await world.stop()


@pytest.mark.rule("R6.9", "LS-4")
@virtually
async def test_a_response_fits_a_message_whatever_was_configured_and_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fetch_requests, "_RESPONSE_BYTES_MAX", 300)
    world = AgentWorld(fetch_max_bytes=2**31 - 1)
    leader = await lead_alone(world, 2)
    for _ in range(10):
        await leader.produce()
    for replica in (2, -1):
        item = FetchPartition(TOPIC, TOPIC_ID, 0, Offset(0), 2**31 - 1)
        response = await leader.handle(FetchRequest(BrokerId(replica), (item,), 0, 1, 2**31 - 1))
        records = response.partitions[0].records
        assert len(records) <= 300
        assert records or replica == -1
    await world.stop()


@pytest.mark.rule("AD-2")
@virtually
async def test_a_fetch_counts_as_replication_if_its_replica_follows_a_partition_led_here() -> None:
    world = AgentWorld()
    leader = await lead_alone(world, 2)

    def recognized(replica: int, topic: str = TOPIC) -> CallKind | None:
        items = (FetchPartition("nowhere", None, 0, Offset(0), 9), FetchPartition(topic, None, 0, Offset(0), 9))
        return leader.node.recognize(FetchRequest(BrokerId(replica), items, 500, 1, 9))

    assert recognized(2) is CallKind.REPLICATION
    assert recognized(2, "elsewhere") is CallKind.FETCH
    assert [recognized(replica) for replica in (1, 3, -1, -2)] == [CallKind.FETCH] * 4
    assert leader.node.recognize(ProduceRequest(1, 1000, ())) is None
    await world.stop()


@pytest.mark.rule("R6.11")
@virtually
async def test_an_earlier_incarnation_of_a_follower_is_not_listened_to() -> None:
    world = AgentWorld()
    leader = await lead_alone(world, 2)
    item = FetchPartition(TOPIC, TOPIC_ID, 0, Offset(0), 1000)
    request = FetchRequest(BrokerId(2), (item,), 0, 1, 1000, replica_epoch=BrokerEpoch(50))
    assert (await leader.handle(request)).partitions[0].error_code is ErrorCode.NONE
    older = await leader.handle(replace(request, replica_epoch=BrokerEpoch(49)))
    assert older.partitions[0].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await world.stop()


@pytest.mark.rule("R6.7", "R6.8", "R6.20", "E5")
@virtually
async def test_a_diverging_follower_learns_where_and_its_position_is_not_taken() -> None:
    world = AgentWorld()
    leader = await lead_alone(world, 2)
    await leader.produce(20)
    world.decide(1, [1, 2])
    world.states[TP] = replace(world.states[TP], leader_epoch=LeaderEpoch(3))
    await world.tell(1)
    await leader.produce(10)
    before = leader.partition().remote[BrokerId(2)]
    for offset, last_epoch, expected in ((30, 2, (0, 20)), (25, 0, (0, 20))):
        data = await leader.fetch(offset, replica=2, epoch=3, last_epoch=last_epoch)
        assert data.error_code is ErrorCode.NONE
        assert data.records == b""
        assert data.diverging_epoch is not None
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == expected
    assert leader.partition().remote[BrokerId(2)] == before
    unknown = await leader.fetch(30, replica=2, epoch=3, last_epoch=4)
    assert unknown.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    agreed = await leader.fetch(20, replica=2, epoch=3, last_epoch=0)
    assert agreed.diverging_epoch is None
    assert agreed.records != b""
    assert leader.partition().remote[BrokerId(2)].log_end_offset == 20
    await world.stop()


@pytest.mark.rule("R6.8", "R6.9", "P31")
@virtually
async def test_consumers_read_below_the_high_watermark_and_always_get_one_whole_batch() -> None:
    world = AgentWorld()
    leader = await lead_alone(world, 2)
    await leader.produce(5)
    await leader.fetch(5, replica=2, epoch=0)
    await leader.produce(5)
    assert leader.offsets() == (5, 10)
    first = await leader.fetch(2, max_bytes=1)
    assert int.from_bytes(first.records[:8], "big") == 0
    assert (await leader.fetch(5)).records == b""
    above = await leader.fetch(8, max_wait_ms=10_000)
    assert (above.error_code, above.records) == (ErrorCode.NONE, b"")
    for offset in (11, -1):
        assert (await leader.fetch(offset)).error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await leader.fetch(5, replica=2, epoch=0)).records != b""
    await world.stop()


@pytest.mark.rule("R6.9")
@virtually
async def test_after_the_first_partition_with_data_the_limits_are_hard() -> None:
    world = AgentWorld()
    leader = await lead_alone(world)
    other = TopicPartition(TOPIC, 1)
    world.decide(1, [1], tp=other)
    await world.update_metadata()
    await world.tell(1, tp=other)
    await leader.produce(5)
    await leader.produce(5, tp=other)
    items = tuple(FetchPartition(TOPIC, None, p, Offset(0), 1 << 20) for p in (0, 1))
    response = await leader.handle(FetchRequest(BrokerId(-1), items, 0, 1, 90))
    assert [len(data.records) > 0 for data in response.partitions] == [True, False]
    await world.stop()


@pytest.mark.rule("R6.14", "R6.15", "R6.16", "R6.17", "R13.9")
@virtually
async def test_a_fetch_waits_for_bytes_or_its_deadline_and_does_not_renew_the_follower() -> None:
    world = AgentWorld()
    leader = await lead_alone(world, 2)
    loop = asyncio.get_running_loop()
    started = loop.time()
    assert (await leader.fetch(0, max_wait_ms=700)).records == b""
    assert loop.time() - started == pytest.approx(0.7)
    async with asyncio.TaskGroup() as group:
        follower = group.create_task(leader.fetch(0, replica=2, epoch=0, max_wait_ms=9000))
        consumer = group.create_task(leader.fetch(0, max_wait_ms=9000))
        await asyncio.sleep(0.1)
        taken = leader.partition().remote[BrokerId(2)]
        await leader.produce(5)
        await asyncio.sleep(0.01)
        assert follower.done()
        assert leader.partition().remote[BrokerId(2)] == taken
        assert not consumer.done()
        await leader.fetch(5, replica=2, epoch=0)
        await asyncio.sleep(0.01)
        assert consumer.result().records != b""
    assert leader.agent.manager.fetch_purgatory.check_and_complete(TP) == 0
    await world.stop()


@pytest.mark.rule("R6.12", "R6.16")
@virtually
async def test_a_follower_is_given_at_once_the_old_high_watermark_and_after_a_wait_the_one_it_raised() -> None:
    world = AgentWorld()
    leader = await lead_alone(world, 2)
    await leader.produce(5)
    at_once = await leader.fetch(5, replica=2, epoch=0)
    assert (at_once.high_watermark, leader.offsets()) == (0, (5, 5))
    await leader.produce(5)
    waited = await leader.fetch(10, replica=2, epoch=0, max_wait_ms=500)
    assert (waited.high_watermark, waited.last_stable_offset, waited.records) == (10, 10, b"")
    log = leader.partition().log
    assert log is not None
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(leader.fetch(10, replica=2, epoch=0, max_wait_ms=500))
        await asyncio.sleep(0.1)
        log.raise_log_start_offset(Offset(5))
    assert waiting.result().log_start_offset == 5
    await world.stop()


@pytest.mark.rule("R6.15", "R4.3", "R13.9")
@pytest.mark.parametrize("ending", ["deletion", "new leader"])
def test_waiting_requests_learn_at_once_that_the_leadership_is_gone(ending: str) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        await world.start(1, 2)
        await world.create(1, [1, 2])
        await world.agents.pop(2).crash()
        leader = world.agents[1]
        async with asyncio.TaskGroup() as group:
            produced = group.create_task(leader.produce(1, acks=-1, timeout_ms=20_000))
            fetched = group.create_task(leader.fetch(0, epoch=0, max_wait_ms=20_000))
            await asyncio.sleep(0.1)
            if ending == "deletion":
                await world.stop_replica(1, delete=True, epoch=-2)
            else:
                world.agents[2] = leader
                await world.update_metadata(1, 2, to=[1])
                del world.agents[2]
                world.decide(2, [2])
                await world.tell(1)
            async with asyncio.timeout(0.1):
                assert (await produced).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
                assert (await fetched).error_code in (
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    ErrorCode.FENCED_LEADER_EPOCH,
                )
        await world.stop()

    check()


@pytest.mark.rule("R7.1", "R7.2", "R7.3", "R7.10", "P33")
@virtually
async def test_each_partition_of_a_produce_is_checked_by_itself() -> None:
    world = AgentWorld()
    leader = await lead_alone(world)
    batch = encode_client_batch(b"r", 1)
    flipped = batch[:-1] + bytes([batch[-1] ^ 1])
    cases = [
        (TOPIC, 0, batch, ErrorCode.NONE),
        ("nowhere", 0, batch, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, 0, batch + batch, ErrorCode.INVALID_RECORD),
        (TOPIC, 0, flipped, ErrorCode.CORRUPT_MESSAGE),
        (TOPIC, 0, batch, ErrorCode.NONE),
    ]
    items = tuple(ProducePartition(topic, partition, records) for topic, partition, records, _ in cases)
    response = await leader.handle(ProduceRequest(1, 1000, items))
    assert [result.error_code for result in response.partitions] == [code for *_, code in cases]
    assert [r.base_offset for r in response.partitions if r.error_code is ErrorCode.NONE] == [0, 1]
    wrong = await leader.handle(ProduceRequest(2, 1000, items))
    assert {result.error_code for result in wrong.partitions} == {ErrorCode.INVALID_REQUIRED_ACKS}
    assert leader.offsets() == (2, 2)
    await world.stop()


@pytest.mark.rule("R7.6", "P34")
@virtually
async def test_a_repeated_idempotent_batch_is_answered_with_its_first_offset() -> None:
    world = AgentWorld()
    leader = await lead_alone(world)
    batches = [encode_client_batch(b"r", 1, producer_id=9, producer_epoch=0, base_sequence=n) for n in (0, 1, 0, 5)]
    results = []
    for batch in batches:
        response = await leader.handle(ProduceRequest(-1, 1000, (ProducePartition(TOPIC, 0, batch),)))
        results.append(response.partitions[0])
    assert [result.base_offset for result in results[:3]] == [0, 1, 0]
    assert results[3].error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert results[3].log_start_offset == 0
    await world.stop()


@pytest.mark.rule("R6.21", "P35")
@virtually
async def test_latest_is_not_given_to_consumers_before_the_high_watermark_reached_the_leaders_epoch() -> None:
    world = AgentWorld()
    leader = await lead_alone(world, 2)
    await leader.produce(5)
    world.decide(1, [1, 2])
    await world.tell(1)

    async def ask(replica: int, timestamp: int) -> tuple[ErrorCode, int, int]:
        item = ListOffsetsPartition(TOPIC, 0, timestamp)
        result = (await leader.handle(ListOffsetsRequest(BrokerId(replica), (item,)))).partitions[0]
        return result.error_code, result.offset, result.leader_epoch

    assert await ask(-1, LATEST_TIMESTAMP) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1)
    assert await ask(-1, 3) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1)
    assert await ask(-1, 1 << 60) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1, -1)
    assert await ask(2, LATEST_TIMESTAMP) == (ErrorCode.NONE, 5, 1)
    assert await ask(2, 1 << 60) == (ErrorCode.NONE, -1, -1)
    assert await ask(-2, LATEST_TIMESTAMP) == (ErrorCode.NONE, 5, 1)
    assert await ask(-2, 1 << 60) == (ErrorCode.NONE, -1, -1)
    assert await ask(-1, EARLIEST_TIMESTAMP) == (ErrorCode.NONE, 0, 0)
    await leader.fetch(5, replica=2, epoch=1)
    assert await ask(-1, LATEST_TIMESTAMP) == (ErrorCode.NONE, 5, 1)
    assert await ask(-1, 3) == (ErrorCode.NONE, 0, 0)
    assert await ask(-1, 1 << 60) == (ErrorCode.NONE, -1, -1)
    await world.stop()


@pytest.mark.rule("R6.21")
@virtually
async def test_a_debugging_consumer_gets_the_end_of_a_followers_log() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, (1, 2), replicas=(1, 2))
    former = world.agents[1]
    await former.produce(5)
    await until(lambda: world.agents[2].offsets()[1] == 5)
    world.decide(2, [1, 2])
    await world.tell(1, 2)

    async def ask(replica: int, timestamp: int, epoch: int = -1) -> tuple[ErrorCode, int]:
        item = ListOffsetsPartition(TOPIC, 0, timestamp, LeaderEpoch(epoch))
        result = (await former.handle(ListOffsetsRequest(BrokerId(replica), (item,)))).partitions[0]
        return result.error_code, result.offset

    for replica in (-1, 2):
        assert await ask(replica, LATEST_TIMESTAMP) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert await ask(-2, LATEST_TIMESTAMP) == (ErrorCode.NONE, 5)
    assert await ask(-2, EARLIEST_TIMESTAMP) == (ErrorCode.NONE, 0)
    assert await ask(-2, LATEST_TIMESTAMP, epoch=0) == (ErrorCode.FENCED_LEADER_EPOCH, -1)
    await world.stop()


@pytest.mark.rule("R6.20")
@virtually
async def test_epoch_ends_are_answered_by_the_leader_of_the_named_epoch_only() -> None:
    world = AgentWorld()
    leader = await lead_alone(world)
    await leader.produce(5)
    world.decide(1, [1])
    await world.tell(1)
    await leader.produce(2)

    async def ask(epoch: int, current: int) -> tuple[ErrorCode, int, int]:
        item = OffsetForLeaderPartition(TOPIC, 0, LeaderEpoch(epoch), LeaderEpoch(current))
        result = (await leader.handle(OffsetsForLeaderEpochRequest(BrokerId(2), (item,)))).partitions[0]
        return result.error_code, result.leader_epoch, result.end_offset

    assert await ask(0, 1) == (ErrorCode.NONE, 0, 5)
    assert await ask(1, -1) == (ErrorCode.NONE, 1, 7)
    assert await ask(2, 1) == (ErrorCode.NONE, -1, -1)
    assert await ask(0, 0) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert await ask(0, 2) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    await world.stop()


@pytest.mark.rule("R7.4", "R0.6")
@virtually
async def test_appends_wait_while_their_partition_changes_its_role() -> None:
    world = AgentWorld()
    leader = await lead_alone(world)
    await leader.produce(3)
    world.decide(1, [1])
    partition = leader.partition()
    async with asyncio.TaskGroup() as group:
        with partition.changing_role():
            waiting = group.create_task(leader.produce(1))
            await asyncio.sleep(1)
            assert not waiting.done()
            assert leader.offsets()[1] == 3
        await until(waiting.done)
    assert waiting.result().base_offset == 3
    await world.stop()
