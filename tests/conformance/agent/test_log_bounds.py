"""How each operation on a log changes its offsets, files and caches."""

import asyncio
import os
from pathlib import Path

import pytest

from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import ErrorCode, LogAppendError, StartupError, StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.data import EpochEndOffset
from tests.contract.log_worlds import (
    TP,
    FileWorld,
    InMemoryWorld,
    Node,
    batch,
    check_invariants,
    extents,
    fetched,
    fill,
)

SMALL = LogConfig(segment_bytes=500)


async def log_with(config: LogConfig = SMALL) -> tuple[Node, PartitionLog]:
    node = Node(InMemoryWorld(), "/disk", config=config)
    await node.start()
    return node, await node.log()


def found(node: Node, tp: TopicPartition = TP) -> PartitionLog:
    log = node.logs.get(tp)
    assert log is not None
    return log


def sent(sequence: int, offset: int) -> bytes:
    return fetched(offset, producer_id=7, producer_epoch=0, base_sequence=sequence)


@pytest.mark.rule("R6.22", "R10.20", "R9.12")
async def test_the_start_only_rises_takes_epochs_with_it_and_holds_the_high_watermark_up() -> None:
    _, log = await log_with()
    fill(log, 1, 3, 6)
    log.set_high_watermark(Offset(25))
    with pytest.raises(LogAppendError) as caught:
        log.raise_log_start_offset(Offset(26))
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.raise_log_start_offset(Offset(15))
    assert log.epoch_entries == ((3, 15), (6, 20))
    for lower in (15, 3):
        assert not log.raise_log_start_offset(Offset(lower))
    assert log.log_start_offset == 15
    assert [log.set_high_watermark(Offset(wanted)) for wanted in (3, 99, 20)] == [15, 30, 20]
    assert log.end_offset_for_epoch(LeaderEpoch(2)) == EpochEndOffset(LeaderEpoch(2), Offset(15))


@pytest.mark.rule("R10.11", "R10.14", "R9.10")
async def test_a_truncation_takes_every_offset_down_that_is_above_it() -> None:
    _, log = await log_with(LogConfig())
    fill(log, 1, 1, 2, 4)
    log.set_high_watermark(Offset(40))
    log.raise_log_start_offset(Offset(15))
    await log.flush()
    assert log.truncate_to(Offset(10))
    assert (log.log_start_offset, log.high_watermark, log.recovery_point, log.log_end_offset) == (10, 10, 10, 10)
    assert log.epoch_entries == ()
    assert not log.truncate_to(Offset(10))
    log.append_as_follower(fetched(10, 10, epoch=5), LeaderEpoch(5))
    assert not log.truncate_to(Offset(20))
    assert log.epoch_entries == ((5, 10),)


@pytest.mark.rule("R10.11", "R10.9")
async def test_a_flush_that_a_truncation_overtook_proves_nothing() -> None:
    _, log = await log_with(LogConfig())
    fill(log, 1, 1, 1)
    flushing = asyncio.ensure_future(log.flush())
    await asyncio.sleep(0)
    log.truncate_to(Offset(10))
    log.append_as_follower(fetched(10, 20, epoch=2), LeaderEpoch(2))
    await flushing
    assert (log.log_end_offset, log.recovery_point) == (30, 0)
    await log.flush()
    assert log.recovery_point == 30


@pytest.mark.rule("R10.15", "R10.4")
async def test_a_flush_is_due_after_so_many_messages_or_so_much_time() -> None:
    _, log = await log_with(LogConfig(flush_messages=15, flush_ms=5000))
    fill(log, 1)
    await log.flush()
    now_s = asyncio.get_running_loop().time()
    assert not log.flush_is_due(now_s + 99)  # There is nothing to flush.
    fill(log, 1)
    assert [log.flush_is_due(now_s + after) for after in (4.9, 5.1)] == [False, True]
    fill(log, 1)
    assert (log.flush_is_due(now_s), log.durable_end_offset) == (True, 10)
    await log.flush()
    log.truncate_to(Offset(10))
    log.append_as_follower(fetched(10, 15, epoch=1), LeaderEpoch(1))
    assert (log.flush_is_due(now_s), log.durable_end_offset) == (True, 10)


@pytest.mark.rule("R7.8", "R9.18")
async def test_a_truncation_forgets_snapshots_of_what_it_cut(tmp_path: Path) -> None:
    node = Node(FileWorld(), str(tmp_path), config=LogConfig(segment_bytes=330))
    await node.start()
    log = await node.log()
    for number in range(8):
        log.append_as_follower(sent(number, number), LeaderEpoch(0))
    await log.flush()
    log.truncate_to(Offset(3))
    # One batch beyond all that was cut, so that nothing makes new snapshots in place of the old ones.
    producer = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    log.append_as_follower(fetched(3, 10, **producer), LeaderEpoch(0))
    await log.flush()
    await node.logs.write_recovery_points()
    await node.crash_and_restart()
    info = found(node).append_as_leader(sent(3, 0), LeaderEpoch(0), 1)
    assert (info.duplicate, info.first_offset) == (False, 13)
    assert found(node).append_as_leader(batch(10, **producer), LeaderEpoch(0), 1).first_offset == 3


@pytest.mark.rule("R9.18", "R9.15")
async def test_snapshots_beyond_the_end_that_was_found_are_removed(tmp_path: Path) -> None:
    node = Node(FileWorld(), str(tmp_path), config=LogConfig(segment_bytes=330))
    await node.start()
    log = await node.log()
    for number in range(8):
        log.append_as_follower(sent(number, number), LeaderEpoch(0))
    for base in (4, 6):
        os.unlink(f"{log.path}/{base:020d}.log")
    await node.crash_and_restart()
    assert found(node).log_end_offset == 4
    assert [name for name in os.listdir(log.path) if name.endswith(".snapshot")] == [f"{4:020d}.snapshot"]


@pytest.mark.rule("R9.16", "R9.15")
async def test_bounds_that_reached_their_checkpoints_count_although_others_did_not(tmp_path: Path) -> None:
    node = Node(FileWorld(), str(tmp_path))
    await node.start()
    log = await node.log()
    fill(log, 1, 2)
    log.set_high_watermark(Offset(20))
    await log.flush()
    log.raise_log_start_offset(Offset(15))
    await node.logs.write_log_start_offsets()
    await node.crash_and_restart()
    assert (found(node).log_start_offset, found(node).epoch_entries) == (15, ((2, 15),))
    await node.stop()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("garbage")
    await node.start()
    assert found(node).recovery_point == 20  # After a clean end everything is known to be on the device.


@pytest.mark.rule("R9.15")
async def test_offsets_that_go_back_end_the_log(tmp_path: Path) -> None:
    node = Node(FileWorld(), str(tmp_path))
    await node.start()
    fill(await node.log(), 1, 1, 1)
    path = Path(found(node).path) / f"{0:020d}.log"
    found(node).abandon()
    node.logs.directories[str(tmp_path)].unlock()
    content, size = bytearray(path.read_bytes()), len(batch(10))
    content[2 * size + 7] = 15  # The base offset of the third batch lies outside its checksum.
    path.write_bytes(content)
    await node.start()
    assert extents(found(node)) == [(0, 9, 1), (10, 19, 1)]
    assert path.stat().st_size == 2 * size


@pytest.mark.rule("R9.15", "R9.16", "R9.1")
async def test_a_start_within_a_segment_is_checkpointed_and_found_again_and_one_at_its_base_is_not() -> None:
    node, log = await log_with()
    fill(log, *[1] * 6, 4)
    log.set_high_watermark(Offset(70))
    name = "/disk/log-start-offset-checkpoint"
    for start, content in ((30, b"0\n0\n"), (35, f"0\n1\n{TP.topic} {TP.partition} 35\n".encode())):
        log.raise_log_start_offset(Offset(start))
        log.config = LogConfig(segment_bytes=500, retention_ms=-1, file_delete_delay_ms=0)
        await node.logs.enforce_retention(1)  # Segments below the start go whatever else is kept.
        await node.logs.write_log_start_offsets()
        assert node.world.new_disk().read_file(name) == content
    await node.restart()
    assert (found(node).log_start_offset, found(node).epoch_entries) == (35, ((1, 35), (4, 60)))
    check_invariants(found(node))


@pytest.mark.rule("R9.15", "R10.17")
async def test_a_start_that_no_checkpoint_tells_is_that_of_the_first_segment() -> None:
    node, log = await log_with(LogConfig(segment_bytes=500, retention_bytes=500))
    fill(log, *[1] * 9)
    log.set_high_watermark(Offset(90))
    await log.flush()
    await node.logs.write_recovery_points()
    await node.logs.enforce_retention(1)
    start = log.log_start_offset
    assert start > 0
    await node.crash_and_restart()
    assert (found(node).log_start_offset, found(node).log_end_offset) == (start, 90)
    assert found(node).epoch_entries == ((1, start),)


@pytest.mark.rule("R9.16", "R3.7a")
async def test_an_epoch_without_records_is_lost_by_a_restart() -> None:
    node, log = await log_with()
    fill(log, 1, 1)
    await log.begin_leader_epoch(LeaderEpoch(5), Offset(20))
    assert log.epoch_entries == ((1, 0), (5, 20))
    await node.restart()
    assert found(node).epoch_entries == ((1, 0),)


@pytest.mark.rule("R9.21", "R9.13")
async def test_a_log_that_could_not_be_closed_leaves_its_directory_unclean_and_free() -> None:
    node = Node(InMemoryWorld(), "/disk/a", "/disk/b")
    await node.start()
    logs = [await node.log(tp=TopicPartition("t", number)) for number in range(4)]
    for log in logs:
        fill(log, 1)
    disk = node.world.new_disk()
    logs[0].abandon()  # An error while closing that is no error of the device.
    await node.stop()
    marks = {path: disk.read_file(f"{path}/.kafka_cleanshutdown") is not None for path in node.paths}
    assert marks == {logs[0].directory: False, logs[1].directory: True}
    await node.start()
    assert len(node.logs.all_logs()) == 4


@pytest.mark.rule("R11.6", "R11.2")
async def test_while_a_directory_is_failed_only_new_logs_are_created() -> None:
    node = Node(InMemoryWorld(), "/disk/a", "/disk/b")
    await node.start()
    node.logs.directories["/disk/a"].fail(OSError("gone"))
    with pytest.raises(StorageError, match="may hold the log"):
        await node.logs.get_or_create(TP, topic_id=None, is_new=False, config=SMALL)
    log = await node.logs.get_or_create(TP, topic_id=None, is_new=True, config=SMALL)
    assert log.directory == "/disk/b"
    with pytest.raises(StartupError, match="twice"):
        await Node(InMemoryWorld(), "/disk/a", "/disk/a/").start()
