"""The process dies at each change it makes to real files, one after the other, and the next one loads what is left."""

import asyncio
import itertools
import math
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from broker_agent.log.config import LogConfig
from broker_agent.log.disk import Disk
from broker_agent.log.file_disk import FileDisk, FileDiskFile
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import LeaderEpoch, Offset, TopicId
from tests.contract.log_worlds import TP, FileWorld, Node, batch, check_invariants, extents, fetched

T = TypeVar("T")
Batches = list[tuple[int, int, int]]

CONFIG = LogConfig(segment_bytes=330, index_interval_bytes=100, retention_bytes=330, file_delete_delay_ms=0)
KEEPING = replace(CONFIG, retention_bytes=-1, retention_ms=-1)
TOPIC_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAQ")


class KilledError(BaseException):
    """No program can catch what ends it."""


class DyingDisk(FileDisk):
    """Files of the operating system, until the change with the given number; half of what that one writes arrives."""

    def __init__(self, changes_left: float) -> None:
        super().__init__(1)
        self.changes_left = changes_left

    def change(self) -> None:
        self.changes_left -= 1
        if self.changes_left < 0:
            raise KilledError

    def open_file(self, path: str) -> FileDiskFile:
        if not Path(path).exists():
            self.change()
        return DyingFile(path, self)

    def make_directory(self, path: str) -> None:
        self.change()
        super().make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self.change()
        super().rename(old, new)

    def remove_file(self, path: str) -> None:
        if Path(path).exists():
            self.change()
        super().remove_file(path)

    def remove_tree(self, path: str) -> None:
        self.change()
        super().remove_tree(path)

    def sync_directory(self, path: str) -> None:
        """The page cache outlives the process."""

    async def run(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return work()


class DyingFile(FileDiskFile):
    def __init__(self, path: str, disk: DyingDisk) -> None:
        super().__init__(disk.open_files, path)
        self._disk = disk

    def append(self, buffers: Sequence[bytes | memoryview]) -> None:
        content = b"".join(buffers)
        if self._disk.changes_left == 0:
            super().append([content[: len(content) // 2]])
        self._disk.change()
        super().append([content])

    def truncate(self, size: int) -> None:
        self._disk.change()
        super().truncate(size)

    def flusher(self) -> Callable[[], None]:
        return lambda: None


class DyingWorld(FileWorld):
    def __init__(self, changes_left: float) -> None:
        super().__init__()
        self.disk = DyingDisk(changes_left)

    def new_disk(self) -> Disk:
        return self.disk


async def live(node: Node) -> AsyncIterator[PartitionLog | None]:
    """A life in which everything happens that changes files; yields the log, or None, after every step."""
    await node.start()
    yield None

    async def create() -> PartitionLog:
        log = await node.logs.get_or_create(TP, topic_id=TOPIC_ID, is_new=True, config=CONFIG)
        await log.begin_leader_epoch(LeaderEpoch(1), Offset(0))
        return log

    log = await create()
    for _ in range(8):
        log.append_as_leader(batch(10), LeaderEpoch(1), 1)
        yield log
    log.set_high_watermark(Offset(70))
    await node.logs.write_high_watermarks(log.directory, lambda: {TP: Offset(70)})
    await node.logs.flush_due()
    await node.logs.write_recovery_points()
    log.raise_log_start_offset(Offset(15))
    await node.logs.write_log_start_offsets()
    yield log
    log.truncate_to(Offset(25))
    yield log
    for at in range(25, 80, 10):
        log.append_as_follower(fetched(at, 10, epoch=4), LeaderEpoch(4))
        yield log
    await node.logs.flush_due()
    yield log
    log.set_high_watermark(Offset(85))
    await node.logs.enforce_retention(1)
    yield log
    log.truncate_fully_and_start_at(Offset(500))
    yield log
    log.append_as_follower(fetched(500, 10, epoch=5), LeaderEpoch(5))
    yield log
    await node.logs.flush_due()
    yield log
    await node.logs.delete([TP])
    await node.logs.remove_deleted()
    yield None
    log = await create()
    log.append_as_leader(batch(10), LeaderEpoch(1), 1)
    yield log
    await node.stop()
    yield log


async def live_until(node: Node, history: list[Batches]) -> bool:
    """Live, and note what the log held after each step. Whether this life came to its own end."""
    try:
        async for log in live(node):
            history += [read(node, log)]
    except KilledError:
        if hasattr(node, "logs"):
            for directory in node.logs.directories.values():
                directory.unlock()
        return False
    return True


def read(node: Node, log: PartitionLog | None) -> Batches:
    return [] if log is None or node.logs.get(TP) is None else extents(log)


@pytest.mark.rule("R9.15", "R9.19", "R9.13", "R9.6", "R10.9", "R10.11", "R10.12", "R10.16", "R10.18", "R9.21")
@pytest.mark.real
async def test_whatever_moment_the_process_is_killed_at_the_next_one_goes_on(tmp_path: Path) -> None:
    complete: list[Batches] = []
    enough = 100_000
    world = DyingWorld(enough)
    assert await live_until(Node(world, str(tmp_path / "whole"), config=CONFIG), complete)
    changes = enough - int(world.disk.changes_left)
    assert changes > 100
    for change in range(changes):
        path = str(tmp_path / str(change))
        history: list[Batches] = [[]]
        assert not await live_until(Node(DyingWorld(change), path, config=CONFIG), history)
        before = history[-1]
        after = complete[len(history) - 1]
        await check_next_start(path, before, after)


async def check_next_start(path: str, before: Batches, after: Batches) -> None:
    node = Node(DyingWorld(math.inf), path, config=CONFIG)
    await node.start()
    assert node.failures == []
    await node.logs.read_high_watermarks(path)
    log = node.logs.get(TP)
    found = [] if log is None else extents(log)
    # Nothing is lost that the interrupted step was to leave alone, and there are no holes.
    assert set(before) & set(after) <= set(found), (before, found, after)
    assert found == after or found in slices(before), (before, found, after)
    log = await node.logs.get_or_create(TP, topic_id=TOPIC_ID, is_new=True, config=CONFIG)
    check_invariants(log)
    assert not {name for name in os.listdir(log.path) if name.endswith((".deleted", ".tmp"))}
    await log.begin_leader_epoch(LeaderEpoch(9), log.log_end_offset)
    appended = log.append_as_leader(batch(10), LeaderEpoch(9), 1)
    found = extents(log)
    assert found[-1] == (appended.first_offset, appended.last_offset, 9)
    await node.restart()
    again: Any = node.logs.get(TP)
    assert extents(again) == found
    check_invariants(again)
    await node.stop()


def slices(batches: Batches) -> list[Batches]:
    return [batches[start:end] for end in range(len(batches) + 1) for start in range(end + 1)]


async def delete_records_twice(node: Node, reached: list[int]) -> None:
    """Once the start is checkpointed before the segments below it go, once after. `reached`: what cannot be undone."""
    log = await node.logs.get_or_create(TP, topic_id=TOPIC_ID, is_new=True, config=KEEPING)
    log.raise_log_start_offset(Offset(45))
    await node.logs.write_log_start_offsets()
    reached.append(45)
    await node.logs.enforce_retention(1)
    log.raise_log_start_offset(Offset(65))
    await node.logs.enforce_retention(1)
    reached.append(60)
    await node.logs.write_log_start_offsets()
    reached.append(65)


@pytest.mark.rule("R7.15", "R9.1", "R9.15", "R10.17", "R10.18")
@pytest.mark.real
async def test_deleted_records_stay_deleted_and_the_others_stay_whatever_moment_the_process_is_killed_at(
    tmp_path: Path,
) -> None:
    kills, starts = 0, set[int]()
    for change in itertools.count():
        path, reached = str(tmp_path / str(change)), [0]
        world = DyingWorld(math.inf)
        node = Node(world, path, config=KEEPING)
        await node.start()
        log = await node.logs.get_or_create(TP, topic_id=TOPIC_ID, is_new=True, config=KEEPING)
        for _ in range(8):
            log.append_as_leader(batch(10), LeaderEpoch(1), 1)
        log.set_high_watermark(Offset(80))
        await node.logs.flush_due()
        world.disk.changes_left = change
        try:
            await delete_records_twice(node, reached)
            survived = True
        except KilledError:
            survived, kills = False, kills + 1
        for directory in node.logs.directories.values():
            directory.unlock()
        found = await start_again(path)
        starts.add(found.log_start_offset)
        assert reached[-1] <= found.log_start_offset <= 65
        assert [last for _, last, _ in extents(found) if last >= 65] == [69, 79]
        check_invariants(found)
        if survived:
            break
    assert kills > 10
    assert starts == {0, 45, 60, 65}


async def start_again(path: str) -> PartitionLog:
    node = Node(DyingWorld(math.inf), path, config=KEEPING)
    await node.start()
    log = node.logs.get(TP)
    assert log is not None
    assert not {name for name in os.listdir(log.path) if name.endswith((".deleted", ".tmp"))}
    return log
