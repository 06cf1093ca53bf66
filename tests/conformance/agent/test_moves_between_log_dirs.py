"""A replica moves to another log directory of its broker while it leads or follows: nobody notices."""

import asyncio

import pytest

from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from state_log.record import Kind
from tests.brokers.agents import TOPIC, TOPIC_ID, TP, AgentProcess, finished, until, virtually
from tests.brokers.log_dirs import (
    RATE,
    A,
    B,
    C,
    content,
    describe,
    directory_of,
    limit_copies,
    move,
    moved,
    other_than,
    partition_dirs,
    world_of_directories,
)

NONE = ErrorCode.NONE


@pytest.mark.rule("R11.7")
@virtually
async def test_each_log_directory_is_described_with_its_replicas_and_its_space() -> None:
    world = world_of_directories(A, B, C)
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    await process.produce(3)
    at = directory_of(process)
    empty, failed = (path for path in world.log_dirs if path != at)
    process.disk.break_directory(failed)
    described = await describe(process)
    assert described[failed].error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (described[failed].topics, described[failed].total_bytes, described[failed].usable_bytes) == ((), -1, -1)
    assert (described[empty].error_code, described[empty].topics) == (NONE, ())
    [topic] = described[at].topics
    [replica] = topic.partitions
    assert (topic.name, replica.partition_index, replica.offset_lag, replica.is_future_key) == (TOPIC, 0, 0, False)
    assert replica.partition_size == len(content(process.partition().log))
    assert 0 < described[at].usable_bytes <= described[at].total_bytes
    assert (await describe(process, TopicPartition("other", 0)))[at].topics == ()
    assert (await describe(process, TP))[at] == described[at]
    await world.stop()


@pytest.mark.rule("R11.7")
@virtually
async def test_the_lag_of_a_replica_is_unknown_until_it_has_a_role() -> None:
    world = world_of_directories()
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    for _ in range(5):
        await process.produce(10)
    source = directory_of(process)
    await limit_copies(world, 100)
    assert await move(process, other_than(source)) == [NONE]
    await asyncio.sleep(3)
    known = await lags(process)
    assert known[False] == 0
    assert known[True] > 0
    await process.crash()
    await asyncio.sleep(7)
    await process.start()
    assert await lags(process) == {False: -1, True: -1}
    world.decide(1, (1,))
    await world.update_metadata()
    await world.tell(1)
    assert min((await lags(process)).values()) == 0
    await world.stop()


async def lags(process: AgentProcess) -> dict[bool, int]:
    """Whether it is the copy -> lag of the replica."""
    described = await describe(process)
    partitions = [p for directory in described.values() for topic in directory.topics for p in topic.partitions]
    return {partition.is_future_key: partition.offset_lag for partition in partitions}


@pytest.mark.rule("R11.7", "R11.8", "R11.10", "R11.12", "R11.13")
@virtually
async def test_a_leader_moves_under_load_and_nobody_notices() -> None:
    world = world_of_directories(log_segment_bytes=2000, log_segment_delete_delay_ms=5000)
    await world.start(1, 2)
    await world.create(1, (1, 2))
    leader, follower = world.agents[1], world.agents[2]
    for _ in range(50):
        await leader.produce(10)
    source = directory_of(leader)
    target = other_than(source)
    acknowledged: list[int] = []

    async def load() -> None:
        while directory_of(leader) == source or len(acknowledged) % 50:
            result = await leader.produce(2, acks=-1)
            assert result.error_code is NONE
            acknowledged.append(result.base_offset)

    producing = asyncio.ensure_future(load())
    waiting = asyncio.ensure_future(leader.fetch(100_000, max_wait_ms=600_000))
    await limit_copies(world, 20_000)
    partition, role = leader.partition(), (leader.partition().leader_epoch, leader.partition().isr)
    assert await move(leader, target) == [NONE]
    future = (await describe(leader))[target].topics[0].partitions[0]
    assert future.is_future_key
    assert future.offset_lag > 0
    assert partition_dirs(leader) == {source: ["orders-0"], target: ["future"]}
    assert await move(leader, target) == [NONE]
    await limit_copies(world, None)
    await moved(leader, target)
    await finished(producing)
    assert (leader.partition(), (partition.leader_epoch, partition.isr)) == (partition, role)
    assert acknowledged == sorted(acknowledged)
    await until(lambda: follower.offsets() == leader.offsets())
    assert content(leader.partition().log) == content(follower.partition().log)
    assert partition_dirs(leader) == {source: ["delete"], target: ["orders-0"]}
    assert partition.future_log is None
    waiting.cancel()
    await asyncio.sleep(10)
    assert partition_dirs(leader) == {source: [], target: ["orders-0"]}
    assert world.controller.requests == []
    await world.stop()


@pytest.mark.rule("R11.10", "R11.12")
@virtually
async def test_a_follower_moves_while_it_fetches() -> None:
    world = world_of_directories()
    await world.start(1, 2)
    await world.create(1, (1, 2))
    leader, follower = world.agents[1], world.agents[2]
    target = other_than(directory_of(follower))
    for number in range(300):
        await leader.produce(3, acks=-1)
        if number == 100:
            assert await move(follower, target) == [NONE]
    await moved(follower, target)
    await until(lambda: follower.offsets() == leader.offsets())
    assert content(leader.partition().log) == content(follower.partition().log)
    assert world.controller.requests == []
    await world.stop()


@pytest.mark.rule("R11.8")
@virtually
async def test_what_is_answered_to_a_request_to_move() -> None:
    world = world_of_directories(A, B, C)
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    source = directory_of(process)
    target, third = (path for path in world.log_dirs if path != source)
    unknown, long = TopicPartition("unknown", 7), TopicPartition("t" * 240, 0)
    assert await move(process, target, long) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert await move(process, "/elsewhere") == [ErrorCode.LOG_DIR_NOT_FOUND]
    assert await move(process, source) == [NONE]
    assert await move(process, target, unknown) == [ErrorCode.REPLICA_NOT_AVAILABLE]
    assert await move(process, f"{target}/", dry_run=True) == [NONE]
    assert (process.logs.futures.all, dict(process.logs.futures.preferred)) == ({}, {unknown: target})
    # The preference is for a log that is created later.
    world.decide(1, (1,), tp=unknown)
    await world.update_metadata()
    assert await world.tell(1, tp=unknown, topic_id=None) is NONE
    assert directory_of(process, unknown) == target
    assert process.logs.futures.preferred == {}
    process.disk.break_directory(third)
    await describe(process)
    assert await move(process, third) == [ErrorCode.KAFKA_STORAGE_ERROR]
    # While any directory is failed, nothing is moved: what is in there is not known.
    assert await move(process, target) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert await move(process, target, dry_run=True) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert process.logs.futures.all == {}
    await world.stop()


@pytest.mark.rule("R11.8")
@virtually
async def test_a_move_to_another_directory_or_back_ends_the_one_that_is_running() -> None:
    world = world_of_directories(A, B, C)
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    for _ in range(20):
        await process.produce(10)
    source = directory_of(process)
    second, third = (path for path in world.log_dirs if path != source)
    await limit_copies(world, 100)
    assert await move(process, second) == [NONE]
    await asyncio.sleep(3)
    assert await move(process, third) == [NONE]
    assert partition_dirs(process) == {source: ["orders-0"], second: ["delete"], third: ["future"]}
    assert await move(process, source) == [NONE]
    assert partition_dirs(process) == {source: ["orders-0"], second: ["delete"], third: ["delete"]}
    assert (process.logs.paused, process.partition().future_log) == (set(), None)
    await limit_copies(world, None)
    await asyncio.sleep(5)
    assert directory_of(process) == source
    assert await move(process, third) == [NONE]
    await moved(process, third)
    await world.stop()


def recorded_moves(process: AgentProcess) -> list[tuple[str | None, str | None, str | None]]:
    """What is recorded of moves: state, cause, from where to where."""
    records = [record for record in process.records.all if record.kind is Kind.DIRECTORY_MOVE]
    assert all((r.topic, r.partition, r.topic_id, r.broker) == (*TP, TOPIC_ID, process.id) for r in records)
    return [(record.to_state, record.cause and record.cause.event, record.reason) for record in records]


@pytest.mark.rule("R11.8", "R11.12", "R11.3", "R4.3")
@virtually
async def test_the_beginning_and_the_end_of_each_move_are_recorded() -> None:
    world = world_of_directories(A, B, C)
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    await process.produce(10)
    source = directory_of(process)
    second, third = (path for path in world.log_dirs if path != source)
    asked, expected = "AlterReplicaLogDirs", []
    await limit_copies(world, 0)
    assert await move(process, second) == [NONE]
    assert await move(process, second, dry_run=True) == [NONE]
    expected.append(("started", asked, f"from {source} to {second}"))
    assert await move(process, third) == [NONE]
    expected.append(("abandoned", asked, f"from {source} to {second}"))
    expected.append(("started", asked, f"from {source} to {third}"))
    assert recorded_moves(process) == expected
    await limit_copies(world, None)
    await moved(process, third)
    expected.append(("completed", asked, f"from {source} to {third}"))
    await limit_copies(world, 0)
    assert await move(process, source) == [NONE]
    expected.append(("started", asked, f"from {third} to {source}"))
    await world.stop_replica(1, delete=True)
    expected.append(("abandoned", "StopReplica", f"from {third} to {source}"))
    assert recorded_moves(process) == expected
    world.decide(1, (1,), is_new=True)
    await world.tell(1)
    where = directory_of(process)
    target = next(path for path in world.log_dirs if path != where)
    assert await move(process, target) == [NONE]
    expected.append(("started", asked, f"from {where} to {target}"))
    process.disk.break_directory(target)
    await describe(process)
    expected.append(("abandoned", "LogDirectoryFailure", f"from {where} to {target}"))
    await until(lambda: recorded_moves(process) == expected)
    await world.stop()


@pytest.mark.rule("R11.8", "R11.9")
@virtually
async def test_an_offline_replica_is_not_moved() -> None:
    world = world_of_directories()
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    source = directory_of(process)
    process.disk.break_directory(source)
    await describe(process)
    await until(lambda: process.agent.manager.is_offline(TP))
    assert await move(process, other_than(source)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    await world.stop()


@virtually
async def test_a_throttle_of_copies_that_nobody_needs_is_a_finding_with_the_command_that_removes_it() -> None:
    world = world_of_directories()
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    await process.produce(50)
    assert [*process.agent.findings()] == []
    await limit_copies(world, 1)
    target = other_than(directory_of(process))
    await move(process, target)
    # While a replica is copied, the throttle has its use.
    assert [*process.agent.findings()] == []
    await limit_copies(world, 10_000_000)
    await moved(process, target)
    [found] = process.agent.findings()
    assert (found.kind, found.broker) == ("forgotten_throttle", 1)
    assert f"{RATE} is 10000000 bytes/s, and no replica is being moved" in found.detail
    assert f"'klamm brokers alter 1 --delete-config {RATE}'" in found.detail
    await limit_copies(world, None)
    assert [*process.agent.findings()] == []
    await limit_copies(world, 7, of_all=True)
    [found] = process.agent.findings()
    assert f"'klamm brokers alter default --delete-config {RATE}'" in found.detail
    await world.stop()
