"""The offset up to which a log was cleaned covers no record that no cleaning has seen: a deleted key stays deleted."""

from pathlib import Path

import pytest

from broker_agent.log.checkpoints import CLEANER_OFFSETS
from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import Offset
from tests.brokers.compacted_logs import append, clean, keyed_batch, roll, values
from tests.contract.log_worlds import TP, FileWorld, InMemoryWorld, Node

CONFIG = LogConfig(
    cleanup_policy="compact", min_cleanable_dirty_ratio=0.0, delete_retention_ms=1000, file_delete_delay_ms=0
)


@pytest.fixture(params=["files", "memory"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    world = FileWorld() if request.param == "files" else InMemoryWorld()
    root = str(tmp_path) if request.param == "files" else "/disk"
    return Node(world, f"{root}/a", config=CONFIG)


def found(node: Node) -> PartitionLog:
    log = node.logs.get(TP)
    assert log is not None
    return log


async def cleaned_log(node: Node, later: int) -> PartitionLog:
    """A log with a value of `deleted` at 0, which is clean, as are `later` records behind it."""
    await node.start()
    log = await node.log()
    append(log, keyed_batch([("deleted", "value")]))
    roll(log)
    for number in range(later):
        append(log, keyed_batch([(f"later {number}", "value")]))
    roll(log)
    assert await clean(node)
    assert log.first_dirty_offset == 1 + later
    return log


async def delete_and_go_on(node: Node, log: PartitionLog, records: int) -> None:
    """Write a tombstone of `deleted`, then as many other records; clean while the tombstone stays, and when it goes."""
    append(log, keyed_batch([("deleted", None)]))
    roll(log)
    for number in range(records):
        append(log, keyed_batch([(f"more {number}", "value")]))
        roll(log)
    for number in range(3):
        assert await clean(node)
        node.clock.at_ms += CONFIG.delete_retention_ms
        append(log, keyed_batch([(f"round {number}", "value")]))
        roll(log)


@pytest.mark.rule("R10.29", "R10.25")
async def test_a_checkpoint_beyond_the_log_end_brings_no_deleted_key_back(node: Node) -> None:
    log = await cleaned_log(node, 8)
    # Segments that a repair, or damage, has taken away while the broker was down.
    path, ends = log.path, [segment.base_offset for segment in log.segments]
    await node.stop()
    disk = node.world.new_disk()
    for name in disk.list_directory(path):
        if not name.startswith(f"{0:020}") or name.endswith(".snapshot"):
            disk.remove_file(f"{path}/{name}")
    file = disk.open_file(f"{path}/{0:020}.log")
    file.truncate(file.size // 9)
    file.close()
    await node.start()
    log = found(node)
    assert log.log_end_offset == 1 < ends[-1]
    assert log.first_dirty_offset <= 1
    await delete_and_go_on(node, log, 10)
    assert not [value for _, key, value in values(log) if key == "deleted"]


@pytest.mark.rule("R10.29", "R10.25")
@pytest.mark.parametrize("is_checkpointed", [False, True])
async def test_a_truncation_below_the_checkpoint_brings_no_deleted_key_back(node: Node, is_checkpointed: bool) -> None:
    log = await cleaned_log(node, 8)
    await log.flush()
    log.truncate_to(Offset(5))
    if is_checkpointed:
        await node.logs.flush_due()
    for number in range(2):
        append(log, keyed_batch([(f"again {number}", "value")]))
    await log.flush()
    await node.crash_and_restart()
    log = found(node)
    log.set_high_watermark(log.log_end_offset)
    assert log.first_dirty_offset <= 5
    await delete_and_go_on(node, log, 3)
    assert not [value for _, key, value in values(log) if key == "deleted"]


@pytest.mark.rule("R10.29", "R10.25")
async def test_the_checkpoint_of_a_log_that_is_gone_brings_no_deleted_key_back(node: Node) -> None:
    log = await cleaned_log(node, 8)
    path, directory = log.path, log.directory
    await node.stop()
    node.world.new_disk().remove_tree(path)
    await node.start()
    assert node.logs.disk.read_file(f"{directory}/{CLEANER_OFFSETS}") == b"0\n0\n"
    log = await node.log()
    append(log, keyed_batch([("deleted", "value")]), keyed_batch([("deleted", None)]))
    roll(log)
    for number in range(10):
        append(log, keyed_batch([(f"more {number}", "value")]))
    roll(log)
    await log.flush()
    await node.logs.write_recovery_points()
    # Whatever a checkpoint still said of the former log would be taken for that of this one.
    await node.crash_and_restart()
    log = found(node)
    log.set_high_watermark(log.log_end_offset)
    assert log.first_dirty_offset == 0
    await clean(node)
    assert (0, "deleted", "value") not in values(log)
