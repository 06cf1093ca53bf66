"""Consumers fetch in sessions, as followers do: what is read is the same as without, and costs what changed."""

import asyncio
from itertools import chain

import pytest
from msgspec.structs import replace

from broker_agent.decisions import fetch_sessions
from broker_agent.log.record_batch import walk
from broker_agent.replication.purgatory import CHECKED_AT_ONCE
from cluster.model.broker import BrokerId, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import (
    CONSUMER,
    SESSIONLESS_EPOCH,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from cluster.requests.fetcher_session import AskedPartition, FetcherSession
from tests.brokers.agents import TP, AgentProcess, AgentWorld, finished, until, virtually
from tests.conformance.agent.test_follower_reads import RACK_AWARE, world_in_racks
from tests.conformance.agent.test_waiting_fetches import BATCH_SIZE

PARTITIONS = [TopicPartition(TP.topic, number) for number in range(5)]


class Reader:
    """A consumer with one broker, in a session; `offsets`: where it reads each partition next."""

    def __init__(self, process: AgentProcess, *partitions: TopicPartition, rack: str = "", replica: int = -1) -> None:
        self.process, self.rack, self.replica = process, rack, BrokerId(replica)
        self.session: FetcherSession[None] = FetcherSession()
        self.offsets = dict.fromkeys(partitions, 0)
        self.epoch = -1
        self.named: list[int] = []

    def next_request(self, max_wait_ms: int, max_bytes: int) -> FetchRequest:
        asked = {
            tp: AskedPartition(
                None, FetchPartition(tp.topic, None, tp.partition, Offset(offset), 1 << 20, LeaderEpoch(self.epoch))
            )
            for tp, offset in self.offsets.items()
        }
        is_established = self.session.is_established
        request = self.session.request_changes(asked) if is_established else self.session.request_all(asked)
        self._said = request
        self.named.append(len(request.partitions))
        return FetchRequest(
            self.replica,
            request.partitions,
            max_wait_ms,
            1,
            max_bytes,
            rack_id=self.rack,
            session_id=request.session_id,
            session_epoch=request.session_epoch,
        )

    async def fetch(self, max_wait_ms: int = 0, max_bytes: int = 1 << 25) -> list[FetchPartitionData]:
        response: FetchResponse = await self.process.handle(self.next_request(max_wait_ms, max_bytes))
        return self.take(response)

    def take(self, response: FetchResponse) -> list[FetchPartitionData]:
        assert response.error_code is ErrorCode.NONE
        self.session.take_answer(self._said, response)
        for data in response.partitions:
            for _, header in walk(data.records):
                self.offsets[TopicPartition(data.topic, data.partition)] = header.last_offset + 1
        return list(response.partitions)


async def leading(*isr: int, **settings: object) -> AgentProcess:
    """Agent 1 leads all partitions."""
    world = AgentWorld(**settings)
    brokers = (1, *isr)
    await world.start(*brokers)
    for tp in PARTITIONS:
        world.decide(1, brokers, tp=tp)
    await world.update_metadata()
    for broker in brokers:
        await world.tell_together(broker, *PARTITIONS)
    return world.agents[1]


async def idling(process: AgentProcess, **fields: int) -> Reader:
    """A consumer in a session in which all partitions are idle."""
    reader = Reader(process, *PARTITIONS, **fields)  # type: ignore[arg-type]
    await reader.fetch()
    await reader.fetch()
    assert reader.session.is_established
    return reader


def partitions(found: list[FetchPartitionData]) -> list[int]:
    return [data.partition for data in found]


@pytest.mark.rule("R5.12", "R6.14")
@virtually
async def test_an_idle_fetch_of_a_consumer_names_nothing_and_is_answered_with_nothing() -> None:
    leader = await leading()
    reader = await idling(leader)
    [session] = leader.agent.manager.fetch_sessions
    assert session.dirty == ()
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(3):
        assert await reader.fetch(500) == []
    assert loop.time() - began == pytest.approx(1.5)
    assert reader.named[-3:] == [0, 0, 0]
    await leader.world.stop()


@pytest.mark.rule("R5.12", "R6.15")
@virtually
async def test_a_record_ends_the_wait_and_only_its_partition_is_answered_and_named() -> None:
    leader = await leading()
    reader = await idling(leader)
    for count in (1, 2):
        waiting = asyncio.ensure_future(reader.fetch(20_000))
        await asyncio.sleep(1)
        await leader.produce(1, tp=PARTITIONS[3])
        assert partitions(await finished(waiting, within_s=0.1)) == [3]
        assert reader.offsets[PARTITIONS[3]] == count
    assert reader.named[-1] == 1
    await leader.world.stop()


@pytest.mark.rule("R5.12", "R6.8", "R6.15")
@virtually
async def test_only_committed_records_end_the_wait_of_a_consumer() -> None:
    leader = await leading(2)
    consumer, debugger = await idling(leader), await idling(leader, replica=-2)
    leader.world.network.cut("broker-2:9092", "broker-1:9092")
    await asyncio.sleep(0.6)
    waiting = [asyncio.ensure_future(reader.fetch(100_000)) for reader in (consumer, debugger)]
    await leader.produce(1)
    await asyncio.sleep(0.001)
    assert [task.done() for task in waiting] == [False, True]
    leader.world.network.heal("broker-2:9092", "broker-1:9092")
    assert partitions(await finished(waiting[0], within_s=90)) == [0]
    assert consumer.offsets[TP] == debugger.offsets[TP] == 1
    await leader.world.stop()


@pytest.mark.rule("R5.12", "R5.11", "R6.9")
@virtually
async def test_where_answers_are_full_each_partition_has_its_turn() -> None:
    leader = await leading()
    reader = await idling(leader)
    for tp in PARTITIONS:
        for _ in range(3):
            await leader.produce(1, tp=tp)
    served = [partitions([data for data in await reader.fetch(0, BATCH_SIZE) if data.records]) for _ in range(15)]
    assert [sorted(chain.from_iterable(served[turn : turn + 5])) for turn in (0, 5, 10)] == [list(range(5))] * 3
    assert set(reader.offsets.values()) == {3}
    await leader.world.stop()


@pytest.mark.rule("R5.12", "R6.3", "R6.5")
@virtually
async def test_a_new_leader_epoch_answers_a_consumer_that_waits_with_the_old_one() -> None:
    leader = await leading()
    reader = Reader(leader, *PARTITIONS)
    reader.epoch = 0
    for _ in range(2):
        await reader.fetch()
    waiting = asyncio.ensure_future(reader.fetch(20_000))
    await asyncio.sleep(1)
    leader.world.decide(1, (1,), tp=PARTITIONS[2])
    await leader.world.tell(1, tp=PARTITIONS[2])
    await leader.produce(1, tp=PARTITIONS[2])
    [data] = await finished(waiting, within_s=0.1)
    assert (data.partition, data.error_code) == (2, ErrorCode.FENCED_LEADER_EPOCH)
    # It is told again with each fetch until the consumer names it otherwise.
    assert [data.error_code for data in await reader.fetch()] == [ErrorCode.FENCED_LEADER_EPOCH]
    await leader.world.stop()


@pytest.mark.rule("R5.12", "R6.23")
@virtually
async def test_a_consumer_with_a_rack_hears_in_its_session_that_a_replica_near_it_has_returned() -> None:
    world = await world_in_racks(replica_selector_class=RACK_AWARE)
    await world.update_metadata(1)
    leader, reader = world.agents[1], Reader(world.agents[1], TP, rack="b")
    for _ in range(3):
        await reader.fetch()
    assert reader.offsets[TP] == 5
    assert await reader.fetch() == []
    await world.update_metadata(1, 2)
    for _ in range(2):
        assert [data.preferred_read_replica for data in await reader.fetch(20_000)] == [2]
    # The follower has a session of its own for it.
    near = Reader(world.agents[2], TP, rack="b")
    await near.fetch()
    waiting = asyncio.ensure_future(near.fetch(20_000))
    assert near.offsets[TP] == 5
    await leader.produce(1, acks=-1)
    assert partitions(await finished(waiting, within_s=2)) == [0]
    await world.stop()


@pytest.mark.rule("R5.12")
@virtually
async def test_whoever_reads_otherwise_is_not_in_the_session() -> None:
    leader = await leading()
    reader = await idling(leader)
    request = reader.next_request(0, 1000)
    for other in (replace(request, rack_id="b"), replace(request, replica_id=BrokerId(-2))):
        refused = await leader.handle(other)
        assert (refused.error_code, refused.partitions) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ())
    assert (await leader.handle(request)).session_id == reader.session.id
    await leader.world.stop()


@pytest.mark.rule("R5.12")
@virtually
async def test_a_consumer_that_leaves_ends_its_session() -> None:
    leader = await leading()
    reader = await idling(leader)
    sessions = leader.agent.manager.fetch_sessions
    assert [len(session) for session in sessions] == [5]
    last = FetchRequest(CONSUMER, (), 0, 0, 0, session_id=reader.session.id, session_epoch=SESSIONLESS_EPOCH)
    assert await leader.handle(last) == FetchResponse(ErrorCode.NONE)
    assert list(sessions) == []
    nothing = replace(last, session_id=0, session_epoch=0)
    assert await leader.handle(nothing) == FetchResponse(ErrorCode.NONE)
    assert list(sessions) == []
    await leader.world.stop()


@pytest.mark.rule("R5.12")
@virtually
async def test_a_follower_takes_the_slot_of_a_consumer_and_no_consumer_that_of_a_follower() -> None:
    leader = await leading(max_incremental_fetch_session_cache_slots=1)
    reader = await idling(leader)
    other = Reader(leader, *PARTITIONS)
    await other.fetch()
    assert not other.session.is_established
    for tp in PARTITIONS:
        leader.world.decide(1, (1,), replicas=(1, 2), tp=tp)
    await leader.world.tell_together(1, *PARTITIONS)
    item = FetchPartition(TP.topic, None, 0, Offset(0), 1000, LeaderEpoch(1))
    follower = FetchRequest(BrokerId(2), (item,), 0, 1, 1000, session_epoch=0)
    assert (await leader.handle(follower)).session_id > 0
    lost = await leader.handle(reader.next_request(0, 1000))
    assert lost.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    reader.session.reset()
    for _ in range(2):
        await reader.fetch()
        assert not reader.session.is_established
        await asyncio.sleep(100)
    # The follower has left two minutes ago.
    await reader.fetch()
    assert reader.session.is_established
    await leader.world.stop()


@pytest.mark.rule("R5.12")
@virtually
async def test_consumers_do_not_fill_the_memory_with_partitions_of_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = await leading()
    monkeypatch.setattr(fetch_sessions, "CONSUMER_PARTITIONS_MAX", 12)
    readers = [await idling(leader) for _ in range(2)]
    late = Reader(leader, *PARTITIONS)
    assert partitions(await late.fetch()) == list(range(5))
    assert not late.session.is_established
    small = Reader(leader, TP)
    await small.fetch()
    assert small.session.is_established
    # Nor do they grow beyond it.
    small.offsets.update(dict.fromkeys(PARTITIONS, 0))
    refused = await leader.handle(small.next_request(0, 1000))
    assert refused == FetchResponse(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert [len(session) for session in leader.agent.manager.fetch_sessions] == [5, 5]
    small.session.reset()
    await leader.produce(1, tp=PARTITIONS[3])
    for reader in (small, *readers):
        assert 3 in partitions(await reader.fetch())
        assert reader.offsets[PARTITIONS[3]] == 1
    await leader.world.stop()


@pytest.mark.rule("R5.12", "R13.4")
@virtually
async def test_many_sessions_that_wait_for_one_partition_are_all_answered() -> None:
    leader = await leading()
    readers = [await idling(leader) for _ in range(3 * CHECKED_AT_ONCE)]
    waiting = [asyncio.ensure_future(reader.fetch(20_000)) for reader in readers]
    await asyncio.sleep(1)
    await leader.produce(1)
    async with asyncio.timeout(0.1):
        assert [partitions(found) for found in await asyncio.gather(*waiting)] == [[0]] * len(readers)
    await leader.world.stop()


@pytest.mark.rule("R5.12", "P39")
@virtually
async def test_in_a_session_the_same_is_read_as_without() -> None:
    leader = await leading(2)
    reader, read = Reader(leader, *PARTITIONS), dict.fromkeys(PARTITIONS, b"")
    for step in range(60):
        tp = PARTITIONS[step * step % len(PARTITIONS)]
        await leader.produce(step % 4 + 1, tp=tp, acks=-1 if step % 3 else 1)
        for data in await reader.fetch(step % 5 * 100, 3 * BATCH_SIZE):
            assert data.error_code is ErrorCode.NONE
            read[TopicPartition(data.topic, data.partition)] += data.records
    while reader.offsets != {tp: leader.offsets(tp)[1] for tp in PARTITIONS}:
        for data in await finished(reader.fetch(5_000), within_s=6):
            read[TopicPartition(data.topic, data.partition)] += data.records
    for tp in PARTITIONS:
        assert (await leader.fetch(0, tp=tp, topic_id=None, max_bytes=1 << 25)).records == read[tp]
    await until(lambda: reader.session.is_established)
    await leader.world.stop()
