"""A broker with a full log directory: what its producers, followers and operators see, and how it recovers."""

import asyncio

import pytest

from broker_agent.damage.full_directories import FULL_LOG_DIRECTORY
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import DescribeFindingsRequest, Finding
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, until, virtually
from tests.brokers.log_dirs import A, B, describe, directory_of, limit_copies, move, moved, other_than

NONE, STORAGE = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR
OTHER = TopicPartition(TOPIC, 1)
RESERVE = 10_000


def world_with_reserve(*paths: str, **settings: object) -> AgentWorld:
    world = AgentWorld(
        klamm_log_dir_min_free_bytes=RESERVE,
        replica_lag_time_max_ms=2000,
        replica_fetch_backoff_ms=100,
        **settings,
    )
    world.log_dirs = paths or (A, B)
    return world


async def findings(process: AgentProcess, kind: str) -> list[Finding]:
    response = await process.handle(DescribeFindingsRequest())
    return [finding for finding in response.findings if finding.kind == kind]


def full_gauge(process: AgentProcess, path: str) -> float:
    value: float = process.metrics.gauge("klamm.log", "LogDirectory", "Full", logDirectory=path).value
    return value


def takes_records(process: AgentProcess, path: str) -> bool:
    return process.logs.directories[path].shortage is None


@pytest.mark.rule("FD-9")
@virtually
async def test_a_leader_refuses_records_below_the_threshold_by_the_name_of_the_directory_and_recovers() -> None:
    world = world_with_reserve()
    await world.start(1)
    process = world.agents[1]
    for tp in (TP, OTHER):
        world.decide(1, [1], tp=tp)
    await world.update_metadata()
    await world.tell_together(1, TP, OTHER)
    assert (await process.produce(3)).error_code is NONE
    full = directory_of(process)
    process.disk.limit(full, RESERVE - 1)
    await until(lambda: not takes_records(process, full))
    refused = await process.produce()
    assert refused.error_code is STORAGE
    assert refused.error_message.startswith(f"log directory {full}: is full: {RESERVE - 1} of ")
    assert "klamm.log.dir.min.free.bytes" in refused.error_message
    assert (await process.fetch(0)).records, "what is there is read"
    assert (await process.produce(tp=OTHER)).error_code is NONE, "the other directory takes records"
    [found] = await findings(process, FULL_LOG_DIRECTORY)
    assert f"log directory {full} of broker 1 is full" in found.detail
    assert full_gauge(process, full) == 1
    assert full_gauge(process, other_than(full)) == 0
    described = await describe(process)
    assert described[full].error_code is NONE
    assert described[full].error_message.startswith("full: ")
    assert described[other_than(full)].error_message == ""
    process.disk.limit(full, RESERVE + 1)
    await until(lambda: process.logs.directories[full].room.free == RESERVE + 1)
    assert (await process.produce()).error_code is STORAGE, "a quarter more is needed"
    process.disk.limit(full, None)
    await until(lambda: takes_records(process, full))
    assert (await process.produce()).error_code is NONE
    assert await findings(process, FULL_LOG_DIRECTORY) == []
    await until(lambda: full_gauge(process, full) == 0)
    assert process.logs.failures == {}
    await world.stop()


@pytest.mark.rule("FD-9")
@virtually
async def test_records_that_take_the_room_are_refused_before_the_disk_is_full() -> None:
    """The space is measured once a second; in between the bytes that are appended count."""
    world = world_with_reserve(A)
    await world.start(1)
    await world.create(1, [1])
    process = world.agents[1]
    process.disk.limit(A, RESERVE + 1500)
    await until(lambda: 0 <= process.logs.directories[A].room.free <= RESERVE + 1500)
    codes = []
    for _ in range(40):
        codes.append((await process.produce(50)).error_code)
        await asyncio.sleep(0.001)
    assert codes[0] is NONE
    assert codes[-1] is STORAGE
    assert process.disk.space(A)[1] > RESERVE - 2000
    await world.stop()


@pytest.mark.rule("FD-9", "R8.4")
@virtually
async def test_a_follower_on_a_full_directory_leaves_the_isr_and_comes_back() -> None:
    world = world_with_reserve(A)
    await world.start(1, 2)
    await world.create(1, [1, 2])
    leader, follower = world.agents[1], world.agents[2]
    assert (await leader.produce(1, acks=-1)).error_code is NONE
    follower.disk.limit(A, RESERVE - 1)
    await until(lambda: not takes_records(follower, A))
    at = follower.offsets()[1]
    assert (await leader.produce(3)).error_code is NONE
    await until(lambda: leader.partition().isr == (1,), within_s=10)
    assert follower.offsets()[1] == at
    assert follower.agent.fetchers.failed == ()
    assert (await leader.produce(1, acks=-1)).error_code is NONE
    follower.disk.limit(A, None)
    await until(lambda: leader.partition().isr == (1, 2), within_s=10)
    await until(lambda: follower.offsets() == leader.offsets())
    await world.stop()


@pytest.mark.rule("FD-9")
@virtually
async def test_a_role_that_had_no_room_is_asked_for_again_when_there_is() -> None:
    world = world_with_reserve(A)
    await world.start(1)
    process = world.agents[1]
    process.disk.limit(A, 0)
    await until(lambda: not takes_records(process, A))
    world.decide(1, [1])
    await world.update_metadata()
    assert await world.tell(1) is STORAGE
    assert not process.agent.manager.is_offline(TP)
    assert world.zookeeper.tree.children("/log_dir_event_notification") == ()
    process.disk.limit(A, None)
    await until(lambda: world.zookeeper.tree.children("/log_dir_event_notification") != ())
    assert await world.tell(1) is NONE
    assert (await process.produce()).error_code is NONE
    await world.stop()


@pytest.mark.rule("FD-9", "R11.8")
@virtually
async def test_a_move_to_a_directory_that_fills_waits_for_room() -> None:
    world = world_with_reserve()
    await world.start(1)
    await world.create(1, [1])
    process = world.agents[1]
    for _ in range(5):
        await process.produce(10)
    target = other_than(directory_of(process))
    await limit_copies(world, 0)
    assert await move(process, target) == [NONE]
    process.disk.limit(target, 0)
    await until(lambda: not takes_records(process, target))
    await limit_copies(world, None)
    assert (await process.produce(10)).error_code is NONE
    assert await findings(process, "stuck_directory_move") == []
    process.disk.limit(target, None)
    await moved(process, target)
    assert process.offsets() == (60, 60)
    await world.stop()


@pytest.mark.rule("FD-10")
@virtually
async def test_an_agent_whose_only_directory_has_no_room_to_be_opened_serves_it_when_it_has() -> None:
    world = world_with_reserve(A)
    await world.start(1)
    process = world.agents[1]
    await world.create(1, [1])
    await process.produce(3)
    await process.crash(power_fails=False)
    await until(lambda: world.zookeeper.tree.children("/brokers/ids") == ())
    # An index is malformed, and no other file can be made.
    process.disk.open_file(f"{A}/{TP}/{0:020d}.timeindex").append([b"no entry"])
    process.disk.limit(A, 0)
    await process.start()
    assert process.logs.live_directories == ()
    world.decide(1, [1])
    await world.update_metadata()
    assert await world.tell(1) is STORAGE
    [found] = await findings(process, "failed_log_directory")
    assert "No space left" in found.detail
    assert "returns by itself" in found.detail
    process.disk.limit(A, None)
    await until(lambda: process.logs.live_directories == (A,))
    await until(lambda: not process.agent.manager.is_offline(TP))
    assert await findings(process, "failed_log_directory") == []
    assert await world.tell(1) is NONE
    assert process.offsets() == (3, 3)
    assert (await process.produce()).error_code is NONE
    await world.stop()
