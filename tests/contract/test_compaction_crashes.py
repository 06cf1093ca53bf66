"""The process or the machine dies at each change that a cleaning makes; and what happens to a log that is cleaned."""

import asyncio
import itertools
from collections.abc import Callable
from random import Random
from typing import TypeVar

import pytest

from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import LeaderEpoch, Offset
from tests.brokers.compacted_logs import append, clean, cleaner_of, keyed_batch, roll, stored_records, surviving, values
from tests.brokers.dying_disk import DyingMemoryDisk, KilledError
from tests.contract.log_worlds import TP, InMemoryWorld, Node, TestClock, check_invariants

T = TypeVar("T")
CONFIG = LogConfig(
    cleanup_policy="compact",
    segment_bytes=1300,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    file_delete_delay_ms=0,
)


class DyingWorld(InMemoryWorld):
    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.disk: DyingMemoryDisk = DyingMemoryDisk(TestClock(), Random(seed))


async def fill(node: Node) -> PartitionLog:
    """Three sealed segments, of which two become one, in three epochs, with tombstones and a producer's sequence."""
    await node.start()
    log = await node.log(CONFIG)
    for number in range(9):
        epoch = number // 3
        if log.latest_epoch != epoch:
            await log.begin_leader_epoch(LeaderEpoch(epoch), log.log_end_offset)
        records = [(f"k{(number + each) % 7}", None if each == 5 else f"{number}.{each}" * 4) for each in range(6)]
        producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 6 * number}
        append(log, keyed_batch(records, **producer), epoch=epoch)
        if number % 3 == 2:
            roll(log)
    append(log, keyed_batch([("k0", "active")]), epoch=2)
    await node.logs.flush_due()
    await node.logs.write_recovery_points()
    await node.logs.write_high_watermarks(log.directory, lambda: {TP: log.high_watermark})
    return log


@pytest.mark.rule("R10.28", "R10.29")
@pytest.mark.parametrize("loses_power", [False, True])
async def test_whatever_change_of_a_cleaning_is_the_last_the_next_start_has_all_that_must_stay(
    loses_power: bool,
) -> None:
    whole = Node(DyingWorld(), "/disk/a", config=CONFIG)
    log = await fill(whole)
    before, entries = stored_records(log), log.epoch_entries
    assert await clean(whole)
    await whole.logs.remove_deleted()
    after = stored_records(log)
    assert len(after) < len(before)
    kills = 0
    for change in itertools.count():
        world = DyingWorld(change)
        node = Node(world, "/disk/a", config=CONFIG)
        await fill(node)
        world.disk.changes_left = change
        try:
            await clean(node)
            await node.logs.remove_deleted()
            survived = True
        except KilledError:
            survived, kills = False, kills + 1
        world.disk.changes_left = None
        await start_again(node, loses_power=loses_power)
        found = node.logs.get(TP)
        assert found is not None
        assert found.log_end_offset == 55
        assert found.epoch_entries == entries
        assert [replica for replica in node.logs.damaged_replicas if not replica.is_in_doubt] == []
        check_invariants(found)
        records = stored_records(found)
        assert [record for record in records if record in after] == after
        assert [record for record in records if record not in before] == []
        names = node.logs.disk.list_directory(found.path)
        assert [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))] == []
        found.set_high_watermark(found.log_end_offset)
        await clean(node)
        assert stored_records(found) == after
        duplicate = keyed_batch([("k", "v")] * 6, producer_id=5, producer_epoch=0, base_sequence=48)
        assert found.append_as_leader(duplicate, LeaderEpoch(3), 1).duplicate
        if survived:
            break
    assert kills > 40


@pytest.mark.rule("R10.28", "R10.2")
@pytest.mark.parametrize("seed", range(8))
async def test_the_indexes_of_cleaned_segments_are_flushed_before_they_are_used(seed: int) -> None:
    world = DyingWorld(seed)
    node = Node(world, "/disk/a", config=CONFIG)
    await node.start()
    log = await node.log()
    for number in range(8):
        append(log, keyed_batch([("same", "v"), (f"key {number}", "v" * 60)], timestamp=1000 + number))
    roll(log)
    assert await clean(node)
    assert len(values(log)) == 9
    stem = log.segments.first.path.removesuffix(".log")
    before = {suffix: world.disk.read_file(stem + suffix) for suffix in (".log", ".index", ".timeindex")}
    assert all(before.values())
    world.disk.lose_power()
    assert {suffix: world.disk.read_file(stem + suffix) for suffix in before} == before


async def start_again(node: Node, *, loses_power: bool) -> None:
    if loses_power:
        await node.crash_and_restart()
        return
    for directory in node.logs.directories.values():
        directory.unlock()
    assert isinstance(node.world, DyingWorld)
    node.world.disk.kill_process()
    await node.start()


class InterruptedDisk(DyingMemoryDisk):
    """Something happens before the piece of work in a thread with the number `at`."""

    at = -1
    pieces = 0
    event: Callable[[], object] = staticmethod(lambda: None)

    async def run(self, work: Callable[[], T]) -> T:
        self.pieces += 1
        if self.pieces == self.at:
            self.event()
        return await super().run(work)


class InterruptedWorld(InMemoryWorld):
    def __init__(self) -> None:
        super().__init__()
        self.disk: InterruptedDisk = InterruptedDisk(TestClock(), Random(0))


async def interrupted(piece: int, event: Callable[[Node, PartitionLog], object]) -> tuple[Node, PartitionLog, bool]:
    """Clean a log while something happens to it; also returns whether that came before the cleaning was over."""
    world = InterruptedWorld()
    node = Node(world, "/disk/a", config=CONFIG)
    log = await fill(node)
    world.disk.pieces, world.disk.at = 0, piece
    world.disk.event = lambda: event(node, log)
    await clean(node)
    has_happened = world.disk.pieces >= piece
    world.disk.at = -1
    return node, log, has_happened


@pytest.mark.rule("R10.30")
async def test_a_truncation_aborts_a_cleaning_so_that_no_older_value_is_lost() -> None:
    fresh = Node(DyingWorld(), "/disk/a", config=CONFIG)
    untouched = await fill(fresh)
    size = untouched.segments.first.size
    untouched.truncate_to(Offset(30))
    whole = stored_records(untouched)
    sizes: list[int] = []

    def truncate(_node: Node, log: PartitionLog) -> None:
        sizes.append(log.segments.first.size)
        log.truncate_to(Offset(30))

    for piece in itertools.count(1):
        node, log, has_happened = await interrupted(piece, truncate)
        if not has_happened:
            break
        assert log.log_end_offset == 30
        assert log.first_dirty_offset <= 30
        # What was cleaned before the truncation went by records that it removed, as in Kafka; nothing else did.
        if sizes[-1] == size:
            assert surviving(stored_records(log), 30) == surviving(whole, 30)
        check_invariants(log)
        assert node.failures == []
        assert list(cleaner_of(node).findings()) == []
        append(log, keyed_batch([("k1", "new")]), epoch=2)
    assert sizes.count(size) > 5


@pytest.mark.rule("R10.30")
async def test_a_deletion_aborts_a_cleaning_and_a_new_log_is_not_touched_by_it() -> None:
    for piece in itertools.count(1):
        tasks: list[asyncio.Task[object]] = []

        def delete(node: Node, _log: PartitionLog, tasks: list[asyncio.Task[object]] = tasks) -> None:
            tasks.append(asyncio.get_running_loop().create_task(recreate(node)))

        node, _, has_happened = await interrupted(piece, delete)
        if not has_happened:
            break
        await asyncio.gather(*tasks)
        found = node.logs.get(TP)
        assert found is not None
        assert values(found) == [(0, "new", "log")]
        assert found.first_dirty_offset == 0
        assert node.failures == []
        names = node.logs.disk.list_directory(found.path)
        assert [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))] == []
    assert piece > 5


async def recreate(node: Node) -> None:
    assert await node.logs.delete([TP]) == {}
    append(await node.log(CONFIG), keyed_batch([("new", "log")]))


@pytest.mark.rule("R10.30")
async def test_retention_during_a_cleaning_aborts_it_and_nothing_fails() -> None:
    def expire(_node: Node, log: PartitionLog) -> None:
        log.raise_log_start_offset(Offset(20))
        assert log.enforce_retention(1) == 1

    for piece in itertools.count(1):
        node, log, has_happened = await interrupted(piece, expire)
        if not has_happened:
            break
        assert node.failures == []
        assert list(cleaner_of(node).findings()) == []
        assert log.log_start_offset == 20
        check_invariants(log)
        while await clean(node):
            pass
        keys = [record.key for record in stored_records(log) if record.offset < 54]
        assert len(keys) == len(set(keys))
        await node.crash_and_restart()
        assert [replica for replica in node.logs.damaged_replicas if not replica.is_in_doubt] == []
    assert piece > 5


@pytest.mark.rule("R10.30")
async def test_a_failing_directory_ends_the_cleaning_and_fails_once() -> None:
    for piece in itertools.count(1):

        def fail(node: Node, _log: PartitionLog) -> None:
            assert isinstance(node.world, InterruptedWorld)
            node.world.disk.break_directory("/disk/a")

        node, _, has_happened = await interrupted(piece, fail)
        if not has_happened:
            break
        assert [path for path, _ in node.failures] == ["/disk/a"]
        assert node.logs.get(TP) is None
        assert not await clean(node)
    assert piece > 5
