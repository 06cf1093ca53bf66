"""What an agent keeps on disk, and what it restores after a crash."""

import asyncio
import re

import pytest

from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import BrokerId, LeaderEpoch, Offset
from cluster.model.partition import TopicPartition
from tests.brokers.agents import TP, AgentProcess, AgentWorld, until, virtually
from tests.contract.log_worlds import InMemoryWorld, Node, batch, check_invariants, extents

POINTS = "recovery-point-offset-checkpoint"
STARTS = "log-start-offset-checkpoint"
WATERMARKS = "replication-offset-checkpoint"


def log_of(process: AgentProcess, tp: TopicPartition = TP) -> PartitionLog:
    log = process.logs.get(tp)
    assert log is not None
    return log


def checkpoint(process: AgentProcess, name: str) -> list[str] | None:
    """The entries of a checkpoint, None while it does not exist."""
    content = process.disk.read_file(f"/data/{name}")
    return None if content is None else content.decode().splitlines()[2:]


@pytest.mark.rule("R9.1", "R9.8", "R2.12")
@virtually
async def test_each_checkpoint_is_written_in_its_own_time() -> None:
    world = AgentWorld(
        replica_high_watermark_checkpoint_interval_ms=3000,
        log_flush_offset_checkpoint_interval_ms=40_000,
        log_flush_start_offset_checkpoint_interval_ms=20_000,
    )
    await world.start(1)
    process, names = world.agents[1], (WATERMARKS, STARTS, POINTS)
    await asyncio.sleep(10)
    assert [checkpoint(process, name) for name in names] == [None, [], None]
    await world.create(1, (1,))
    await process.produce(10)
    log_of(process).raise_log_start_offset(Offset(4))
    await asyncio.sleep(4)
    assert [checkpoint(process, name) for name in names] == [["orders 0 10"], [], None]
    await asyncio.sleep(7)
    assert [checkpoint(process, name) for name in names] == [["orders 0 10"], ["orders 0 4"], None]
    await log_of(process).flush()
    await asyncio.sleep(20)
    assert [checkpoint(process, name) for name in names] == [["orders 0 10"], ["orders 0 4"], ["orders 0 10"]]
    await world.stop()


@pytest.mark.rule("R9.8", "R3.2")
@virtually
async def test_a_log_without_a_role_keeps_its_high_watermark_in_the_checkpoint() -> None:
    world = AgentWorld(replica_high_watermark_checkpoint_interval_ms=1000)
    await world.start(1)
    await world.create(1, (1,))
    await world.agents[1].produce(10)
    await asyncio.sleep(2)
    await world.agents[1].crash()
    await asyncio.sleep(7)
    await world.agents[1].start()
    world.decide(2, (2,), replicas=(1, 2))
    await world.update_metadata()
    await world.tell(1)
    assert world.agents[1].partition().leader_epoch == -1
    await asyncio.sleep(2)
    assert checkpoint(world.agents[1], WATERMARKS) == ["orders 0 10"]
    await world.stop()


@pytest.mark.rule("R9.8", "R2.12", "R9.9")
@virtually
async def test_what_the_second_part_of_a_divided_order_names_keeps_its_high_watermark() -> None:
    other, deleted = TopicPartition("orders", 1), TopicPartition("orders", 2)
    world = AgentWorld(replica_high_watermark_checkpoint_interval_ms=1000)
    await world.start(1)
    await world.create(1, (1,))
    for tp in (other, deleted):
        world.decide(1, (1,), tp=tp)
    await world.update_metadata()
    await world.tell_together(1, other, deleted)
    for tp, count in ((TP, 10), (other, 4), (deleted, 3)):
        await world.agents[1].produce(count, tp=tp)
    await asyncio.sleep(2)
    entries = ["orders 0 10", "orders 1 4", "orders 2 3"]
    assert sorted(checkpoint(world.agents[1], WATERMARKS) or ()) == entries
    await world.agents[1].crash()
    await asyncio.sleep(7)
    await world.agents[1].start()
    # The controller divides what is too large; the first part alone makes the checkpoints begin.
    for tp in (TP, other):
        world.decide(2, (2,), tp=tp, replicas=(1, 2))
    await world.tell(1)
    await asyncio.sleep(2)
    assert sorted(checkpoint(world.agents[1], WATERMARKS) or ()) == entries
    await world.stop_replica(1, delete=True, tp=deleted)
    await world.tell(1, tp=other)
    assert world.agents[1].offsets(other) == (4, 4)
    await world.tell(1)
    await asyncio.sleep(2)
    assert sorted(checkpoint(world.agents[1], WATERMARKS) or ()) == entries[:2]
    await world.stop()


@pytest.mark.rule("R9.11", "R3.7a", "R9.10")
@virtually
async def test_an_epoch_begins_with_each_leadership_and_with_the_first_batch_a_follower_gets_of_it() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, (1, 2))
    await world.agents[1].produce(3, acks=-1)
    world.decide(1, (1, 2))
    await world.update_metadata()
    await world.tell(2, 1)
    assert log_of(world.agents[1]).epoch_entries == ((0, 0), (1, 3))
    await asyncio.sleep(1)
    assert log_of(world.agents[2]).epoch_entries == ((0, 0),)
    await world.agents[1].produce(2, acks=-1)
    await world.agents[1].produce(2, acks=-1)
    assert log_of(world.agents[1]).epoch_entries == log_of(world.agents[2]).epoch_entries == ((0, 0), (1, 3))
    await asyncio.sleep(2)
    for process in world.agents.values():
        content = process.disk.read_file(f"/data/{TP}/leader-epoch-checkpoint")
        assert content == b"0\n2\n0 0\n1 3\n"
    await world.stop()


@pytest.mark.rule("R9.18", "R7.8")
@pytest.mark.parametrize("ending", ["clean", "crash", "snapshots lost", "snapshots torn"])
async def test_producers_are_known_again_after_a_restart_from_snapshots_or_from_the_log(ending: str) -> None:
    node = Node(InMemoryWorld(3), "/disk", config=LogConfig(segment_bytes=1000))
    await node.start()
    log = await node.log()
    for number in range(20):
        fields = {"producer_id": number % 3, "producer_epoch": 1, "base_sequence": number // 3}
        log.append_as_leader(batch(**fields), LeaderEpoch(0), 1)
    await log.flush()
    await node.logs.write_recovery_points()
    disk = node.world.new_disk()
    if ending == "clean":
        await node.restart()
    else:
        for name in disk.list_directory(log.path):
            if name.endswith(".snapshot") and ending != "crash":
                disk.remove_file(f"{log.path}/{name}")
                if ending == "snapshots torn":
                    disk.open_file(f"{log.path}/{name}").append([b"half a snap"])
        await node.crash_and_restart()
    again = node.logs.get(log.topic_partition)
    assert again is not None
    for number in range(17, 20):
        fields = {"producer_id": number % 3, "producer_epoch": 1, "base_sequence": number // 3}
        repeated = again.append_as_leader(batch(**fields), LeaderEpoch(0), 1)
        assert (repeated.duplicate, repeated.first_offset) == (True, number)


@pytest.mark.rule("R9.20", "R9.19", "P39")
@virtually
async def test_a_follower_that_lost_its_end_fetches_it_again() -> None:
    world = AgentWorld(replica_high_watermark_checkpoint_interval_ms=1000)
    await world.start(1, 2)
    await world.create(1, (1, 2))
    await world.agents[1].produce(5, acks=-1)
    await asyncio.sleep(2)
    for _ in range(19):
        await world.agents[1].produce(5, acks=-1)
    await world.agents[2].crash(power_fails=True)
    await asyncio.sleep(7)
    await world.agents[2].start()
    assert 5 <= log_of(world.agents[2]).log_end_offset < 100
    world.decide(1, (1, 2))
    await world.update_metadata()
    await world.tell(2, 1)
    await until(lambda: world.agents[2].offsets() == (100, 100))
    assert extents(log_of(world.agents[2])) == extents(log_of(world.agents[1]))
    check_invariants(log_of(world.agents[2]))
    await world.stop()


@pytest.mark.rule("R10.14", "R5.19", "P19")
@virtually
async def test_only_a_follower_truncates_and_its_high_watermark_goes_down_with_its_end() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, (1, 2))
    leader, follower = world.agents[1], world.agents[2]
    await leader.produce(10, acks=-1)
    await leader.produce(10, acks=-1)
    await until(lambda: follower.offsets() == (20, 20))
    # An unclean election: the new leader has half of what was committed.
    await follower.crash()
    await asyncio.sleep(7)
    await follower.start()
    log_of(follower).truncate_to(Offset(10))
    world.decide(2, (2,))
    await world.update_metadata()
    await world.tell(2, 1)
    assert leader.partition().leader_id == 2
    await until(lambda: leader.offsets() == (10, 10))
    assert extents(log_of(leader)) == extents(log_of(follower)) == [(0, 9, 0)]
    await world.stop()


@pytest.mark.rule("R10.19", "R10.17", "R5.24")
@virtually
async def test_a_follower_retains_by_itself_and_never_less_than_its_leader() -> None:
    world = AgentWorld(log_segment_bytes=1000, log_retention_bytes=2000, log_retention_check_interval_ms=10_000)
    await world.start(1, 2)
    await world.create(1, (1, 2))
    leader, follower = world.agents[1], world.agents[2]
    for _ in range(100):
        await leader.produce(10, acks=-1)
    await until(lambda: follower.offsets() == (1000, 1000))
    # Only the follower's turn: the leader keeps everything.
    await follower.logs.enforce_retention(world.clock.now_ms())
    own_start = log_of(follower).log_start_offset
    assert log_of(leader).log_start_offset == 0 < own_start
    assert log_of(follower).segments.size <= 3000
    log_of(leader).raise_log_start_offset(Offset(own_start + 5))
    await until(lambda: log_of(follower).log_start_offset == own_start + 5)
    check_invariants(log_of(follower))
    await world.stop()


@pytest.mark.rule("R10.16", "R9.9")
@virtually
async def test_after_a_deletion_nothing_on_disk_speaks_of_the_log() -> None:
    world = AgentWorld(replica_high_watermark_checkpoint_interval_ms=1000, log_segment_delete_delay_ms=5000)
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    await process.produce(10)
    log_of(process).raise_log_start_offset(Offset(3))
    await process.logs.write_recovery_points()
    await process.logs.write_log_start_offsets()
    await asyncio.sleep(1.5)
    assert checkpoint(process, WATERMARKS) == ["orders 0 10"]
    await world.stop_replica(1, delete=True, epoch=-2)
    assert [checkpoint(process, name) for name in (WATERMARKS, STARTS, POINTS)] == [[], [], []]
    (renamed,) = [name for name in process.disk.list_directory("/data") if name.startswith("orders")]
    assert re.fullmatch(r"orders-0\.[0-9a-f]{32}-delete", renamed)
    await asyncio.sleep(7)
    assert renamed not in process.disk.list_directory("/data")
    await world.stop()


@pytest.mark.rule("R9.9", "R9.8", "R4.3")
@virtually
async def test_a_log_deleted_while_another_directory_is_written_is_in_no_checkpoint() -> None:
    world = AgentWorld()
    world.agents[1] = process = AgentProcess(world, BrokerId(1))
    await process.start("/a", "/b")
    partitions = TopicPartition("orders", 0), TopicPartition("orders", 1)
    for tp in partitions:
        world.decide(1, (1,), tp=tp)
        await world.update_metadata()
        await world.tell(1, tp=tp)
        await process.produce(10, tp=tp)
    gone = next(tp for tp in partitions if log_of(process, tp).directory == "/b")
    writing = process.logs.directories["/a"].checkpoint_writing
    await writing.acquire()
    checkpointing = asyncio.create_task(process.agent.manager.checkpoint_high_watermarks())
    await asyncio.sleep(1)
    await world.stop_replica(1, tp=gone, delete=True)
    writing.release()
    await checkpointing
    assert process.disk.read_file(f"/b/{WATERMARKS}") == b"0\n0\n"
    await world.stop()


@pytest.mark.rule("R9.8")
@virtually
async def test_high_watermarks_are_written_again_only_when_something_has_changed() -> None:
    world = AgentWorld(replica_high_watermark_checkpoint_interval_ms=1000)
    await world.start(1)
    await world.create(1, [1])
    process = world.agents[1]
    path = f"/data/{WATERMARKS}"
    await process.produce(10)
    await asyncio.sleep(3)
    written = process.disk._files[path]
    await asyncio.sleep(30)
    assert process.disk._files[path] is written
    await process.produce(10)
    process.disk.limit("/data", 0)
    await asyncio.sleep(3)
    assert checkpoint(process, WATERMARKS) == ["orders 0 10"]
    process.disk.limit("/data", None)
    await asyncio.sleep(3)
    assert checkpoint(process, WATERMARKS) == ["orders 0 20"]
    await process.produce(10)
    await process.stop()
    assert checkpoint(process, WATERMARKS) == ["orders 0 30"]
    await world.stop()
