"""The process or the machine dies at each change that a move between log directories makes to the in-memory disk."""

import itertools

import pytest

from broker_agent.log.directory_names import SWAP_MARKER
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import LeaderEpoch, Offset
from tests.brokers.compacted_logs import append, clean, keyed_batch, stored_records
from tests.brokers.dying_disk import KilledError
from tests.contract.log_worlds import TP, Node, check_invariants
from tests.contract.test_cleaning_and_moving import copy_all
from tests.contract.test_compaction_crashes import CONFIG, DyingWorld, fill, start_again

PATHS = ("/disk/a", "/disk/b")
LAST = keyed_batch([("k0", "last")], producer_id=5, producer_epoch=0, base_sequence=54)


async def move(node: Node, current: PartitionLog) -> None:
    """What a copier does, step by step, while the log grows; then what is done with the directory that was left."""
    logs = node.logs
    target = next(path for path in logs.live_directories if path != current.directory)
    future = await logs.create_future(TP, target)
    await copy_all(current, future)
    await logs.prepare_swap(future)
    append(current, LAST, epoch=2)
    await copy_all(current, future)
    await logs.futures.put_in_place(future, current)
    logs.replace_current(future)
    await logs.finish_swap(future, current.directory)
    await logs.remove_deleted()


def plain_directories(node: Node) -> list[str]:
    return [path for path in PATHS if node.world.new_disk().is_directory(f"{path}/{TP}")]


@pytest.mark.rule("R11.13", "R11.12", "R9.14", "R10.29")
@pytest.mark.parametrize("loses_power", [False, True])
async def test_whatever_change_of_a_move_is_the_last_the_log_is_whole_and_in_one_place(loses_power: bool) -> None:
    kills, places = 0, set[str]()
    for change in itertools.count():
        world = DyingWorld(change)
        node = Node(world, *PATHS, config=CONFIG)
        log = await fill(node)
        assert await clean(node)
        before, entries, cleaned_up_to = stored_records(log), log.epoch_entries, log.first_dirty_offset
        await log.flush()
        await node.logs.write_recovery_points()
        world.disk.changes_left = change
        try:
            await move(node, log)
            survived = True
        except KilledError:
            survived, kills = False, kills + 1
        world.disk.changes_left = None
        await start_again(node, loses_power=loses_power)
        assert node.failures == []
        found = node.logs.get(TP)
        assert found is not None
        assert plain_directories(node) == [found.directory]
        assert world.disk.read_file(f"{found.path}/{SWAP_MARKER}") is None
        check_invariants(found)
        records = stored_records(found)
        # What was written during the move was not acknowledged by a flush.
        assert records[: len(before)] == before
        assert len(records) <= len(before) + 1
        assert found.epoch_entries == entries
        # Where the checkpoint of the other directory does not have it yet, all is cleaned once more.
        assert found.first_dirty_offset in (0, cleaned_up_to)
        assert [replica for replica in node.logs.damaged_replicas if not replica.is_in_doubt] == []
        future = node.logs.futures.get(TP)
        if future is not None:
            assert future.directory != found.directory
            check_invariants(future)
            # Of what was not flushed either may have lost more: the copy is truncated in the next leader epoch.
            copied = stored_records(future)
            assert copied[: len(records)] == records[: len(copied)]
        places.add(found.directory)
        if found.log_end_offset == 55:
            assert not found.append_as_leader(LAST, LeaderEpoch(2), 1).duplicate
        assert found.append_as_leader(LAST, LeaderEpoch(2), 1).duplicate
        # The move, or the next one, can be carried out.
        found.set_high_watermark(Offset(found.log_end_offset))
        await node.logs.delete_future(TP)
        whole = stored_records(found)
        target = next(path for path in PATHS if path != found.directory)
        copy = await node.logs.create_future(TP, target)
        await copy_all(found, copy)
        await node.logs.prepare_swap(copy)
        await node.logs.futures.put_in_place(copy, found)
        node.logs.replace_current(copy)
        await node.logs.finish_swap(copy, found.directory)
        await node.restart()
        again = node.logs.get(TP)
        assert again is not None
        assert (again.directory, stored_records(again)) == (target, whole)
        if survived:
            break
    assert kills > 40
    assert places == set(PATHS)
