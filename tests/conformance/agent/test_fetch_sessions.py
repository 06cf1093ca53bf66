"""Followers fetch in sessions: what costs something is what changed. Both sides are real agents."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from broker_agent.node import AgentNode
from cluster.model.broker import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.context import RequestContext
from cluster.requests.data import FetchPartition, FetchRequest, FetchResponse, ForgottenPartition
from tests.brokers.agents import TP, AgentProcess, AgentWorld, refuse, until, virtually

PARTITIONS = [TopicPartition(TP.topic, number) for number in range(20)]


class Doorkeeper:
    """Stands before an agent and keeps each follower's fetch with its answer. `lose_next`: how many answers to lose."""

    def __init__(self, node: AgentNode) -> None:
        self.node = node
        self.fetches: list[FetchRequest] = []
        self.answers: list[FetchResponse] = []
        self.lose_next = 0

    async def handle(self, context: RequestContext, request: Any) -> Any:
        if not isinstance(request, FetchRequest) or request.replica_id < 0:
            return await self.node.handle(context, request)
        self.fetches.append(request)
        answer = await self.node.handle(context, request)
        if self.lose_next:
            self.lose_next -= 1
            await asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        return answer

    def forget(self) -> None:
        self.fetches.clear()
        self.answers.clear()

    @property
    def named(self) -> list[int]:
        return [len(fetch.partitions) for fetch in self.fetches]

    @property
    def answered(self) -> list[int]:
        return [len(answer.partitions) for answer in self.answers]


async def following(**settings: object) -> tuple[AgentWorld, Doorkeeper]:
    """Broker 2 follows broker 1 in all partitions."""
    world = AgentWorld(**{"replica_fetch_backoff_ms": 50, **settings})
    await world.start(1, 2)
    door = watch(world)
    for tp in PARTITIONS:
        world.decide(1, (1, 2), tp=tp)
    await world.update_metadata()
    for broker in (1, 2):
        await world.tell_together(broker, *PARTITIONS)
    await asyncio.sleep(2)
    door.forget()
    return world, door


def watch(world: AgentWorld) -> Doorkeeper:
    door = Doorkeeper(world.agents[1].node)
    world.network.detach(world.agents[1].endpoint)
    world.network.attach(world.agents[1].endpoint, door)
    return door


def sessions(world: AgentWorld, broker: int = 1) -> list[int]:
    """The sizes of the sessions on a leader."""
    return [len(session) for session in world.agents[broker].agent.manager.fetch_sessions]


@pytest.mark.rule("R5.12", "R5.11")
@virtually
async def test_an_idle_fetch_names_nothing_and_is_answered_with_nothing() -> None:
    world, door = await following()
    await asyncio.sleep(30)
    assert len(door.fetches) >= 50
    assert set(door.named) == set(door.answered) == {0}
    assert sessions(world) == [len(PARTITIONS)]
    assert [fetch.session_epoch for fetch in door.fetches] == list(
        range(door.fetches[0].session_epoch, door.fetches[0].session_epoch + len(door.fetches))
    )
    await world.stop()


@pytest.mark.rule("R5.12", "R5.11", "R6.12")
@virtually
async def test_a_record_costs_what_changed() -> None:
    world, door = await following()
    for count in range(1, 11):
        await world.agents[1].produce(1, acks=-1)
        assert world.agents[2].offsets()[1] == count
    assert max(door.named) <= 1
    assert max(door.answered) <= 1
    await world.agents[1].produce(1, tp=PARTITIONS[7])
    await until(lambda: world.agents[2].offsets(PARTITIONS[7])[1] == 1)
    assert max(door.answered) <= 2
    await world.stop()


@pytest.mark.rule("R5.29", "P39")
@virtually
async def test_a_high_watermark_that_rose_is_news_but_does_not_end_the_wait() -> None:
    world, door = await following()
    await world.agents[1].produce(3)
    await until(lambda: world.agents[1].offsets() == (3, 3))
    await asyncio.sleep(1.1)
    assert world.agents[2].offsets() == (3, 3)
    assert len(door.fetches) <= 5
    door.forget()
    await asyncio.sleep(3)
    assert set(door.named) == set(door.answered) == {0}
    await world.stop()


@pytest.mark.rule("R5.12", "R6.10", "R6.13", "R8.5", "P40")
@virtually
async def test_a_follower_that_stops_after_an_idle_time_leaves_the_isr_as_late_as_any_other() -> None:
    world, _ = await following(replica_lag_time_max_ms=10_000)
    await asyncio.sleep(100)
    leader = world.agents[1]
    await world.agents.pop(2).crash()
    stopped_ms = leader.agent.manager.now_ms()
    await asyncio.sleep(60)
    # Without records it is in sync however long ago it fetched.
    assert leader.partition().isr == (1, 2)
    await leader.produce(1)
    progress = leader.partition().remote[BrokerId(2)]
    assert stopped_ms - 600 <= progress.last_fetch_ms == progress.last_caught_up_ms <= stopped_ms
    await until(lambda: leader.partition().isr == (1,), within_s=6)
    await world.stop()


@pytest.mark.rule("R5.12", "R6.10", "P40", "R8.6")
@virtually
async def test_an_idle_follower_has_the_whole_lag_time_once_there_are_records_again() -> None:
    world, _ = await following(replica_lag_time_max_ms=10_000)
    await asyncio.sleep(100)
    leader = world.agents[1]
    world.network.cut("broker-2:9092", "broker-1:9092")
    await asyncio.sleep(0.6)
    cut_ms = leader.agent.manager.now_ms()
    await leader.produce(1)
    await until(lambda: leader.partition().isr == (1,), within_s=16)
    assert 9_000 <= leader.agent.manager.now_ms() - cut_ms <= 15_100
    await world.stop()


@pytest.mark.rule("R5.12", "R8.10")
@virtually
async def test_a_follower_out_of_the_isr_is_proposed_again_with_each_fetch() -> None:
    world, door = await following()
    proposed, accept = world.controller.requests, world.controller.answer
    world.controller.answer = lambda item: refuse(item, ErrorCode.INELIGIBLE_REPLICA)
    world.decide(1, (1,), replicas=(1, 2))
    for broker in (1, 2):
        await world.tell(broker)
    await until(lambda: len(proposed) >= 5)
    assert set(door.named[-2:]) == {0}
    world.controller.answer = accept
    await until(lambda: leader_isr(world) == {1, 2})
    await world.stop()


def leader_isr(world: AgentWorld) -> set[int]:
    return set(world.agents[1].partition().isr)


@pytest.mark.rule("R5.12", "R5.25")
@virtually
async def test_after_an_answer_that_did_not_come_another_session_begins() -> None:
    world, door = await following(replica_socket_timeout_ms=2000)
    door.lose_next = 1
    await world.agents[1].produce(5)
    await until(lambda: world.agents[2].offsets()[1] == 5)
    full = [fetch for fetch in door.fetches if fetch.session_epoch == 0]
    assert [len(fetch.partitions) for fetch in full] == [len(PARTITIONS)]
    assert full[0].session_id == door.fetches[0].session_id
    await asyncio.sleep(2)
    assert sessions(world) == [len(PARTITIONS)]
    assert world.agents[2].offsets() == (5, 5)
    door.forget()
    await asyncio.sleep(3)
    assert set(door.named) == {0}
    await world.stop()


@pytest.mark.rule("R5.12")
@virtually
async def test_a_leader_that_has_lost_the_session_is_asked_for_everything_at_once() -> None:
    world, door = await following(replica_fetch_backoff_ms=10_000)
    manager = world.agents[1].agent.manager
    for session in tuple(manager.fetch_sessions):
        manager.fetch_sessions.end(session)
    await world.agents[1].produce(2)
    await until(lambda: world.agents[2].offsets()[1] == 2, within_s=1)
    assert ErrorCode.FETCH_SESSION_ID_NOT_FOUND in {answer.error_code for answer in door.answers}
    assert max(door.named) == len(PARTITIONS)
    await world.stop()


@pytest.mark.rule("R5.12")
@virtually
async def test_a_leader_without_room_for_a_session_is_asked_for_everything_each_time() -> None:
    world, door = await following(max_incremental_fetch_session_cache_slots=0)
    assert await produced_and_fetched(world)
    await asyncio.sleep(3)
    assert set(door.named) == {len(PARTITIONS)}
    assert sessions(world) == []
    await world.stop()


async def produced_and_fetched(world: AgentWorld) -> bool:
    await world.agents[1].produce(3, acks=-1)
    await asyncio.sleep(1.5)
    return world.agents[2].offsets() == (3, 3)


@pytest.mark.rule("R5.12", "R5.3", "R5.8")
@virtually
async def test_what_is_added_and_removed_is_named_and_forgotten_without_waiting() -> None:
    world, door = await following(replica_fetch_wait_max_ms=20_000, replica_lag_time_max_ms=30_000)
    added = TopicPartition(TP.topic, 99)
    world.decide(1, (1, 2), tp=added)
    await world.update_metadata()
    await world.tell(1, 2, tp=added)
    await until(lambda: door.named[-1:] == [1], within_s=0.1)
    await world.agents[1].produce(1, acks=-1, tp=added)
    assert world.agents[2].offsets(added)[1] == 1
    await world.stop_replica(2, tp=added)
    await world.agents[1].produce(1)
    await until(lambda: any(fetch.forgotten_partitions for fetch in door.fetches), within_s=0.1)
    assert max(door.named) == 1
    assert sessions(world) == [len(PARTITIONS)]
    assert world.agents[2].agent.fetchers.state(added) is None
    door.forget()
    await world.agents[1].produce(1, tp=added)
    await asyncio.sleep(8)
    assert world.agents[2].offsets()[1] == 1
    # What is stopped stays as it is, also when there is news of it.
    assert world.agents[2].offsets(added)[1] == 1
    assert {part.partition for answer in door.answers for part in answer.partitions}.isdisjoint({added.partition})
    await world.stop()


@pytest.mark.rule("R5.12", "R5.16", "R6.3")
@virtually
async def test_a_new_leader_epoch_is_named_and_the_old_one_is_refused() -> None:
    world, door = await following()
    await world.agents[1].produce(1, acks=-1)
    world.decide(1, (1, 2))
    await world.tell(2, 1)
    state = world.agents[2].agent.fetchers.state(TP)
    assert state is not None
    assert state.leader_epoch == 1
    await world.agents[1].produce(1, acks=-1)
    assert world.agents[2].offsets()[1] == 2
    assert max(door.named) == 1
    world.decide(1, (1, 2))
    await world.tell(1)
    await until(lambda: world.agents[2].agent.fetchers.failed == (TP,))
    await until(lambda: any(fetch.forgotten_partitions for fetch in door.fetches))
    await world.tell(2)
    await world.agents[1].produce(1, acks=-1)
    assert world.agents[2].offsets()[1] == 3
    await world.stop()


@pytest.mark.rule("R5.12", "R10.20")
@virtually
async def test_a_log_start_that_rose_reaches_the_follower_and_comes_back() -> None:
    world, door = await following()
    await world.agents[1].produce(5, acks=-1)
    await asyncio.sleep(1.5)
    log = world.agents[1].partition().log
    assert log is not None
    log.raise_log_start_offset(Offset(4))
    await until(lambda: world.agents[1].partition().remote[BrokerId(2)].log_start_offset == 4, within_s=2)
    await asyncio.sleep(2)
    door.forget()
    await asyncio.sleep(2)
    assert set(door.named) == set(door.answered) == {0}
    await world.stop()


@pytest.mark.rule("R6.11", "R5.12")
@virtually
async def test_an_earlier_incarnation_is_refused_in_its_session() -> None:
    world, door = await following()
    await asyncio.sleep(1)
    stale = door.fetches[-1]
    await world.agents[2].crash()
    await asyncio.sleep(7)
    await world.agents[2].start()
    await world.update_metadata()
    for tp in PARTITIONS:
        world.decide(1, (1, 2), tp=tp)
    for broker in (1, 2):
        await world.tell_together(broker, *PARTITIONS)
    await asyncio.sleep(2)
    before = world.agents[1].partition().remote[BrokerId(2)]
    epoch = max(fetch.session_epoch for fetch in door.fetches if fetch.session_id == stale.session_id) + 1
    old = replace(stale, session_epoch=epoch, max_wait_ms=0)
    answer: FetchResponse = await world.agents[1].handle(old)
    codes = {data.error_code for data in answer.partitions}
    assert answer.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND or codes <= {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
    assert world.agents[1].partition().remote[BrokerId(2)].broker_epoch == before.broker_epoch
    await world.stop()


def full_fetch(replica: int, *partitions: int, session_id: int = 0) -> FetchRequest:
    items = tuple(FetchPartition(TP.topic, None, number, Offset(0), 1000, LeaderEpoch(0)) for number in partitions)
    return FetchRequest(BrokerId(replica), items, 0, 1, 1000, session_id=session_id, session_epoch=0)


async def leading_alone(**settings: object) -> AgentProcess:
    """Agent 1 leads two partitions; what brokers 2 and 3 ask is played by the test."""
    world = AgentWorld(**settings)
    await world.start(1)
    for tp in PARTITIONS[:2]:
        world.decide(1, (1,), replicas=(1, 2, 3), tp=tp)
    await world.update_metadata()
    await world.tell_together(1, *PARTITIONS[:2])
    return world.agents[1]


@pytest.mark.rule("R5.12")
@virtually
async def test_of_brokers_only_followers_of_a_partition_led_here_are_granted_sessions() -> None:
    leader = await leading_alone()
    for replica, granted in ((-1, True), (-2, True), (4, False), (2, True)):
        answer: FetchResponse = await leader.handle(full_fetch(replica, 0, 1))
        assert (answer.error_code, answer.session_id > 0) == (ErrorCode.NONE, granted)
        assert len(answer.partitions) == 2
    sessionless: FetchResponse = await leader.handle(replace(full_fetch(2, 0, 1), session_epoch=-1))
    assert (sessionless.session_id, len(sessionless.partitions)) == (0, 2)
    await leader.world.stop()


@pytest.mark.rule("R5.12")
@virtually
async def test_a_request_out_of_turn_or_of_another_follower_is_refused_and_changes_nothing() -> None:
    leader = await leading_alone()
    session_id = (await leader.handle(full_fetch(2, 0, 1))).session_id
    right = replace(full_fetch(2), session_id=session_id, session_epoch=1)
    for wrong, code in (
        (replace(right, session_epoch=2), ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (replace(right, session_epoch=-2), ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (replace(right, session_id=session_id ^ 1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (replace(right, replica_id=BrokerId(3)), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (replace(right, replica_epoch=BrokerEpoch(9)), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ):
        refused = await leader.handle(replace(wrong, forgotten_partitions=(ForgottenPartition(TP.topic, 0),)))
        assert (refused.error_code, refused.partitions, refused.session_id) == (code, (), 0)
    assert sessions(leader.world) == [2]
    assert (await leader.handle(right)) == FetchResponse(ErrorCode.NONE, session_id=session_id)
    assert (await leader.handle(right)).error_code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    await leader.world.stop()


@pytest.mark.rule("R5.12", "R6.14")
@virtually
async def test_what_is_named_is_answered_and_a_session_without_partitions_ends() -> None:
    leader = await leading_alone()
    session_id = (await leader.handle(full_fetch(2, 0))).session_id
    named = replace(full_fetch(2, 1), session_id=session_id, session_epoch=1)
    answer: FetchResponse = await leader.handle(named)
    assert [(data.partition, data.error_code) for data in answer.partitions] == [(1, ErrorCode.NONE)]
    forgotten = tuple(ForgottenPartition(TP.topic, number) for number in (0, 1, 7))
    both = replace(named, session_epoch=2, forgotten_partitions=forgotten)
    assert [data.partition for data in (await leader.handle(both)).partitions] == [1]
    assert sessions(leader.world) == [1]
    async with asyncio.timeout(0.1):
        none = replace(both, session_epoch=3, partitions=(), max_wait_ms=5000)
        assert await leader.handle(none) == FetchResponse(ErrorCode.NONE)
    assert sessions(leader.world) == []
    await leader.world.stop()


@pytest.mark.rule("R5.12")
@virtually
async def test_another_full_fetch_ends_the_session_that_it_names() -> None:
    leader = await leading_alone()
    first = (await leader.handle(full_fetch(2, 0))).session_id
    second = (await leader.handle(full_fetch(2, 0, 1, session_id=first))).session_id
    assert second not in (0, first)
    assert sessions(leader.world) == [2]
    # Not that of another follower.
    await leader.handle(full_fetch(3, 0, session_id=second))
    assert sorted(sessions(leader.world)) == [1, 2]
    await leader.world.stop()


@pytest.mark.rule("R5.12", "R6.15")
@virtually
async def test_the_next_request_of_a_session_ends_the_wait_of_the_one_before() -> None:
    leader = await leading_alone()
    session_id = (await leader.handle(full_fetch(2, 0))).session_id
    waiting = replace(full_fetch(2), session_id=session_id, session_epoch=1, max_wait_ms=20_000)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(leader.handle(waiting))
        await asyncio.sleep(1)
        assert not first.done()
        second = group.create_task(leader.handle(replace(full_fetch(2, 1), session_id=session_id, session_epoch=2)))
        async with asyncio.timeout(0.1):
            assert (await first) == FetchResponse(ErrorCode.NONE, session_id=session_id)
            assert [data.partition for data in (await second).partitions] == [1]
    await leader.world.stop()


@pytest.mark.rule("R5.12")
@virtually
async def test_a_fetch_that_is_cancelled_ends_its_session_and_so_does_eviction_one_that_waits() -> None:
    leader = await leading_alone()

    async def begin_waiting() -> asyncio.Task[FetchResponse]:
        session_id = (await leader.handle(full_fetch(2, 0, 1))).session_id
        request = replace(full_fetch(2), session_id=session_id, session_epoch=1, max_wait_ms=20_000)
        fetching = asyncio.ensure_future(leader.handle(request))
        await asyncio.sleep(1)
        assert (sessions(leader.world), fetching.done()) == ([2], False)
        return fetching

    fetching = await begin_waiting()
    fetching.cancel()
    await asyncio.sleep(0.001)
    assert sessions(leader.world) == []
    fetching = await begin_waiting()
    cache = leader.agent.manager.fetch_sessions
    for session in tuple(cache):
        cache.end(session)
    assert (await fetching).error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    gauge = leader.metrics.gauge("kafka.server", "FetchSessionCache", "NumIncrementalFetchPartitionsCached")
    assert gauge.value == 0
    await leader.world.stop()


@pytest.mark.rule("R5.12")
@virtually
async def test_a_session_that_is_not_used_gives_its_slot_away_after_two_minutes() -> None:
    leader = await leading_alone(max_incremental_fetch_session_cache_slots=1)
    evictions = leader.metrics.meter("kafka.server", "FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec")
    first = (await leader.handle(full_fetch(2, 0))).session_id
    assert first > 0
    await asyncio.sleep(119)
    assert (await leader.handle(full_fetch(3, 0, 1))).session_id == 0
    await asyncio.sleep(2)
    assert (await leader.handle(full_fetch(3, 0, 1))).session_id > 0
    assert (sessions(leader.world), evictions.count) == ([2], 1)
    await leader.world.stop()


@pytest.mark.rule("R5.12", "R4.10", "R6.1")
@virtually
async def test_a_partition_that_leaves_the_metadata_is_refused_in_a_session_too() -> None:
    leader = await leading_alone()
    session_id = (await leader.handle(full_fetch(2, 0, 1))).session_id
    request = replace(full_fetch(2), session_id=session_id, session_epoch=1)
    assert (await leader.handle(request)).partitions == ()
    # The first request looks at all of them; what is idle from then on is looked at when it changes.
    await leader.handle(replace(request, session_epoch=2))
    metadata = leader.world.metadata()
    topic = metadata.topic_states[1]
    deleted = replace(topic.partition_states[0], leader=BrokerId(-2))
    await leader.handle(replace(metadata, topic_states=(replace(topic, partition_states=(deleted,)),)))
    [data] = (await leader.handle(replace(request, session_epoch=3))).partitions
    assert (data.partition, data.error_code) == (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    await leader.world.stop()
