"""Loading logs after a clean shutdown, a crash and a torn write, on real files."""

import asyncio
import errno
import os
from pathlib import Path
from random import Random

import pytest
from structlog.testing import capture_logs

from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import parse_header
from broker_agent.log.time_search import first_batch_at
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import FullDirectoryError, LogDirectoriesError, StorageError
from cluster.model.partition import TopicPartition
from simulator.disk import SimulatedDisk
from tests.brokers.agents import virtually
from tests.contract.log_worlds import (
    TP,
    FileWorld,
    InMemoryWorld,
    Node,
    TestClock,
    batch,
    check_invariants,
    extents,
    fetched,
    fill,
)

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(FileWorld(), str(tmp_path / "a"), config=SMALL)


def found(node: Node) -> PartitionLog:
    log = node.logs.get(TP)
    assert log is not None
    return log


def segment_files(log: PartitionLog, suffix: str = ".log") -> list[Path]:
    return sorted(path for path in Path(log.path).iterdir() if path.suffix == suffix)


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


async def crash(node: Node) -> None:
    """Everything reached the page cache and nothing was closed."""
    found(node).abandon()
    for directory in node.logs.directories.values():
        directory.unlock()


@pytest.mark.rule("R9.15", "R9.19", "R10.6")
async def test_a_last_batch_torn_at_any_byte_is_cut_off(node: Node) -> None:
    await node.start()
    fill(await node.log(), 1, 1, 2)
    path = segment_files(found(node))[-1]
    await crash(node)
    whole, size = path.read_bytes(), len(batch(10))
    for kept in range(size):
        path.write_bytes(whole[: 2 * size + kept])
        await node.start()
        assert extents(found(node)) == [(0, 9, 1), (10, 19, 1)]
        assert (found(node).log_end_offset, found(node).latest_epoch, path.stat().st_size) == (20, 1, 2 * size)
        await crash(node)


@pytest.mark.rule("R9.15", "R9.19")
@pytest.mark.parametrize("position", [8, 16, 17, 21, 26, 60, 61, 160])
async def test_a_garbled_batch_ends_the_log_and_later_segments_go(node: Node, position: int) -> None:
    await node.start()
    fill(await node.log(), *[1] * 20)
    first = segment_files(found(node))[0]
    await crash(node)
    content = bytearray(first.read_bytes())
    content[len(batch(10)) + position] ^= 0x40
    first.write_bytes(content)
    await node.start()
    assert extents(found(node)) == [(0, 9, 1)]
    assert segment_files(found(node)) == [first]
    fill(found(node), 2)
    check_invariants(found(node))


@pytest.mark.rule("R9.15", "R9.19", "R9.23")
@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, b"\xff" * 8),
        (0, b"\x7f" + b"\xff" * 7),
        (0, bytes(8)),
        (3, b"\x01"),
        (8, b"\x7f\xff\xff\xff"),
        (12, bytes(4)),
    ],
)
@pytest.mark.parametrize("flushed", [False, True])
async def test_a_damaged_header_where_an_index_entry_is_due_is_cut_off(
    tmp_path: Path, position: int, value: bytes, flushed: bool
) -> None:
    node = Node(FileWorld(), str(tmp_path / "a"))
    await node.start()
    fill(await node.log(), *[1] * 40, size=400)
    if flushed:
        await found(node).flush()
        await node.logs.write_recovery_points()
    path = segment_files(found(node))[-1]
    await crash(node)
    content = bytearray(path.read_bytes())
    at = 9 * len(batch(10, size=400)) + position  # Where the first index entry is due.
    content[at : at + len(value)] = value
    path.write_bytes(content)
    await node.start()
    assert not node.failures
    assert extents(found(node)) == [(first, first + 9, 1) for first in range(0, 90, 10)]
    fill(found(node), 2)
    check_invariants(found(node))


@pytest.mark.rule("R9.15", "R9.19")
async def test_below_the_recovery_point_no_checksum_is_verified(node: Node) -> None:
    await node.start()
    fill(await node.log(), *[1] * 20)
    await found(node).flush()
    await node.logs.write_recovery_points()
    first = segment_files(found(node))[0]
    await crash(node)
    content = bytearray(first.read_bytes())
    content[100] ^= 0x40
    first.write_bytes(content)
    await node.start()
    assert found(node).log_end_offset == 200


@pytest.mark.rule("R9.15", "R10.2", "R10.3")
@pytest.mark.parametrize("damage", [None, b"", b"garbage", bytes(24), b"\xff" * 24])
async def test_indexes_that_are_missing_or_wrong_are_rebuilt(node: Node, damage: bytes | None) -> None:
    await node.start()
    fill(await node.log(), *[1] * 20)
    await node.stop()
    log_files = sorted((Path(node.paths[0]) / str(TP)).glob("*.log"))
    intact = [path.with_suffix(".index").read_bytes() for path in log_files]
    assert any(intact)
    for path in log_files:
        for suffix in (".index", ".timeindex"):
            index = path.with_suffix(suffix)
            index.unlink()
            if damage is not None:
                index.write_bytes(damage)
    await node.start()
    for start in range(0, 200, 7):
        records = found(node).read(Offset(start), 1, Offset(200), at_least_one=True)
        assert int.from_bytes(records[:8], "big") == start // 10 * 10
    batch = await first_batch_at(found(node), 5, Offset(0))
    assert batch is not None
    assert parse_header(batch).base_offset == 0
    await node.stop()
    assert [path.with_suffix(".index").read_bytes() for path in log_files] == intact


@pytest.mark.rule("R9.15", "R9.10")
async def test_walking_the_last_segment_keeps_the_epochs_of_those_before_it(node: Node) -> None:
    await node.start()
    log = await node.log()
    fill(log, *[1] * 2, *[3] * 12, *[6] * 2)
    await log.flush()
    await node.logs.write_recovery_points()
    fill(log, 6)
    before = log.epoch_entries
    await crash(node)
    await node.start()
    assert found(node).epoch_entries == before == ((1, 0), (3, 20), (6, 140))
    check_invariants(found(node))


@pytest.mark.rule("R10.11", "R10.13", "R9.15")
@pytest.mark.parametrize("seed", range(20))
async def test_what_follows_a_truncation_is_checked_although_the_recovery_point_is_above(seed: int) -> None:
    node = Node(InMemoryWorld(seed), "/disk/a", config=LogConfig(segment_bytes=2200))
    await node.start()
    log = await node.log()
    fill(log, *[1] * 6, size=900)
    await log.flush()
    await node.logs.write_recovery_points()
    log.truncate_to(Offset(20))
    for at in range(20, 100, 10):
        log.append_as_follower(fetched(at, 10, epoch=2, size=900), LeaderEpoch(2))
    await node.crash_and_restart()
    check_invariants(found(node))
    assert extents(found(node))[:2] == [(0, 9, 1), (10, 19, 1)]
    await node.logs.write_recovery_points()
    assert not [name for name in node.world.new_disk().list_directory(log.path) if name.endswith(".truncated")]


@pytest.mark.rule("R9.15")
async def test_leftovers_of_unfinished_work_are_removed(node: Node) -> None:
    await node.start()
    fill(await node.log(), 1)
    directory = Path(found(node).path)
    await crash(node)
    leftovers = ["00000000000000000007.index", "00000000000000000000.log.deleted", "x.cleaned", "x.swap", "y.tmp"]
    for name in leftovers:
        (directory / name).write_bytes(b"left over")
    await node.start()
    assert not names(directory) & set(leftovers)
    assert extents(found(node)) == [(0, 9, 1)]


@pytest.mark.rule("R9.15")
async def test_a_log_that_ends_below_its_start_is_useless(node: Node) -> None:
    await node.start()
    fill(await node.log(), *[1] * 5)
    await crash(node)
    (Path(node.paths[0]) / "log-start-offset-checkpoint").write_text(f"0\n1\n{TP.topic} {TP.partition} 90\n")
    await node.start()
    assert (found(node).log_start_offset, found(node).log_end_offset, extents(found(node))) == (90, 90, [])
    assert [path.name for path in segment_files(found(node))] == [f"{90:020d}.log"]


@pytest.mark.rule("R9.16", "R9.17", "R3.11")
async def test_after_power_failure_the_high_watermark_is_the_checkpointed_one(node: Node) -> None:
    await node.start()
    log = await node.log(LogConfig())
    for _ in range(48):
        fill(log, 1)
    await node.logs.write_high_watermarks(node.paths[0], lambda: {TP: Offset(480)})
    fill(log, 1, 1)
    log.append_as_leader(batch(5), LeaderEpoch(1), 1)
    log.append_as_leader(batch(5), LeaderEpoch(1), 1)
    await log.begin_leader_epoch(LeaderEpoch(2), log.log_end_offset)
    path = segment_files(log)[-1]
    await crash(node)
    path.write_bytes(path.read_bytes()[:-30])
    await node.start()
    log = found(node)
    assert (log.log_end_offset, log.high_watermark, log.latest_epoch) == (505, 0, 1)
    offsets = await node.logs.read_high_watermarks(node.paths[0])
    assert log.set_high_watermark(offsets[TP]) == 480


@pytest.mark.rule("R9.13", "R9.21", "R9.4")
async def test_the_clean_marker_is_written_at_the_end_and_gone_before_logs_are_opened(node: Node) -> None:
    marker = Path(node.paths[0]) / ".kafka_cleanshutdown"
    await node.start()
    fill(await node.log(), 1)
    assert not marker.exists()
    await node.stop()
    assert marker.read_text() == '{"version":0,"brokerEpoch":42}'
    checkpoint = Path(node.paths[0]) / "recovery-point-offset-checkpoint"
    assert checkpoint.read_text() == f"0\n1\n{TP.topic} {TP.partition} 10\n"
    await node.start()
    assert not marker.exists()
    assert found(node).recovery_point == 10


@pytest.mark.rule("R9.7")
@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
async def test_an_unreadable_recovery_point_or_log_start_counts_as_empty(node: Node, name: str) -> None:
    await node.start()
    fill(await node.log(), 1)
    await crash(node)
    (Path(node.paths[0]) / name).write_text("0\n7\nno such line\n")
    with capture_logs() as lines:
        await node.start()
    assert found(node).log_end_offset == 10
    assert not node.failures
    assert [str(Path(node.paths[0]) / name) in line["why"] for line in lines] == [True]


@pytest.mark.rule("R9.7", "R9.16")
@pytest.mark.parametrize("content", ["1\n0\n", "0\n1\n9 0\n", "0\n1\n1 0\n", "", None, "\ufffd" * 9])
@pytest.mark.parametrize("clean", [False, True])
async def test_an_epoch_checkpoint_that_is_no_good_is_rebuilt(node: Node, content: str | None, clean: bool) -> None:
    await node.start()
    log = await node.log()
    fill(log, *[1] * 9, *[2] * 9)
    before = log.epoch_entries
    await log.flush()
    await node.logs.write_recovery_points()
    await (node.stop() if clean else crash(node))
    checkpoint = Path(log.path) / "leader-epoch-checkpoint"
    checkpoint.unlink()
    if content is not None:
        checkpoint.write_text(content)
    await node.start()
    assert (node.failures, found(node).epoch_entries) == ([], before)
    await found(node).flush()
    assert checkpoint.read_text() == "0\n2\n1 0\n2 90\n"


@pytest.mark.rule("R9.7", "R9.22")
async def test_a_log_that_cannot_be_loaded_is_offline_and_the_others_are_served(node: Node) -> None:
    other = TopicPartition("other", 0)
    await node.start()
    path = Path((await node.log()).path)
    fill(found(node), 1)
    await node.logs.write_high_watermarks(node.paths[0], lambda: {TP: Offset(10)})
    await node.log(tp=other)
    await node.stop()
    (path / "partition.metadata").write_text("no such thing")
    await node.start()
    assert (node.failures, set(node.logs.all_logs())) == ([], {other})
    assert str(path / "partition.metadata") in node.logs.unloadable[TP]
    with pytest.raises(StorageError, match=r"partition.metadata is malformed .* move the partition's directory away"):
        await node.logs.get_or_create(TP, topic_id=None, is_new=True, config=SMALL)
    assert isinstance((await node.logs.delete([TP]))[TP], StorageError)
    await node.logs.write_high_watermarks(node.paths[0], lambda: {other: Offset(0)})
    await node.stop()
    assert not (Path(node.paths[0]) / ".kafka_cleanshutdown").exists()
    (path / "partition.metadata").unlink()
    await node.start()
    assert extents(found(node)) == [(0, 9, 1)]
    assert (await node.logs.read_high_watermarks(node.paths[0]))[TP] == 10


@pytest.mark.rule("R9.7", "R11.2")
@pytest.mark.parametrize("name", ["replication-offset-checkpoint", "meta.properties"])
async def test_a_file_that_cannot_be_rebuilt_fails_its_directory_by_name(node: Node, tmp_path: Path, name: str) -> None:
    await node.start()
    fill(await node.log(), 1)
    await node.stop()
    (tmp_path / "a" / name).write_bytes(b"\xff\xfe")
    with pytest.raises(LogDirectoriesError, match=rf"{name} is malformed .* restore the file"):
        await node.start()
    node.paths = (*node.paths, str(tmp_path / "b"))
    await node.start()
    assert node.logs.live_directories == (str(tmp_path / "b"),)


@pytest.mark.rule("R9.14")
@virtually
async def test_directories_are_loaded_at_the_same_time() -> None:
    took = []
    for paths in (("/a",), ("/a", "/b", "/c")):
        world = InMemoryWorld()
        world.disk = SimulatedDisk(TestClock(), Random(1), latency_s=(1.0, 1.0))
        node = Node(world, *paths)
        await node.start()
        for number in range(len(paths)):
            await node.log(tp=TopicPartition("t", number))
        await node.stop()
        before = asyncio.get_running_loop().time()
        await node.start()
        took.append(asyncio.get_running_loop().time() - before)
    # Only possession is taken of one after the other: two operations for each.
    assert took[1] - took[0] == pytest.approx(2 * 2)


@pytest.mark.rule("R9.14", "R10.16")
async def test_directories_on_their_way_out_are_not_served_and_removed_later(node: Node) -> None:
    node.config = LogConfig(file_delete_delay_ms=0)
    await node.start()
    fill(await node.log(), 1)
    await node.logs.delete([TP])
    await node.stop()
    (gone,) = [Path(node.paths[0]) / name for name in names(Path(node.paths[0])) if name.endswith("-delete")]
    await node.start()
    assert node.logs.get(TP) is None
    assert gone.exists()
    await node.logs.remove_deleted()
    assert not gone.exists()


@pytest.mark.rule("R9.15", "R9.19", "P8")
@pytest.mark.parametrize("kept_batches", [0, 1])
async def test_what_follows_a_segment_that_lost_whole_batches_goes_with_them(node: Node, kept_batches: int) -> None:
    await node.start()
    fill(await node.log(), *[1] * 20)
    first, second = segment_files(found(node))[:2]
    await crash(node)
    size = len(batch(10))
    first.write_bytes(first.read_bytes()[: kept_batches * size])
    await node.start()
    assert extents(found(node)) == [(0, 9, 1)][:kept_batches]
    assert segment_files(found(node)) == [first]
    assert found(node).log_end_offset == 10 * kept_batches
    assert not second.exists()


@pytest.mark.rule("R9.15", "R10.11")
async def test_a_gap_that_a_truncation_inside_a_batch_left_is_no_loss(node: Node) -> None:
    await node.start()
    log = await node.log()
    fill(log, *[1] * 6)
    log.truncate_to(Offset(55))
    fill(log, 2, size=300)
    await log.flush()
    whole = extents(log)
    assert (whole[-2:], len(segment_files(log))) == ([(40, 49, 1), (55, 64, 2)], 2)
    await crash(node)
    await node.start()
    assert extents(found(node)) == whole


def refuse_to_rename(_: str, new: str) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), new)


@pytest.mark.rule("R9.24")
async def test_a_directory_that_cannot_be_written_fails_before_anything_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(FileWorld(), str(tmp_path / "a"))
    await node.start()
    await node.stop()
    monkeypatch.setattr(os, "replace", refuse_to_rename)
    with pytest.raises(LogDirectoriesError, match="Read-only file system.*log-start-offset-checkpoint"):
        await node.start()
    assert [path for path, _ in node.failures] == [str(tmp_path / "a")]


@pytest.mark.rule("FD-10")
async def test_a_full_directory_is_opened_and_takes_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(FileWorld(), str(tmp_path / "a"))
    await node.start()
    fill(await node.log(), 1)
    await node.stop()
    full = os.statvfs_result((512, 512, 1000, 10, 10, 100, 100, 100, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    await node.start()
    assert node.failures == []
    assert extents(found(node)) == [(0, 9, 1)]
    with pytest.raises(FullDirectoryError, match="5120 of 512000 bytes are free"):
        fill(found(node), 1)
