"""Lines of the journal of leader epochs that do not count any more: of logs that are gone, moved or started again."""

import asyncio
import itertools

import pytest

from broker_agent.log import checkpoints
from broker_agent.log.epoch_journal import EPOCH_JOURNAL, JournaledEpochs, decode_journal
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.partition import TopicPartition
from tests.brokers.agents import until, virtually
from tests.brokers.dying_disk import KilledError
from tests.contract.log_worlds import InMemoryWorld, Node, fetched
from tests.contract.test_compaction_crashes import DyingWorld, start_again
from tests.contract.test_epoch_journal import OTHER_ID, TPS, create, entry, fill, lead, logs_of, started

MANY = TPS[:6]


def journaled(node: Node, directory: str = "/data") -> dict[TopicPartition, JournaledEpochs]:
    return decode_journal(node.world.new_disk().read_file(f"{directory}/{EPOCH_JOURNAL}"))[0]


@pytest.mark.rule("R4.3", "R9.9")
@pytest.mark.parametrize("loses_power", [False, True])
async def test_a_new_topic_gets_nothing_of_one_in_whose_deletion_the_process_died(loses_power: bool) -> None:
    for change in itertools.count():
        world = DyingWorld(change)
        node = Node(world, "/data")
        await node.start()
        await create(node)
        await lead(node, 9)
        world.disk.changes_left = change
        try:
            await node.logs.delete(TPS)
            survived = True
        except KilledError:
            survived = False
        world.disk.changes_left = None
        await start_again(node, loses_power=loses_power)
        # What is left is deleted when the controller asks once more.
        assert not await node.logs.delete(TPS)
        await create(node, OTHER_ID)
        await node.crash_and_restart()
        assert {log.topic_id for log in logs_of(node)} <= {OTHER_ID, None}, change
        if survived:
            break
    assert change > len(TPS)


@pytest.mark.rule("R9.9")
async def test_a_new_log_gets_nothing_of_one_whose_directory_was_removed_by_hand() -> None:
    for seed in range(5):
        node = await started(seed)
        await create(node)
        await lead(node, 9)
        await node.stop()
        for tp in TPS:
            node.world.new_disk().remove_tree(f"/data/{tp}")
        await node.start()
        assert journaled(node) == {}
        await create(node, OTHER_ID)
        await node.crash_and_restart()
        assert {log.topic_id for log in logs_of(node)} <= {OTHER_ID, None}


@pytest.mark.rule("R10.12", "R9.11")
async def test_a_log_that_was_started_again_behind_its_end_has_no_epoch_of_before() -> None:
    node = await started()
    await create(node)
    await lead(node, 2)
    await fill(node, 2)
    await lead(node, 5)
    for log in logs_of(node):
        log.truncate_fully_and_start_at(Offset(100))
        await log.flush()
    await node.crash_and_restart()
    assert {log.epoch_entries for log in logs_of(node)} == {()}
    assert {log.log_start_offset for log in logs_of(node)} == {100}


@pytest.mark.rule("R9.11", "R9.23")
async def test_records_of_an_earlier_epoch_than_a_truncated_one_stay_confirmed() -> None:
    """An election without the ISR has made a leader of a replica with records of before."""
    node = await started()
    await create(node)
    await lead(node, 2)
    await fill(node, 2)
    await lead(node, 5)
    for log in logs_of(node):
        log.truncate_to(Offset(1))
        log.append_as_follower(fetched(1, epoch=2), LeaderEpoch(6))
        await log.flush()
    await node.crash_and_restart()
    assert {(log.epoch_entries, log.confirmed_epoch) for log in logs_of(node)} == {((entry(2, 0),), 2)}


@pytest.mark.rule("R9.9")
@pytest.mark.parametrize("seed", range(5))
def test_tasks_that_forget_a_deleted_log_take_nothing_from_its_successor(seed: int) -> None:
    @virtually
    async def check() -> None:
        world = InMemoryWorld(seed)
        world.disk.latency_s = (0.0, 0.1)
        node = Node(world, "/data")
        await node.start()
        await create(node)
        await lead(node, 9)
        deleting = asyncio.ensure_future(node.logs.delete(TPS))
        await until(lambda: bool(node.logs.directories["/data"].to_forget))
        flushing = [asyncio.ensure_future(node.logs.flush_due()) for _ in range(3)]
        await deleting
        await create(node, OTHER_ID)
        await lead(node, 1)
        before = journaled(node)
        await asyncio.gather(*flushing)
        assert before.keys() == set(TPS[1:])
        assert journaled(node) == before

    check()


@pytest.mark.rule("R9.9")
async def test_a_line_of_an_earlier_topic_does_not_outlive_a_start() -> None:
    """As after a deletion and creation by an earlier release, which ignores the journal."""
    node = await started()
    await create(node)
    await lead(node, 9)
    await node.stop()
    disk = node.world.new_disk()
    for tp in MANY:
        disk.remove_tree(f"/data/{tp}")
        disk.make_directory(f"/data/{tp}")
        content = checkpoints.encode_partition_metadata(OTHER_ID)
        checkpoints.write_atomically(disk, f"/data/{tp}", checkpoints.PARTITION_METADATA, content)
    await node.start()
    assert journaled(node).keys() == {*TPS[1:]} - {*MANY}
    assert {node.logs.all_logs()[tp].topic_id for tp in MANY} == {OTHER_ID}


@pytest.mark.rule("R3.7a", "R9.21")
async def test_a_full_disk_on_which_the_journal_cannot_be_rewritten_refuses_neither_a_role_nor_a_clean_stop() -> None:
    world = InMemoryWorld()
    node, disk = Node(world, "/data"), world.disk
    await node.start()
    await create(node)
    for epoch in itertools.count():
        await lead(node, epoch)
        size = len(disk.read_file(f"/data/{EPOCH_JOURNAL}") or b"")
        if size > 64 << 10:
            break
    # There is room for the lines of an election, and not for them once more.
    disk.limit("/data", 3 * size // (epoch + 1) // 2)
    await lead(node, epoch + 1)
    assert len(disk.read_file(f"/data/{EPOCH_JOURNAL}") or b"") > size
    assert disk.read_file(f"/data/{EPOCH_JOURNAL}.tmp") is None
    await node.stop()
    assert disk.read_file(f"/data/{checkpoints.CLEAN_MARKER}") is not None


@pytest.mark.rule("R11.13", "R9.9")
@pytest.mark.parametrize("is_finished", [False, True], ids=["killed", "finished"])
async def test_a_log_that_was_moved_leaves_no_line_in_its_former_directory(is_finished: bool) -> None:
    node = Node(InMemoryWorld(), "/disk/a", "/disk/b")
    await node.start()
    await create(node)
    await lead(node, 9)
    tp, target = next((tp, "/disk/b") for tp in journaled(node, "/disk/a"))
    current = node.logs.all_logs()[tp]
    copy = await node.logs.create_future(tp, target)
    await node.logs.prepare_swap(copy)
    await node.logs.futures.put_in_place(copy, current)
    node.logs.replace_current(copy)
    if is_finished:
        await node.logs.finish_swap(copy, "/disk/a")
        assert tp not in journaled(node, "/disk/a")
    await node.crash_and_restart()
    await node.logs.flush_due()
    assert node.logs.all_logs()[tp].directory == target
    assert tp not in journaled(node, "/disk/a")


@pytest.mark.rule("R9.11", "R9.23")
async def test_a_checkpoint_that_agrees_with_the_batches_counts_where_the_journal_was_left_behind() -> None:
    """An earlier release ignored the file, and wrote records of before after an election without the ISR."""
    node = await started()
    await create(node)
    await lead(node, 1)
    await node.stop()
    disk = node.world.new_disk()
    left = disk.read_file(f"/data/{EPOCH_JOURNAL}")
    assert left
    disk.remove_file(f"/data/{EPOCH_JOURNAL}")
    await node.start()
    for log in logs_of(node):
        log.append_as_follower(fetched(0, epoch=0), LeaderEpoch(2))
    await node.stop()
    checkpoints.write_atomically(disk, "/data", EPOCH_JOURNAL, left)
    await node.start()
    assert {(log.epoch_entries, log.confirmed_epoch) for log in logs_of(node)} == {((entry(0, 0),), 0)}
