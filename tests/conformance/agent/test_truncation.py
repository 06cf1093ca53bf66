"""Truncation of a follower's log to its leader's, in both modes, with failures."""

import asyncio

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode, StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.data import EpochEndOffset, OffsetForLeaderResult
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, until, virtually
from tests.brokers.followers import PlayedLeader, data, error, follow, tell_again

OTHER = TopicPartition(TOPIC, 1)


def epoch_end(
    epoch: int, offset: int, *, partition: int = 0, code: ErrorCode = ErrorCode.NONE
) -> OffsetForLeaderResult:
    return OffsetForLeaderResult(TOPIC, partition, code, LeaderEpoch(epoch), Offset(offset))


async def follow_by_epoch_query(
    world: AgentWorld, *, end: int = 5, high_watermark: int = 3
) -> tuple[AgentProcess, PlayedLeader]:
    """A follower with records of epoch 0 up to `end`, that has just been told of epoch 1."""
    follower, leader = await follow(world)
    leader.answers.put_nowait(data(0, end, hw=high_watermark))
    await until(lambda: len(leader.fetches) == 2)
    await tell_again(world)
    await until(lambda: len(leader.questions) == 1)
    return follower, leader


def epochs(follower: AgentProcess, tp: TopicPartition = TP) -> list[tuple[int, int]]:
    log = follower.logs.get(tp)
    assert log is not None
    return [(entry.epoch, entry.start_offset) for entry in log.epoch_entries]


@pytest.mark.rule("R5.13", "R5.8", "R5.9")
@virtually
async def test_a_log_without_epochs_is_cut_to_the_high_watermark_without_a_question() -> None:
    world = AgentWorld(klamm_replica_truncation_mode="epoch-query")
    _, leader = await follow(world)
    assert leader.questions == []
    [item] = leader.fetches[0].partitions
    assert (item.fetch_offset, item.last_fetched_epoch, item.current_leader_epoch) == (0, -1, 0)
    await world.stop()


@pytest.mark.rule("R5.13", "R5.15", "R5.9")
@virtually
async def test_the_leader_is_asked_about_the_latest_epoch_and_the_log_is_cut_before_anything_is_fetched() -> None:
    world = AgentWorld(klamm_replica_truncation_mode="epoch-query")
    follower, leader = await follow_by_epoch_query(world)
    [question] = leader.questions[0].partitions
    assert (leader.questions[0].replica_id, question.topic, question.partition) == (1, TOPIC, 0)
    assert (question.leader_epoch, question.current_leader_epoch) == (0, 1)
    await asyncio.sleep(2)
    assert len(leader.fetches) == 2
    leader.epoch_ends.put_nowait((epoch_end(0, 4),))
    await until(lambda: len(leader.fetches) == 3)
    [item] = leader.fetches[2].partitions
    assert (item.fetch_offset, item.last_fetched_epoch, item.current_leader_epoch) == (4, -1, 1)
    assert follower.offsets() == (3, 4)
    await world.stop()


@pytest.mark.rule("R5.15")
@virtually
async def test_without_an_end_the_log_is_cut_to_the_high_watermark_at_which_fetching_began() -> None:
    world = AgentWorld(klamm_replica_truncation_mode="epoch-query")
    follower, leader = await follow_by_epoch_query(world)
    leader.epoch_ends.put_nowait((epoch_end(-1, -1),))
    await until(lambda: len(leader.fetches) == 3)
    assert follower.offsets() == (3, 3)
    await world.stop()


@pytest.mark.rule("R5.14")
@virtually
async def test_an_answer_about_epochs_counts_only_in_the_epoch_in_which_it_was_asked() -> None:
    world = AgentWorld(klamm_replica_truncation_mode="epoch-query")
    follower, leader = await follow_by_epoch_query(world)
    await tell_again(world)
    leader.epoch_ends.put_nowait((epoch_end(0, 1),))
    await until(lambda: len(leader.questions) == 2)
    assert follower.offsets()[1] == 5
    assert leader.questions[1].partitions[0].current_leader_epoch == 2
    await world.stop_replica(1)
    leader.epoch_ends.put_nowait((epoch_end(0, 1),))
    await asyncio.sleep(5)
    assert follower.offsets()[1] == 5
    await world.stop()


@pytest.mark.rule("R5.14", "R5.7")
@virtually
async def test_a_leader_that_answers_for_partitions_it_was_not_asked_about_is_not_believed_at_all() -> None:
    world = AgentWorld(klamm_replica_truncation_mode="epoch-query", replica_fetch_backoff_ms=200)
    follower, leader = await follow_by_epoch_query(world)
    dead = follower.metrics.gauge("kafka.server", "ReplicaFetcherManager", "DeadThreadCount", clientId="Replica")
    leader.epoch_ends.put_nowait((epoch_end(0, 1), epoch_end(0, 1, partition=7)))
    await until(lambda: dead.value == 1)
    assert follower.offsets() == (3, 5)
    assert len(leader.fetches) == 2
    await until(lambda: len(leader.questions) == 2)
    assert dead.value == 0
    leader.epoch_ends.put_nowait((epoch_end(0, 5),))
    await until(lambda: len(leader.fetches) == 3)
    await world.stop()


@pytest.mark.rule("R5.16")
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_question_about_epochs_that_is_refused_is_asked_again_after_the_back_off(code: ErrorCode) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld(klamm_replica_truncation_mode="epoch-query")
        follower, leader = await follow_by_epoch_query(world)
        leader.epoch_ends.put_nowait((epoch_end(-1, -1, code=code),))
        await asyncio.sleep(0.9)
        assert len(leader.questions) == 1
        await until(lambda: len(leader.questions) == 2, within_s=0.2)
        assert follower.offsets() == (3, 5)
        assert follower.agent.fetchers.failed == ()
        await world.stop()

    check()


@pytest.mark.rule("R5.16", "R5.4")
@virtually
async def test_a_fenced_question_about_epochs_gives_up_until_the_next_order() -> None:
    world = AgentWorld(klamm_replica_truncation_mode="epoch-query")
    follower, leader = await follow_by_epoch_query(world)
    leader.epoch_ends.put_nowait((epoch_end(-1, -1, code=ErrorCode.FENCED_LEADER_EPOCH),))
    await until(lambda: follower.agent.fetchers.failed == (TP,))
    await asyncio.sleep(10)
    assert (len(leader.questions), len(leader.fetches)) == (1, 2)
    await tell_again(world)
    assert follower.agent.fetchers.failed == ()
    await until(lambda: len(leader.questions) == 2)
    await world.stop()


@pytest.mark.rule("R5.17", "R5.4")
@pytest.mark.parametrize("failure", [StorageError("/data", "broken"), ValueError("a bug")], ids=["storage", "other"])
def test_a_truncation_that_fails_gives_up_its_partition_and_the_others_go_on(failure: Exception) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        follower, leader = await follow(world)
        world.decide(2, [2], replicas=[1, 2], tp=OTHER)
        await world.tell(1, tp=OTHER)
        await until(lambda: len(leader.fetches) == 2)
        leader.answers.put_nowait(())  # For the request that the second order interrupted.
        leader.answers.put_nowait((data(0, 5), replace(data(0, 5), partition=1)))
        await until(lambda: follower.offsets()[1] == follower.offsets(OTHER)[1] == 5)
        log = follower.partition().log
        assert log is not None

        def fail(_: Offset) -> bool:
            raise failure

        log.truncate_to = fail  # type: ignore[method-assign]
        diverging = replace(error(ErrorCode.NONE), diverging_epoch=EpochEndOffset(LeaderEpoch(0), Offset(2)))
        for _ in range(4):
            leader.answers.put_nowait((diverging, replace(diverging, partition=1)))
        await until(lambda: follower.agent.fetchers.failed == (TP,))
        await until(lambda: follower.offsets(OTHER)[1] == 2)
        assert follower.offsets()[1] == 5
        await world.stop()

    check()


@pytest.mark.rule("R5.17", "R5.4")
@pytest.mark.parametrize("failure", [StorageError("/data", "broken"), ValueError("a bug")], ids=["storage", "other"])
def test_a_cut_by_epoch_query_that_fails_gives_up_its_partition_and_the_others_go_on(failure: Exception) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld(klamm_replica_truncation_mode="epoch-query")
        follower, leader = await follow(world)
        world.decide(2, [2], replicas=[1, 2], tp=OTHER)
        await world.tell(1, tp=OTHER)
        await until(lambda: len(leader.fetches) == 2)
        leader.answers.put_nowait(())
        leader.answers.put_nowait((data(0, 5), replace(data(0, 5), partition=1)))
        await until(lambda: follower.offsets()[1] == follower.offsets(OTHER)[1] == 5)
        log = follower.partition().log
        assert log is not None

        def fail(_: Offset) -> bool:
            raise failure

        log.truncate_to = fail  # type: ignore[method-assign]
        for tp in (TP, OTHER):
            world.decide(2, [2], tp=tp)
        await world.tell_together(1, TP, OTHER)
        leader.epoch_ends.put_nowait((epoch_end(0, 2), epoch_end(0, 2, partition=1)))
        await until(lambda: follower.agent.fetchers.failed == (TP,))
        await until(lambda: follower.offsets(OTHER)[1] == 2)
        assert follower.offsets()[1] == 5
        await world.stop()

    check()


async def follow_with_short_epochs(world: AgentWorld) -> tuple[AgentProcess, PlayedLeader]:
    """The follower of E5: epoch 1 from 0, 4 from 30, 5 from 40, up to 50; the leader is in epoch 6."""
    follower, leader = await follow(world)
    world.decide(2, [2], replicas=[1, 2], leader_epoch=LeaderEpoch(5))
    await world.tell(1)
    await until(lambda: len(leader.fetches) == 2)
    leader.answers.put_nowait(())
    for answer in (data(0, 30, epoch=1), data(30, 10, epoch=4), data(40, 10, epoch=5)):
        leader.answers.put_nowait(answer)
    await until(lambda: follower.offsets()[1] == 50)
    assert epochs(follower) == [(1, 0), (4, 30), (5, 40)]
    await until(leader.answers.empty)
    world.decide(2, [2], replicas=[1, 2], leader_epoch=LeaderEpoch(6))
    await world.tell(1)
    return follower, leader


@pytest.mark.rule("R5.13", "R5.15", "E6")
@virtually
async def test_e6_a_question_is_repeated_with_what_is_left_until_leader_and_follower_agree() -> None:
    world = AgentWorld(klamm_replica_truncation_mode="epoch-query")
    follower, leader = await follow_with_short_epochs(world)
    leader.epoch_ends.put_nowait((epoch_end(3, 45),))
    await until(lambda: len(leader.questions) == 2)
    assert (follower.offsets()[1], epochs(follower)) == (30, [(1, 0)])
    fetched = len(leader.fetches)
    leader.epoch_ends.put_nowait((epoch_end(1, 20),))
    await until(lambda: len(leader.fetches) > fetched)
    assert [question.partitions[0].leader_epoch for question in leader.questions] == [5, 1]
    assert leader.fetches[-1].partitions[0].fetch_offset == 20
    assert (follower.offsets()[1], epochs(follower)) == (20, [(1, 0)])
    await world.stop()


@pytest.mark.rule("R5.15", "R5.23", "E5")
@virtually
async def test_e5_each_fetch_tells_how_far_leader_and_follower_agree() -> None:
    world = AgentWorld()
    follower, leader = await follow_with_short_epochs(world)
    await until(lambda: leader.fetches[-1].partitions[0].current_leader_epoch == 6)
    leader.answers.put_nowait(())  # For the long poll of the epoch before.
    for epoch, end in ((3, 45), (1, 20)):
        diverging = EpochEndOffset(LeaderEpoch(epoch), Offset(end))
        leader.answers.put_nowait(replace(error(ErrorCode.NONE), diverging_epoch=diverging))
    await until(lambda: leader.offsets[-1] == 20)
    items = [fetch.partitions[0] for fetch in leader.fetches]
    asked = [(item.fetch_offset, item.last_fetched_epoch) for item in items if item.current_leader_epoch == 6]
    assert list(dict.fromkeys(asked)) == [(50, 5), (30, 1), (20, 1)]
    assert (follower.offsets()[1], epochs(follower)) == (20, [(1, 0)])
    await world.stop()


@pytest.mark.rule("R5.19", "R5.23", "R10.14")
@virtually
async def test_a_cut_below_the_high_watermark_takes_it_down_and_the_rest_of_a_diverging_answer_is_not_used() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    leader.answers.put_nowait(data(0, 5, hw=5))
    await until(lambda: follower.offsets() == (5, 5))
    diverging = replace(data(5, 4, hw=9), diverging_epoch=EpochEndOffset(LeaderEpoch(0), Offset(3)))
    leader.answers.put_nowait(replace(diverging, log_start_offset=Offset(2)))
    await until(lambda: len(leader.fetches) >= 3 and leader.offsets[-1] == 3)
    assert follower.offsets() == (3, 3)
    log = follower.partition().log
    assert log is not None
    assert log.log_start_offset == 0
    [item] = leader.fetches[-1].partitions
    assert item.last_fetched_epoch == 0
    await world.stop()


@pytest.mark.rule("R5.18")
@virtually
async def test_an_epoch_without_records_is_forgotten_by_a_cut_that_removes_no_byte() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    leader.answers.put_nowait(data(0, 5, hw=5))
    await until(lambda: follower.offsets() == (5, 5))
    world.decide(1, [1], replicas=[1, 2])
    await world.tell(1)
    assert epochs(follower) == [(0, 0), (1, 5)]
    await tell_again(world)
    await until(lambda: leader.fetches[-1].partitions[0].last_fetched_epoch == 1)
    diverging = replace(error(ErrorCode.NONE), diverging_epoch=EpochEndOffset(LeaderEpoch(0), Offset(5)))
    leader.answers.put_nowait(error(ErrorCode.UNKNOWN_SERVER_ERROR))  # For the request of the first epoch.
    leader.answers.put_nowait(diverging)
    await until(lambda: leader.fetches[-1].partitions[0].last_fetched_epoch == 0)
    assert epochs(follower) == [(0, 0)]
    assert follower.offsets() == (5, 5)
    await world.stop()


@pytest.mark.rule("R5.21")
@pytest.mark.parametrize("refused_before", [[], [ErrorCode.NONE]], ids=["end", "start"])
@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_a_leader_that_does_not_tell_its_offsets_is_asked_again_and_nothing_changes(
    code: ErrorCode, refused_before: list[ErrorCode]
) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        follower, leader = await follow(world)
        leader.answers.put_nowait(data(0, 5))
        await until(lambda: len(leader.fetches) == 2)
        leader.start, leader.end = 20, 30
        leader.refusals = [*refused_before, code]
        leader.answers.put_nowait(error(ErrorCode.OFFSET_OUT_OF_RANGE))
        await asyncio.sleep(0.9)
        assert leader.offsets == [0, 5]
        assert follower.offsets() == (0, 5)
        await until(lambda: len(leader.fetches) == 3, within_s=0.2)
        assert leader.offsets == [0, 5, 5]
        assert follower.agent.fetchers.failed == ()
        await world.stop()

    check()


@pytest.mark.rule("R5.9")
@virtually
async def test_followers_of_both_kinds_follow_one_leader() -> None:
    world = AgentWorld(replica_fetch_backoff_ms=50)
    await world.start(1, 2)
    world.settings = world.settings.model_copy(update={"klamm_replica_truncation_mode": "epoch-query"})
    world.agents[3] = AgentProcess(world, BrokerId(3))
    await world.agents[3].start()
    modes = [agent.agent.manager.settings.klamm_replica_truncation_mode for agent in world.agents.values()]
    assert modes == ["fetch", "fetch", "epoch-query"]
    await world.create(1, [1, 2, 3])
    await world.agents[1].produce(5, acks=-1)
    for leader in (2, 1, 3):
        for follower in {1, 2, 3} - {leader}:
            world.network.cut(f"broker-{follower}:9092", f"broker-{leader}:9092")
        world.decide(leader, [1, 2, 3])
        await world.tell(leader)
        await world.agents[leader].produce(3)
        for follower in {1, 2, 3} - {leader}:
            world.network.heal(f"broker-{follower}:9092", f"broker-{leader}:9092")
            await world.tell(follower)
        await until(lambda: len({agent.offsets() for agent in world.agents.values()}) == 1, within_s=60)
    assert {tuple(epochs(agent)) for agent in world.agents.values()} == {((0, 0), (1, 5), (2, 8), (3, 11))}
    await world.stop()
