"""Replica fetchers: initial offset, dropped responses, delays and failed partitions."""

import asyncio

import pytest
from msgspec.structs import replace

from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import FetchPartitionData, FetchResponse
from tests.brokers.agents import TOPIC, TOPIC_ID, TP, AgentWorld, until, virtually
from tests.brokers.followers import data, error, follow, tell_again

OTHER = TopicPartition(TOPIC, 1)


@pytest.mark.rule("R5.11", "R5.24", "R6.22")
@virtually
async def test_records_high_watermark_and_log_start_are_taken_from_the_leader() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    leader.answers.put_nowait(data(0, 5, hw=9))
    leader.answers.put_nowait(data(5, 2, hw=6))
    await until(lambda: len(leader.fetches) == 3)
    assert leader.offsets == [0, 5, 7]
    assert follower.offsets() == (6, 7)
    [item] = leader.fetches[2].partitions
    assert (item.last_fetched_epoch, item.current_leader_epoch, item.log_start_offset) == (0, 0, 0)
    assert (leader.fetches[2].replica_id, leader.fetches[2].replica_epoch) == (1, follower.epoch)
    assert leader.fetches[2].max_wait_ms == 500
    await world.stop()


@pytest.mark.rule("R5.24", "R10.20", "P24")
@virtually
async def test_the_log_start_follows_the_leaders_but_not_above_the_own_high_watermark() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    log = follower.partition().log
    assert log is not None
    for number, (start, high_watermark, expected) in enumerate([(3, 2, 2), (3, 5, 3), (1, 5, 3)]):
        answer = data(number * 5, 5, hw=high_watermark)
        leader.answers.put_nowait(replace(answer, log_start_offset=Offset(start)))
        await until(lambda: log.log_end_offset == number * 5 + 5)  # noqa: B023 (awaited at once)
        assert (log.log_start_offset, log.high_watermark) == (expected, high_watermark)
    await until(lambda: leader.fetches[-1].partitions[0].log_start_offset == 3)
    await world.stop()


@pytest.mark.rule("R5.24")
@virtually
async def test_the_lag_is_what_the_leader_has_committed_beyond_the_next_fetch_and_never_negative() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)

    def lag() -> int | None:
        state = follower.agent.fetchers.state(TP)
        return None if state is None else state.lag

    assert lag() is None
    leader.answers.put_nowait(data(0, 5, hw=12))
    await until(lambda: lag() == 7)
    leader.answers.put_nowait(data(5, 10, hw=12))
    await until(lambda: lag() == 0)
    await world.stop()


@pytest.mark.rule("R5.11")
@virtually
async def test_a_fetch_asks_for_as_much_and_waits_as_long_as_the_settings_say() -> None:
    world = AgentWorld(
        replica_fetch_wait_max_ms=123,
        replica_fetch_min_bytes=7,
        replica_fetch_max_bytes=7777,
        replica_fetch_response_max_bytes=99_999,
    )
    follower, leader = await follow(world)
    # What asks for a session does not wait; this leader grants none.
    [first] = leader.fetches
    assert (first.max_wait_ms, first.session_id, first.session_epoch) == (0, 0, 0)
    leader.answers.put_nowait(())
    await until(lambda: len(leader.fetches) == 2)
    fetch = leader.fetches[1]
    assert (fetch.replica_id, fetch.replica_epoch, fetch.isolation_level) == (1, follower.epoch, 0)
    assert (fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes) == (123, 7, 99_999)
    [item] = fetch.partitions
    assert (item.topic, item.topic_id, item.partition_max_bytes) == (TOPIC, TOPIC_ID, 7777)
    assert (item.current_leader_epoch, item.last_fetched_epoch, item.log_start_offset) == (0, -1, 0)
    await world.stop()


@pytest.mark.rule("R0.5", "R5.3", "R5.22", "P21")
@virtually
async def test_an_answer_that_arrives_after_removal_or_in_a_new_epoch_is_dropped() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    await world.stop_replica(1)
    leader.answers.put_nowait(data(0, 5))
    await asyncio.sleep(1)
    assert follower.offsets() == (0, 0)
    await tell_again(world)
    await until(lambda: len(leader.fetches) == 2)
    await tell_again(world)
    leader.answers.put_nowait(data(0, 5, epoch=1))
    await until(lambda: len(leader.fetches) >= 3)
    assert follower.offsets() == (0, 0)
    leader.answers.put_nowait(data(0, 3, epoch=2))
    await until(lambda: follower.offsets() == (0, 3))
    await world.stop()


@pytest.mark.rule("R0.5", "R5.22", "P21")
@virtually
async def test_of_an_answer_under_way_only_what_is_still_fetched_is_appended() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    world.decide(2, [2], replicas=[1, 2], tp=OTHER)
    await world.tell(1, tp=OTHER)
    await until(lambda: len(leader.fetches) == 2)
    assert [item.partition for item in leader.fetches[1].partitions] == [0, 1]
    await world.stop_replica(1)
    leader.answers.put_nowait(())  # For the request that the new order interrupted.
    leader.answers.put_nowait((data(0, 5), replace(data(0, 4), partition=1)))
    await until(lambda: follower.offsets(OTHER) == (0, 4))
    assert follower.offsets() == (0, 0)
    await world.stop()


@pytest.mark.rule("R5.25", "R5.28", "R5.30")
@pytest.mark.parametrize(
    "answer",
    [
        *(
            error(code)
            for code in (
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_ID,
                ErrorCode.INCONSISTENT_TOPIC_ID,
                ErrorCode.KAFKA_STORAGE_ERROR,
                ErrorCode.UNKNOWN_SERVER_ERROR,
            )
        ),
        FetchResponse(ErrorCode.UNKNOWN_SERVER_ERROR),
        data(0, flip=True),
    ],
    ids=lambda answer: f"{type(answer).__name__} {answer.error_code.name}",
)
def test_most_errors_and_corrupt_records_only_delay_the_same_fetch(answer: FetchPartitionData | FetchResponse) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        follower, leader = await follow(world)
        leader.answers.put_nowait(answer)
        await asyncio.sleep(0.9)
        assert len(leader.fetches) == 1
        await until(lambda: len(leader.fetches) == 2)
        assert leader.offsets == [0, 0]
        assert follower.offsets() == (0, 0)
        assert follower.agent.fetchers.failed == ()
        await world.stop()

    check()


@pytest.mark.rule("R5.4", "R5.25", "P42")
@virtually
async def test_a_fenced_fetcher_gives_up_until_the_next_order() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    leader.answers.put_nowait(error(ErrorCode.FENCED_LEADER_EPOCH))
    await asyncio.sleep(5)
    assert follower.agent.fetchers.failed == (TP,)
    assert len(leader.fetches) == 1
    await tell_again(world)
    assert follower.agent.fetchers.failed == ()
    leader.answers.put_nowait(data(0, 3, epoch=1))
    await until(lambda: follower.offsets() == (0, 3))
    await world.stop()


@pytest.mark.rule("R5.30", "P21")
@virtually
async def test_a_batch_of_a_newer_epoch_than_the_fetchers_is_never_appended() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    leader.answers.put_nowait(data(0, epoch=1))
    await asyncio.sleep(5)
    assert follower.offsets() == (0, 0)
    assert set(leader.offsets) == {0}
    await world.stop()


@pytest.mark.rule("R5.24", "R5.27")
@virtually
async def test_a_log_that_moved_under_its_fetcher_is_an_internal_error_of_that_partition_alone() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    log = follower.partition().log
    assert log is not None
    log.append_as_follower(data(0, 2).records, LeaderEpoch(0))
    leader.answers.put_nowait(data(0, 3))
    await until(lambda: follower.agent.fetchers.failed == (TP,))
    assert follower.offsets() == (0, 2)
    await world.stop()


@pytest.mark.rule("R5.21")
@pytest.mark.parametrize(
    ("start", "end", "log", "expected"),
    [
        (0, 3, (0, 3), 3),  # The leader ends below us: cut.
        (20, 30, (20, 20), 20),  # The leader begins above us: start over.
        (2, 30, (0, 10), 10),  # Between: go on at our end.
    ],
)
def test_out_of_range_asks_the_leader_where_to_go_on(start: int, end: int, log: tuple[int, int], expected: int) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        follower, leader = await follow(world)
        leader.answers.put_nowait(data(0, 3))
        leader.answers.put_nowait(data(3, 7))
        leader.start, leader.end = start, end
        leader.answers.put_nowait(error(ErrorCode.OFFSET_OUT_OF_RANGE))
        await until(lambda: len(leader.fetches) == 4)
        assert leader.offsets == [0, 3, 10, expected]
        replica = follower.partition().log
        assert replica is not None
        assert (replica.log_start_offset, replica.log_end_offset) == log
        await world.stop()

    check()


@pytest.mark.rule("R5.8")
@virtually
async def test_a_new_order_does_not_wait_for_the_long_poll_of_the_old_one() -> None:
    world = AgentWorld()
    _, leader = await follow(world)
    await tell_again(world)
    before = asyncio.get_running_loop().time()
    await until(lambda: len(leader.fetches) == 2)
    assert asyncio.get_running_loop().time() - before < 0.1
    assert leader.fetches[1].partitions[0].current_leader_epoch == LeaderEpoch(1)
    await world.stop()
