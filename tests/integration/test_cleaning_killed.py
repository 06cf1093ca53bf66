"""Cleanings and moves on real files: the process dies at each change of a cleaning, and by kill -9 at any moment."""

import asyncio
import itertools
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.brokers.compacted_logs import clean, stored_records
from tests.contract.log_worlds import TP, FileWorld, Node, check_invariants
from tests.contract.test_compaction_crashes import CONFIG, fill
from tests.integration.test_log_killed_at_every_step import DyingWorld, KilledError
from tests.timeouts import TIMEOUT_S

ROOT = Path(__file__).resolve().parents[2]
LEFT_BEHIND = (".cleaned", ".swap", ".deleted", "swap-in-progress")


@pytest.mark.real
@pytest.mark.rule("R10.28", "R10.29")
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.deep)])
async def test_whatever_change_of_a_cleaning_is_the_last_the_next_process_has_all_that_must_stay(
    tmp_path: Path, step: int
) -> None:
    kills = 0
    for change in itertools.count(0, step):
        world = DyingWorld(math.inf)
        node = Node(world, str(tmp_path / str(change)), config=CONFIG)
        log = await fill(node)
        before, entries = stored_records(log), log.epoch_entries
        world.disk.changes_left = change
        try:
            await clean(node)
            await node.logs.remove_deleted()
            survived = True
        except KilledError:
            survived, kills = False, kills + 1
        for directory in node.logs.directories.values():
            directory.unlock()
        node = Node(DyingWorld(math.inf), str(tmp_path / str(change)), config=CONFIG)
        await node.start()
        found = node.logs.get(TP)
        assert found is not None
        assert (found.log_end_offset, found.epoch_entries) == (55, entries)
        assert node.logs.damaged_replicas == ()
        check_invariants(found)
        records = stored_records(found)
        assert [record for record in records if record not in before] == []
        newest = {record.key: record for record in before}
        assert {record.key: record for record in records} == newest
        assert [name for name in os.listdir(found.path) if name.endswith(LEFT_BEHIND)] == []
        await node.stop()
        if survived:
            break
    assert kills > 40 // step


WORKER = """
import asyncio, sys
from broker_agent.log.config import LogConfig
from tests.brokers.compacted_logs import append, clean, keyed_batch
from tests.contract.log_worlds import TP, FileWorld, Node
from tests.contract.test_cleaning_and_moving import move

CONFIG = LogConfig(
    cleanup_policy="compact", segment_bytes=4000, index_interval_bytes=300, min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=10**9, file_delete_delay_ms=0,
)

async def main():
    node = Node(FileWorld(), *sys.argv[1:3], config=CONFIG)
    await node.start()
    await node.logs.delete_future(TP)
    log = await node.log()
    log.set_high_watermark(log.log_end_offset)
    number = int(sys.argv[3])
    while True:
        for _ in range(40):
            append(log, keyed_batch([(f"k{(number + each) % 30}", f"{number}") for each in range(5)]), epoch=1)
            number += 1
        print("wrote", number - 1, flush=True)
        await node.logs.flush_due()
        await node.logs.write_recovery_points()
        await clean(node)
        await node.logs.remove_deleted()
        if number % 80 < 40:
            log = await move(node, log, [])
            await node.logs.remove_deleted()

asyncio.run(main())
"""


@pytest.mark.real
@pytest.mark.deep
@pytest.mark.rule("R10.28", "R10.29", "R11.13")
def test_kill_9_at_any_moment_of_cleanings_and_moves_loses_no_latest_value(tmp_path: Path) -> None:
    paths, chance, reported, kinds = [str(tmp_path / name) for name in "ab"], Random(1), 0, set[str]()
    for _ in range(40):
        command = [sys.executable, "-c", WORKER, *paths, str(reported + 1)]
        worker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert worker.stdout is not None
        try:
            written = numbers_in(iter(worker.stdout.readline, ""))
            reported = next(written)
            # Not a wait for anything: where in its work the process is killed is the chance of this test.
            time.sleep(chance.uniform(0, 0.4))
        finally:
            worker.kill()
            rest, _ = worker.communicate(timeout=TIMEOUT_S)
        reported = max([reported, *numbers_in(rest.splitlines(keepends=True))])
        left = [name for path in paths for tree in Path(path).iterdir() if tree.is_dir() for name in os.listdir(tree)]
        kinds |= {kind for kind in LEFT_BEHIND if any(name.endswith(kind) for name in left)}
        reported = asyncio.run(check_latest(paths, reported))
    assert len(kinds) >= 2, "some kills came in the middle of a cleaning or a move"


def numbers_in(lines: Iterable[str]) -> Iterator[int]:
    """The numbers of the batches that complete lines report."""
    return (int(line.split()[1]) for line in lines if line.startswith("wrote ") and line.endswith("\n"))


async def check_latest(paths: list[str], reported: int) -> int:
    """Check the latest value of each key; returns the number of the last batch that is there."""
    node = Node(FileWorld(), *paths, config=CONFIG)
    await node.start()
    log = node.logs.get(TP)
    assert log is not None
    assert node.logs.damaged_replicas == ()
    check_invariants(log)
    records = stored_records(log)
    assert records
    last = int(records[-1].value or b"")
    assert last >= reported
    expected = {f"k{(n + each) % 30}".encode(): n for n in range(max(0, last - 60), last + 1) for each in range(5)}
    assert {record.key: int(record.value or b"") for record in records} == expected
    await node.stop()
    return last
