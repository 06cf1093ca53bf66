"""A full disk is not a broken one: what cannot be written is refused, nothing acknowledged is lost, and when there is
room everything goes on by itself.
"""

import copy
import errno
import itertools
import os
from random import Random

import pytest

from broker_agent.decisions.disk_room import DiskRoom
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import FullDirectoryError, StartupError, StorageError
from cluster.model.partition import TopicPartition
from simulator.disk import SimulatedDisk
from simulator.record_batches import encode_batch
from tests.brokers.compacted_logs import clean, stored_records
from tests.conformance.agent.test_process_errors import CONFIG, STEPS, A, B, carry_out, state_of
from tests.contract import test_compaction_crashes as compacted_logs
from tests.contract.log_worlds import TP, InMemoryWorld, Node, TestClock, batch, check_invariants, extents, fill


class FillingDisk(SimulatedDisk):
    """Has no room from the operation with number `full_from` on that would need some, counted from 0, until it is
    emptied.
    """

    def __init__(self) -> None:
        super().__init__(TestClock(), Random(1))
        self.writes = 0
        self.full_from: float = float("inf")
        self.refused = 0

    @property
    def is_full(self) -> bool:
        return self.writes > self.full_from

    def empty(self) -> None:
        self.full_from = float("inf")

    def take_room(self, path: str, size: int) -> None:
        self.writes += 1
        if self.is_full:
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def check_room(self, path: str, size: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def filling_node(*paths: str) -> tuple[Node, FillingDisk]:
    world, disk = InMemoryWorld(), FillingDisk()
    world.disk = disk
    return Node(world, *paths, config=CONFIG), disk


async def successor_of(disk: FillingDisk, *, is_empty: bool) -> Node:
    """The process that starts after a kill -9, while the disk is full or when it has room again."""
    world = InMemoryWorld()
    world.disk = copy.deepcopy(disk)
    world.disk.kill_process()
    assert isinstance(world.disk, FillingDisk)
    if is_empty:
        world.disk.empty()
    node = Node(world, A, config=CONFIG)
    await node.start()
    return node


async def check_successors(node: Node, disk: FillingDisk) -> None:
    """Both find every batch that is in the log now; one may wait for room instead."""
    log = node.logs.get(TP)
    for is_empty in (False, True):
        successor = await successor_of(disk, is_empty=is_empty)
        if not is_empty and successor.logs.wait_for_room:
            assert not successor.logs.live_directories
            continue
        assert successor.failures == []
        assert dict(successor.logs.unloadable) == {}
        if log is not None:
            assert successor.logs.newly_damaged == []
        found = successor.logs.get(TP)
        if log is None:
            continue
        assert found is not None
        check_invariants(found)
        assert [extent for extent in extents(found) if extent[1] >= log.log_start_offset] == extents(log)


@pytest.mark.rule("FD-9", "R11.1")
@pytest.mark.parametrize(
    ("first", "stride"), [(0, 16), *(pytest.param(first, 16, marks=pytest.mark.deep) for first in range(1, 16))]
)
async def test_a_disk_that_fills_at_any_write_loses_nothing_and_goes_on_when_it_has_room(
    first: int, stride: int
) -> None:
    """Each step is tried on the full disk, killed there, and repeated when there is room."""
    node, disk = filling_node(A)
    await node.start()
    wanted = []
    for step in STEPS:
        await carry_out(step, node)
        wanted.append(state_of(node))
    for full_from in range(first, disk.writes, stride):
        await check_with_full_disk(full_from, wanted)


async def check_with_full_disk(full_from: int, wanted: list[object]) -> None:
    node, disk = filling_node(A)
    disk.full_from = full_from
    await node.start()
    if node.logs.wait_for_room:
        disk.empty()
        await reopen(node)
    for number, step in enumerate(STEPS):
        try:
            await carry_out(step, node)
        except FullDirectoryError:
            assert node.logs.directories[A].shortage is not None
        if disk.refused:
            if (log := node.logs.get(TP)) is not None:
                check_invariants(log)
            await check_successors(node, disk)
            if node.logs.wait_for_room:
                disk.empty()
                await reopen(node)
            disk.empty()
            await node.logs.directories[A].measure_room()
            await carry_out(step, node)
            disk.refused = 0
        assert node.logs.live_directories == (A,)
        assert state_of(node) == wanted[number], (full_from, number)
        if (log := node.logs.get(TP)) is not None:
            check_invariants(log)
    await check_successors(node, disk)


async def reopen(node: Node) -> None:
    staged = await node.logs.reopen(A, {}, "")
    assert await node.logs.adopt(staged) == []


@pytest.mark.rule("FD-9")
async def test_a_full_disk_refuses_records_and_keeps_room_for_what_needs_no_more() -> None:
    node, _ = filling_node(A, B)
    await node.start()
    log = await node.log()
    fill(log, *[0] * 10)
    log.set_high_watermark(Offset(100))
    directory = node.logs.directories[A]
    directory.take_measure(DiskRoom(1 << 40, (256 << 20) - 1))
    for append in (
        lambda: fill(log, 0),
        lambda: log.append_as_follower(encode_batch(b"r", 1, base_offset=100), LeaderEpoch(3)),
    ):
        with pytest.raises(FullDirectoryError, match=f"^log directory {A}: is full: 268435455 of .* bytes are free"):
            append()
    assert not log.takes_records
    assert log.read(Offset(0), 1, Offset(100), at_least_one=True)
    await log.begin_leader_epoch(LeaderEpoch(5), log.log_end_offset)
    log.truncate_to(Offset(80))
    await node.logs.write_high_watermarks(A, lambda: {TP: Offset(80)})
    await node.logs.write_recovery_points()
    assert log.enforce_retention(1) > 0
    assert node.failures == []
    other = await node.log(tp=TopicPartition("t", 0))
    more = await node.log(tp=TopicPartition("t", 1))
    assert (other.directory, more.directory) == (B, B), "one with room comes first"
    fill(other, 0)
    assert await node.logs.delete([TP]) == {}
    directory.take_measure(DiskRoom(1 << 40, 256 << 20))
    assert directory.shortage is not None, "it needs a quarter more"
    directory.take_measure(DiskRoom(1 << 40, 320 << 20))
    assert directory.shortage is None


@pytest.mark.rule("FD-9")
async def test_a_batch_that_is_there_already_is_acknowledged_by_a_full_directory() -> None:
    node, _ = filling_node(A)
    await node.start()
    log = await node.log()
    sent = batch(producer_id=7, producer_epoch=0, base_sequence=0)
    first = log.append_as_leader(sent, LeaderEpoch(0), 1)
    node.logs.directories[A].take_measure(DiskRoom(1 << 40, 0))
    again = log.append_as_leader(sent, LeaderEpoch(0), 1)
    assert (again.duplicate, again.first_offset) == (True, first.first_offset)
    with pytest.raises(FullDirectoryError):
        log.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=1), LeaderEpoch(0), 1)


@pytest.mark.rule("FD-9")
async def test_records_are_counted_between_two_measurements() -> None:
    node, _ = filling_node(A)
    await node.start()
    log, asked = await node.log(), []
    node.logs.on_doubt = asked.append
    fill(log, 0)
    assert asked == []
    node.logs.directories[A].take_measure(DiskRoom(1 << 40, (256 << 20) + 50))
    fill(log, 0)
    assert asked == [A]
    fill(log, 0)
    assert asked == [A], "once until it is measured"


@pytest.mark.rule("FD-9")
async def test_a_quota_that_the_free_space_does_not_show_is_tried_by_writing() -> None:
    node, disk = filling_node(A)
    await node.start()
    log = await node.log()
    disk.full_from = 0
    with pytest.raises(FullDirectoryError, match="Errno 28"):
        fill(log, 0)
    directory = node.logs.directories[A]
    await directory.measure_room()
    assert directory.shortage is not None
    with pytest.raises(FullDirectoryError):
        fill(log, 0)
    disk.empty()
    await directory.measure_room()
    assert directory.shortage is None
    fill(log, 0)
    assert node.failures == []


@pytest.mark.rule("FD-9", "R10.7")
async def test_fetched_batches_that_find_no_room_leave_no_leader_epochs_behind() -> None:
    """The batches of an earlier epoch may be fetched without those of a later one when there is room again."""
    node, disk = filling_node(A)
    await node.start()
    log = await node.log()
    fetched = [encode_batch(b"r", 1, base_offset=n, leader_epoch=epoch) for n, epoch in enumerate((3, 5, 8))]
    disk.full_from = 0
    with pytest.raises(FullDirectoryError, match="Errno 28"):
        log.append_as_follower(b"".join(fetched), LeaderEpoch(8))
    assert log.epoch_entries == ()
    disk.empty()
    await node.logs.directories[A].measure_room()
    for each in fetched:
        log.append_as_follower(each, LeaderEpoch(8))
    assert [entry.epoch for entry in log.epoch_entries] == [3, 5, 8]
    check_invariants(log)


@pytest.mark.rule("FD-10", "R11.2")
async def test_an_agent_starts_on_a_disk_without_a_byte_of_room() -> None:
    """With everything it had, or with the directory out of service until there is room; it never ends."""
    for stops_cleanly, full_from in itertools.product((False, True), range(12)):
        node, disk = filling_node(A)
        await node.start()
        for number in range(2):
            fill(await node.log(tp=TopicPartition("t", number)), 0, 0, 0, 0)
        if stops_cleanly:
            await node.stop()
        else:
            disk.kill_process()
        disk.full_from = disk.writes + full_from
        await node.start()
        if node.logs.wait_for_room:
            assert (full_from, stops_cleanly) is None, "all that it needs at its start is to replace files"
        assert {str(tp): len(extents(log)) for tp, log in node.logs.all_logs().items()} == {"t-0": 4, "t-1": 4}
        disk.empty()
        await node.logs.directories[A].measure_room()
        fill(some_log(node), 0)


def some_log(node: Node) -> PartitionLog:
    return node.logs.all_logs()[TopicPartition("t", 0)]


@pytest.mark.rule("FD-10")
async def test_a_directory_that_has_not_even_room_to_be_opened_waits_and_comes_back() -> None:
    node, disk = filling_node(A)
    disk.full_from = 0
    await node.start()
    assert node.logs.wait_for_room == (A,)
    assert node.logs.live_directories == ()
    with pytest.raises(StorageError, match="no live directory"):
        await node.log()
    disk.empty()
    await reopen(node)
    assert node.logs.live_directories == (A,)
    fill(await node.log(), 0)
    disk.break_directory(B)
    with pytest.raises(StartupError, match="no log directory can be used"):
        await Node(node.world, B).start()


@pytest.mark.rule("FD-9", "R10.28", "R10.29")
async def test_a_cleaning_that_runs_out_of_room_leaves_the_log_as_it_was_and_is_made_later() -> None:
    wanted: list[object] = []
    for full_from in itertools.count():
        node, disk = filling_node(A)
        log = await compacted_logs.fill(node)
        before, disk.full_from = stored_records(log), disk.writes + full_from
        if not wanted:
            disk.empty()
        await clean(node)
        assert node.failures == []
        if not wanted:
            wanted = [*stored_records(log)]
            continue
        present = stored_records(log)
        assert [record for record in present if record in wanted] == wanted
        assert [record for record in before if record in present] == present
        is_whole, was_refused = not disk.is_full, disk.refused
        await node.logs.remove_deleted()
        disk.empty()
        await node.logs.directories[A].measure_room()
        await clean(node)
        assert stored_records(log) == wanted
        await node.logs.remove_deleted()
        names = disk.list_directory(log.path)
        assert [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))] == []
        check_invariants(log)
        if is_whole:
            assert (was_refused, full_from > 10) == (0, True)
            return


@pytest.mark.rule("FD-9", "FD-10", "R10.29")
async def test_cleaned_segments_that_could_not_all_be_named_for_want_of_room_are_completed_when_it_returns() -> None:
    """As on a file system that needs room for a name. In between the directory is offline, not failed."""
    node, disk = filling_node(A)
    log = await compacted_logs.fill(node)
    rename, renamed = disk.rename, 0

    def refuse_third(old: str, new: str) -> None:
        nonlocal renamed
        renamed += 1
        if renamed == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), new)
        rename(old, new)

    disk.rename = refuse_third  # type: ignore[method-assign]
    before = stored_records(log)
    await clean(node)
    assert node.logs.wait_for_room == (A,)
    disk.rename = rename  # type: ignore[method-assign]
    await reopen(node)
    found = node.logs.get(TP)
    assert found is not None
    found.set_high_watermark(found.log_end_offset)
    found.config = compacted_logs.CONFIG
    await clean(node)
    after = stored_records(found)
    assert len(after) < len(before)
    assert [record for record in before if record in after] == after
