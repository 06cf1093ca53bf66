"""The process dies at each change that a move between log directories makes to real files; the next one loads it."""

import itertools
import math
import os
from pathlib import Path

import pytest

from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import LeaderEpoch, Offset
from tests.contract.log_worlds import TP, Node, batch, check_invariants, extents
from tests.integration.test_log_killed_at_every_step import KEEPING, TOPIC_ID, DyingWorld, KilledError


async def copy_all(current: PartitionLog, future: PartitionLog) -> None:
    while records := await current.read_aside(future.log_end_offset, 300):
        future.append_as_follower(records, LeaderEpoch(9))
    future.follow(current)


async def move(node: Node, current: PartitionLog) -> None:
    """What a copier does, step by step."""
    logs = node.logs
    target = next(path for path in logs.live_directories if path != current.directory)
    future = await logs.create_future(TP, target)
    await copy_all(current, future)
    await logs.prepare_swap(future)
    current.append_as_leader(batch(10), LeaderEpoch(2), 1)
    await copy_all(current, future)
    await logs.futures.put_in_place(future, current)
    logs.replace_current(future)
    await logs.finish_swap(future, current.directory)
    await logs.remove_deleted()


async def start(node: Node) -> PartitionLog:
    await node.start()
    assert node.failures == []
    log = node.logs.get(TP)
    assert log is not None
    return log


def plain_directories(paths: list[str]) -> list[str]:
    return [path for path in paths if Path(path, str(TP)).is_dir()]


@pytest.mark.rule("R11.13", "R11.12", "R9.14")
@pytest.mark.real
async def test_whatever_moment_the_process_is_killed_at_the_log_is_whole_and_in_one_place(tmp_path: Path) -> None:
    kills, places = 0, set[str]()
    for change in itertools.count():
        paths = [str(tmp_path / str(change) / name) for name in "ab"]
        world = DyingWorld(math.inf)
        node = Node(world, *paths, config=KEEPING)
        await node.start()
        log = await node.logs.get_or_create(TP, topic_id=TOPIC_ID, is_new=True, config=KEEPING)
        await log.begin_leader_epoch(LeaderEpoch(1), Offset(0))
        for _ in range(8):
            log.append_as_leader(batch(10), LeaderEpoch(1), 1)
        log.set_high_watermark(Offset(80))
        await log.begin_leader_epoch(LeaderEpoch(2), Offset(80))
        before = extents(log)
        world.disk.changes_left = change
        try:
            await move(node, log)
            survived = True
        except KilledError:
            survived, kills = False, kills + 1
        for directory in node.logs.directories.values():
            directory.unlock()
        node = Node(DyingWorld(math.inf), *paths, config=KEEPING)
        found = await start(node)
        kept = extents(found)
        assert kept in (before, [*before, (80, 89, 2)])
        check_invariants(found)
        assert plain_directories(paths) == [found.directory]
        assert "swap-in-progress" not in os.listdir(found.path)
        future = node.logs.futures.get(TP)
        if future is not None:
            check_invariants(future)
            assert extents(future) == kept[: len(extents(future))]
        places.add(found.directory.rpartition("/")[2])
        await node.stop()
        again = await start(node)
        assert extents(again) == kept
        await node.stop()
        if survived:
            break
    assert kills > 20
    assert places == {"a", "b"}
