"""A log is truncated at each moment of the writing of checkpoints, and the process ends: no start finds damage."""

import asyncio
import itertools
from collections.abc import Callable
from random import Random
from typing import TypeVar

import pytest

from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import Offset
from simulator.disk import SimulatedDisk
from tests.contract.log_worlds import TP, InMemoryWorld, Node, TestClock, check_invariants, fill

PATH = "/disk/a"
Truncate = Callable[[PartitionLog], object]
T = TypeVar("T")


class CutDisk(SimulatedDisk):
    """Something happens while the piece of work in a thread with the number `at` is about to begin, or was done."""

    at, is_after = -1, False
    pieces = 0
    event: Callable[[], object] = staticmethod(lambda: None)

    async def run(self, work: Callable[[], T]) -> T:
        self.pieces += 1
        return await super().run(self._interrupted(work) if self.pieces == self.at else work)

    def _interrupted(self, work: Callable[[], T]) -> Callable[[], T]:
        def both() -> T:
            if self.is_after:
                done = work()
                self.event()
                return done
            self.event()
            return work()

        return both


class CutWorld(InMemoryWorld):
    def __init__(self, *, is_after: bool) -> None:
        super().__init__()
        self.disk: CutDisk = CutDisk(TestClock(), Random(0))
        self.disk.is_after = is_after


def cut(log: PartitionLog) -> None:
    log.truncate_to(Offset(50))


def cut_by_a_leader_that_knows_less(log: PartitionLog) -> None:
    """A follower takes over the high watermark of a new leader, which may be below its own (R6.22)."""
    log.set_high_watermark(Offset(40))
    log.truncate_to(Offset(50))


def start_again_lower(log: PartitionLog) -> None:
    log.set_high_watermark(Offset(10))
    log.truncate_fully_and_start_at(Offset(20))


async def checkpointed(node: Node, disk: CutDisk, *, at: int, truncate: Truncate) -> tuple[PartitionLog, bool]:
    """Write all checkpoints at once, while the log is truncated at the piece of work `at`; returns whether it was."""
    await node.start()
    log = await node.log()
    fill(log, *[1] * 10)
    log.set_high_watermark(Offset(80))
    await node.logs.write_high_watermarks(PATH, lambda: {TP: log.high_watermark_to_checkpoint})
    # Something is to be done about an earlier truncation.
    log.truncate_to(Offset(75))
    fill(log, 1, 1)
    log.set_high_watermark(Offset(90))
    disk.pieces, disk.at, disk.event = 0, at, lambda: truncate(log)
    # Each waits for those before it.
    await asyncio.gather(
        node.logs.write_log_start_offsets(),
        node.logs.write_recovery_points(),
        node.logs.write_high_watermarks(PATH, lambda: {TP: log.high_watermark_to_checkpoint}),
    )
    has_happened = disk.pieces >= at
    disk.at = -1
    return log, has_happened


@pytest.mark.rule("R9.8", "R9.22", "R10.11", "R10.12")
@pytest.mark.parametrize("more_checkpoints", [0, 1, 2])
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("truncate", [cut, cut_by_a_leader_that_knows_less, start_again_lower])
async def test_no_checkpoint_is_above_the_end_of_a_log_that_was_truncated_while_it_was_written(
    truncate: Truncate, is_after: bool, more_checkpoints: int
) -> None:
    for piece in itertools.count(1):
        world = CutWorld(is_after=is_after)
        node = Node(world, PATH, config=LogConfig(segment_bytes=1000))
        log, has_happened = await checkpointed(node, world.disk, at=piece, truncate=truncate)
        if not has_happened:
            break
        for _ in range(more_checkpoints):
            await node.logs.write_recovery_points()
        end = log.log_end_offset
        for directory in node.logs.directories.values():
            directory.unlock()
        world.disk.kill_process()
        await node.start()
        found = node.logs.get(TP)
        assert found is not None
        assert list(node.logs.damaged_replicas) == [], f"truncated before piece {piece}"
        assert found.log_end_offset == end
        check_invariants(found)
    assert piece > 4


async def test_what_was_read_at_the_start_counts_as_checkpointed() -> None:
    world = CutWorld(is_after=False)
    node = Node(world, PATH)
    await node.start()
    log = await node.log()
    fill(log, *[1] * 10)
    log.set_high_watermark(Offset(80))
    await node.logs.write_high_watermarks(PATH, lambda: {TP: log.high_watermark_to_checkpoint})
    await node.restart()
    again = node.logs.get(TP)
    assert again is not None
    cut_by_a_leader_that_knows_less(again)
    for directory in node.logs.directories.values():
        directory.unlock()
    world.disk.kill_process()
    await node.start()
    assert list(node.logs.damaged_replicas) == []


@pytest.mark.rule("R9.8", "R10.11")
@pytest.mark.parametrize("high_watermark", [60, 90])
async def test_a_truncation_that_is_written_down_late_leaves_the_present_high_watermark(high_watermark: int) -> None:
    """It may have risen, and been checkpointed, since: nothing else would write it again while it stays as it is."""
    world = CutWorld(is_after=False)
    node = Node(world, PATH)
    await node.start()
    log = await node.log()
    fill(log, *[1] * 10)
    log.set_high_watermark(Offset(90))
    await node.logs.write_high_watermarks(PATH, lambda: {TP: log.high_watermark_to_checkpoint})
    cut(log)
    fill(log, *[1] * 5)
    log.set_high_watermark(Offset(high_watermark))
    if high_watermark == 90:
        await node.logs.write_high_watermarks(PATH, lambda: {TP: log.high_watermark_to_checkpoint})
    await node.logs.write_recovery_points()
    assert await node.logs.read_high_watermarks(PATH) == {TP: high_watermark}


@pytest.mark.rule("R9.8", "R10.11")
async def test_a_truncation_by_an_earlier_process_lowers_the_high_watermark_that_nobody_has_read_yet() -> None:
    world = CutWorld(is_after=False)
    node = Node(world, PATH)
    await node.start()
    log = await node.log()
    fill(log, *[1] * 10)
    log.set_high_watermark(Offset(90))
    await node.logs.write_high_watermarks(PATH, lambda: {TP: log.high_watermark_to_checkpoint})
    cut(log)
    for directory in node.logs.directories.values():
        directory.unlock()
    world.disk.kill_process()
    await node.start()
    await node.logs.write_recovery_points()
    assert await node.logs.read_high_watermarks(PATH) == {TP: 50}
