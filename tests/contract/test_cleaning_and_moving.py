"""A log is cleaned when it begins to move to another log directory: neither puts its files in place of the other's."""

import asyncio
import itertools
from collections.abc import Sequence
from functools import partial

import pytest

from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.segment import Segment
from cluster.model.broker import LeaderEpoch, Offset
from tests.brokers.compacted_logs import append, clean, cleaner_of, keyed_batch, roll, stored_records, surviving
from tests.contract.log_worlds import TP, Node, check_invariants
from tests.contract.test_compaction_crashes import CONFIG, InterruptedWorld, fill

LEFT_BEHIND = (".cleaned", ".swap", ".deleted")


async def copy_all(current: PartitionLog, future: PartitionLog) -> None:
    while (records := await current.read_aside(future.log_end_offset, 300)) != b"":
        if records is not None:
            future.append_as_follower(records, LeaderEpoch(9))
    future.follow(current)


async def move(node: Node, current: PartitionLog, seen: list[Sequence[Segment]]) -> PartitionLog:
    """Move a log to the other directory, as a copier does; `seen` gets its segments from the first moment of it on."""
    logs = node.logs
    target = next(path for path in logs.live_directories if path != current.directory)
    future = await logs.create_future(TP, target)
    seen.append([*current.segments])
    await copy_all(current, future)
    await logs.prepare_swap(future)
    await copy_all(current, future)
    await logs.futures.put_in_place(future, current)
    seen.append([*current.segments])
    logs.replace_current(future)
    await logs.finish_swap(future, current.directory)
    return future


@pytest.mark.rule("R10.30", "R11.8", "R11.12")
async def test_a_move_that_begins_during_a_cleaning_ends_it_and_moves_the_log_as_it_is() -> None:
    moves_during_cleaning = 0
    for piece in itertools.count(1):
        world = InterruptedWorld()
        node = Node(world, "/disk/a", "/disk/b", config=CONFIG)
        log = await fill(node)
        before, entries = stored_records(log), log.epoch_entries
        tasks: list[asyncio.Task[PartitionLog]] = []
        seen: list[Sequence[Segment]] = []
        world.disk.pieces, world.disk.at = 0, piece
        world.disk.event = partial(begin_move, node, log, tasks, seen)
        await clean(node)
        if not tasks:
            break
        moves_during_cleaning += 1
        future = await tasks[0]
        # No segment was replaced while they were copied.
        assert seen[0] == seen[1]
        assert node.logs.get(TP) is future
        assert node.failures == []
        assert list(cleaner_of(node).findings()) == []
        assert future.epoch_entries == entries
        assert surviving(stored_records(future), 55) == surviving(before, 55)
        await node.logs.remove_deleted()
        for path in node.logs.live_directories:
            names = [name for tree in node.logs.disk.list_directory(path) for name in names_in(node, f"{path}/{tree}")]
            assert [name for name in names if name.endswith(LEFT_BEHIND)] == []
        check_invariants(future)
        await node.crash_and_restart()
        moved = node.logs.get(TP)
        assert moved is not None
        assert [replica for replica in node.logs.damaged_replicas if not replica.is_in_doubt] == []
        moved.set_high_watermark(moved.log_end_offset)
        append(moved, keyed_batch([("k1", "newest")]), epoch=9)
        roll(moved)
        assert await clean(node)
        keys = [record.key for record in stored_records(moved) if record.offset < moved.first_dirty_offset]
        assert len(keys) == len(set(keys))
        check_invariants(moved)
    assert moves_during_cleaning > 10


def begin_move(
    node: Node, log: PartitionLog, tasks: list[asyncio.Task[PartitionLog]], seen: list[Sequence[Segment]]
) -> None:
    tasks.append(asyncio.get_running_loop().create_task(move(node, log, seen)))


def names_in(node: Node, path: str) -> list[str]:
    return node.logs.disk.list_directory(path) if node.logs.disk.is_directory(path) else []


@pytest.mark.rule("R10.29", "R11.12")
async def test_the_offset_up_to_which_a_log_was_cleaned_moves_with_it() -> None:
    node = Node(InterruptedWorld(), "/disk/a", "/disk/b", config=CONFIG)
    log = await fill(node)
    assert await clean(node)
    cleaned_up_to, former = log.first_dirty_offset, log.directory
    assert cleaned_up_to == 54
    future = await move(node, log, [])
    assert future.first_dirty_offset == cleaned_up_to
    assert not await clean(node)
    files = {path: node.logs.disk.read_file(f"{path}/cleaner-offset-checkpoint") for path in node.paths}
    assert files == {former: b"0\n0\n", future.directory: f"0\n1\n{TP.topic} {TP.partition} 54\n".encode()}
    await node.crash_and_restart()
    moved = node.logs.get(TP)
    assert moved is not None
    assert (moved.directory, moved.first_dirty_offset) == (future.directory, Offset(54))
