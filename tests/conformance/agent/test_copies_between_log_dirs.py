"""The copy of a replica in another log directory, through role changes, restarts, truncations, failures and limits."""

import asyncio

import pytest

from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import DeleteRecordsPartition, DeleteRecordsRequest
from simulator.record_batches import encode_batch
from tests.brokers.agents import TOPIC, TP, finished, until, virtually
from tests.brokers.log_dirs import (
    A,
    B,
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


@pytest.mark.rule("R11.10", "R2.13", "R5.16")
@virtually
async def test_a_role_change_lets_the_copy_go_on_in_the_new_epoch() -> None:
    world = world_of_directories()
    await world.start(1, 2)
    await world.create(1, (1, 2))
    process = world.agents[1]
    for _ in range(50):
        await process.produce(10, acks=-1)
    target = other_than(directory_of(process))
    await limit_copies(world, 1000)
    assert await move(process, target) == [NONE]
    await asyncio.sleep(1)
    for leader in (2, 1, 2):
        world.decide(leader, (1, 2))
        await world.update_metadata()
        await world.tell(1, 2)
        state = process.agent.copies.state(TP)
        assert state is not None
        assert state.leader_epoch == world.states[TP].leader_epoch
        await asyncio.sleep(2)
        assert process.agent.copies.failed == ()
    await limit_copies(world, None)
    await moved(process, target)
    await until(lambda: process.offsets() == world.agents[2].offsets())
    assert content(process.partition().log) == content(world.agents[2].partition().log)
    await world.stop()


@pytest.mark.rule("R2.13", "R9.8", "R9.14")
@pytest.mark.parametrize("power_fails", [False, True])
def test_a_move_goes_on_after_a_restart(power_fails: bool) -> None:
    @virtually
    async def run() -> None:
        world = world_of_directories(log_segment_bytes=1000)
        await world.start(1, 2)
        await world.create(2, (2, 1))
        leader, process = world.agents[2], world.agents[1]
        for _ in range(50):
            await leader.produce(10, acks=-1)
        target = other_than(directory_of(process))
        await limit_copies(world, 1000)
        assert await move(process, target) == [NONE]
        await asyncio.sleep(8)
        await process.crash(power_fails=power_fails)
        await asyncio.sleep(7)
        await process.start()
        # Nothing is copied before the role is known.
        future = process.logs.futures.get(TP)
        assert future is not None
        assert future.log_end_offset > 0
        assert (process.agent.copies.state(TP), process.logs.paused) == (None, set())
        world.decide(2, (2, 1))
        await world.update_metadata()
        await world.tell(2, 1)
        assert process.partition().future_log is future
        assert process.logs.paused == {TP}
        await limit_copies(world, None)
        await moved(process, target)
        await until(lambda: process.offsets() == leader.offsets())
        assert content(process.partition().log) == content(leader.partition().log)
        await world.stop()

    run()


@pytest.mark.rule("R5.20", "R11.11")
@virtually
async def test_a_truncation_of_the_current_log_reaches_the_copy() -> None:
    world = world_of_directories()
    await world.start(1, 2)
    await world.create(1, (1, 2))
    process, other = world.agents[1], world.agents[2]
    for _ in range(10):
        await process.produce(10, acks=-1)
    target = other_than(directory_of(process))
    # What follows is on this broker only, and is truncated when the other one leads.
    for ends in (("broker-2:9092", "broker-1:9092"), ("broker-1:9092", "broker-2:9092")):
        world.network.cut(*ends)
    for _ in range(10):
        await process.produce(10)
    assert process.offsets() == (100, 200)
    await limit_copies(world, 800)
    assert await move(process, target) == [NONE]
    copied = process.logs.futures.get(TP)
    assert copied is not None
    await until(lambda: copied.log_end_offset >= 150)
    await limit_copies(world, 0)
    world.decide(2, (2,), replicas=(1, 2))
    await world.update_metadata()
    await world.tell(2)
    world.network.heal_all()
    await world.tell(1)
    await other.produce(10)
    await until(lambda: process.offsets()[1] == 110)
    state = process.agent.copies.state(TP)
    assert state is not None
    assert (state.is_truncating, copied.log_end_offset >= 150) == (True, True)
    await limit_copies(world, None)
    await moved(process, target)
    await until(lambda: process.offsets() == other.offsets())
    assert content(process.partition().log) == content(other.partition().log)
    await world.stop()


@pytest.mark.rule("R5.20", "R11.11")
@virtually
async def test_a_copy_is_marked_for_truncation_to_the_lower_of_both_offsets() -> None:
    world = world_of_directories()
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    for _ in range(10):
        await process.produce(10)
    await limit_copies(world, 0)
    assert await move(process, other_than(directory_of(process))) == [NONE]
    copies = process.agent.copies
    for at, expected in ((70, 0), (0, 0)):
        copies.mark_for_truncation(TP, Offset(at))
        state = copies.state(TP)
        assert state is not None
        assert (state.is_truncating, state.fetch_offset) == (True, expected)
    copies.mark_for_truncation(TopicPartition("other", 1), Offset(5))
    await world.stop()


@pytest.mark.rule("R4.3", "R11.8")
@virtually
async def test_a_copy_stops_and_goes_with_its_replica() -> None:
    world = world_of_directories()
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    for _ in range(10):
        await process.produce(10)
    source = directory_of(process)
    await limit_copies(world, 10)
    assert await move(process, other_than(source)) == [NONE]
    await world.stop_replica(1)
    assert process.agent.copies.state(TP) is None
    assert partition_dirs(process) == {source: ["orders-0"], other_than(source): ["future"]}
    world.decide(1, (1,))
    await world.tell(1)
    assert process.agent.copies.state(TP) is not None
    await world.stop_replica(1, delete=True)
    assert partition_dirs(process) == {source: ["delete"], other_than(source): ["delete"]}
    assert (process.logs.futures.all, process.logs.paused) == ({}, set())
    assert process.disk.read_file(f"{other_than(source)}/replication-offset-checkpoint") in (None, b"0\n0\n")
    await world.stop()


@pytest.mark.rule("R11.3", "R11.5")
@virtually
async def test_a_move_ends_when_the_directory_that_it_goes_to_fails() -> None:
    world = world_of_directories()
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    await process.produce(10)
    source = directory_of(process)
    await limit_copies(world, 0)
    assert await move(process, other_than(source)) == [NONE]
    process.disk.break_directory(other_than(source))
    await describe(process)
    await until(lambda: process.partition().future_log is None)
    assert (process.logs.futures.all, process.logs.paused, process.agent.copies.state(TP)) == ({}, set(), None)
    assert (await process.produce(1)).error_code is NONE
    await world.stop()


@pytest.mark.rule("R11.3", "R11.5")
@virtually
async def test_a_move_ends_with_a_replica_whose_directory_fails() -> None:
    world = world_of_directories()
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    await process.produce(10)
    source = directory_of(process)
    await limit_copies(world, 0)
    assert await move(process, other_than(source)) == [NONE]
    process.disk.break_directory(source)
    await describe(process)
    await until(lambda: process.agent.manager.is_offline(TP))
    assert process.agent.copies.state(TP) is None
    # Its files are untouched: the move continues when the directory is back.
    assert process.disk.list_directory(other_than(source))
    assert process.logs.futures.get(TP) is not None
    await world.stop()


@pytest.mark.rule("R11.10", "R7.15", "R11.8")
@virtually
async def test_the_log_start_of_the_copy_follows_and_holds_back_the_low_watermark() -> None:
    world = world_of_directories(log_segment_bytes=1000, log_retention_bytes=1000, log_initial_task_delay_ms=0)
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    for _ in range(20):
        await process.produce(10)
    await limit_copies(world, 1000)
    source = directory_of(process)
    assert await move(process, other_than(source)) == [NONE]
    future = process.logs.futures.get(TP)
    assert future is not None
    await until(lambda: future.log_end_offset >= 20)
    await limit_copies(world, 0)
    request = DeleteRecordsRequest(partitions=(DeleteRecordsPartition(TOPIC, 0, Offset(150)),), timeout_ms=600_000)
    deletion = asyncio.ensure_future(process.handle(request))
    await asyncio.sleep(1)
    assert not deletion.done()
    assert process.partition().low_watermark < 150
    # What is being copied is left alone by retention.
    log = process.partition().log
    assert log is not None
    await process.logs.enforce_retention(world.clock.now_ms())
    assert log.segments.first.base_offset == 0
    await limit_copies(world, None)
    await moved(process, other_than(source))
    [result] = (await finished(deletion)).partitions
    assert (result.error_code, result.low_watermark) == (NONE, 150)
    moved_log = process.partition().log
    assert moved_log is not None
    assert moved_log.log_start_offset == 150
    await process.logs.enforce_retention(world.clock.now_ms())
    assert moved_log.segments.first.base_offset > 0
    await world.stop()


@pytest.mark.rule("R11.12", "R3.7a", "R7.6")
@virtually
async def test_what_is_not_in_the_batches_moves_too() -> None:
    """Epochs of leaderships without records, producers whose batches were deleted, the high watermark."""
    world = world_of_directories()
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    log = process.partition().log
    assert log is not None
    batch = encode_batch(b"r" * 20, 3, producer_id=77, producer_epoch=2, base_sequence=0)
    log.append_as_leader(batch, LeaderEpoch(0), 1)
    await process.produce(10)
    for _ in range(2):
        world.decide(1, (1,))
        await world.tell(1)
    log.raise_log_start_offset(Offset(5))
    before = log.epoch_entries, log.producers.encode(), log.high_watermark, log.log_start_offset
    source = directory_of(process)
    assert await move(process, other_than(source)) == [NONE]
    await moved(process, other_than(source))
    log = process.partition().log
    assert log is not None
    assert (log.epoch_entries, log.producers.encode(), log.high_watermark, log.log_start_offset) == before
    again = log.append_as_leader(batch, LeaderEpoch(2), 1)
    assert again.duplicate
    await process.crash(power_fails=True)
    await asyncio.sleep(7)
    await process.start()
    log = process.logs.get(TP)
    assert log is not None
    assert log.directory == other_than(source)
    assert (log.producers.encode(), log.log_start_offset) == (before[1], before[3])
    await world.stop()


@pytest.mark.rule("R11.10")
@virtually
async def test_copies_take_their_turns_in_order_and_the_throttle_is_one_for_all() -> None:
    world = world_of_directories(num_replica_alter_log_dirs_threads=1)
    await world.start(1)
    process = world.agents[1]
    partitions = [TopicPartition(TOPIC, number) for number in range(4)]
    for tp in partitions:
        world.decide(1, (1,), tp=tp)
    await world.update_metadata()
    for tp in partitions:
        await world.tell(1, tp=tp)
        for _ in range(10):
            await process.produce(10, tp=tp)
    sizes = {tp: len(content(process.partition(tp).log)) for tp in partitions}
    await limit_copies(world, 0)
    chosen = [tp for tp in reversed(partitions) if directory_of(process, tp) == A]
    assert len(chosen) == 2
    assert await move(process, B, *chosen) == [NONE, NONE]
    await limit_copies(world, 100)
    started = asyncio.get_running_loop().time()
    first, second = sorted(chosen)
    await until(lambda: directory_of(process, first) == B, within_s=600)
    assert process.logs.futures.all.keys() == {second}
    await until(lambda: directory_of(process, second) == B, within_s=600)
    took_s = asyncio.get_running_loop().time() - started
    assert took_s >= (sizes[first] + sizes[second]) / 100 - 2
    await world.stop()


@pytest.mark.rule("R11.10")
@virtually
async def test_several_replicas_are_copied_at_the_same_time_by_as_many_threads() -> None:
    world = world_of_directories()
    await world.start(1)
    process = world.agents[1]
    partitions = [TopicPartition(TOPIC, number) for number in range(8)]
    for tp in partitions:
        world.decide(1, (1,), tp=tp)
    await world.update_metadata()
    for tp in partitions:
        await world.tell(1, tp=tp)
        await process.produce(10, tp=tp)
    await limit_copies(world, 100)
    wanted = {tp: other_than(directory_of(process, tp)) for tp in partitions}
    for tp, path in wanted.items():
        await move(process, path, tp)
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert {name for name in names if "AlterLogDirs" in name} == {
        "ReplicaAlterLogDirsThread-0",
        "ReplicaAlterLogDirsThread-1",
    }
    await limit_copies(world, None)
    for tp, path in wanted.items():
        await moved(process, path, tp)
    world.decide(1, (1,), tp=partitions[0])
    await world.tell(1, tp=partitions[0])
    await asyncio.sleep(1)
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not {name for name in names if "AlterLogDirs" in name}
    await world.stop()


@pytest.mark.rule("R11.11", "R11.12")
@pytest.mark.parametrize("after_ms", range(0, 40, 2))
def test_a_log_that_is_truncated_and_written_again_while_its_copy_catches_up_is_not_swapped_for_it(
    after_ms: int,
) -> None:
    @virtually
    async def run() -> None:
        world = world_of_directories()
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
        for _ in range(8):
            await other.produce(10)
        world.network.heal_all()
        process.disk.latency_s = (0.001, 0.004)
        target = other_than(directory_of(process))
        assert await move(process, target) == [NONE]
        await asyncio.sleep(after_ms / 1000)
        await world.tell(1)
        await moved(process, target)
        await until(lambda: process.offsets() == other.offsets())
        assert content(process.partition().log) == content(other.partition().log)
        await world.stop()

    run()
