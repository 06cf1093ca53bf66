"""What a log had lost when it was opened: from which offset, how far, and how far at least."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_agent.log.config import LogConfig
from cluster.model.broker import Offset
from tests.conformance.agent.test_recovery import SMALL, crash, found, segment_files
from tests.contract.log_worlds import TP, FileWorld, Node, batch, extents, fill


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(FileWorld(), str(tmp_path / "a"), config=SMALL)


@pytest.mark.rule("R9.22")
@pytest.mark.parametrize(("recovery_point", "high_watermark"), [(150, 0), (0, 120), (100, 120), (120, 100)])
async def test_a_cut_below_what_was_checkpointed_is_damage(
    node: Node, recovery_point: int, high_watermark: int
) -> None:
    node.config = LogConfig()
    await node.start()
    log = await node.log()
    fill(log, *[1] * 20)
    path = segment_files(log)[-1]
    await crash(node)
    content, size = bytearray(path.read_bytes()), len(batch(10))
    content[5 * size + 70] ^= 0x40
    path.write_bytes(content)
    for name, offset in (("recovery-point", recovery_point), ("replication", high_watermark)):
        (Path(log.path).parent / f"{name}-offset-checkpoint").write_text(f"0\n1\n{TP.topic} {TP.partition} {offset}\n")
    await node.start()
    assert extents(found(node))[-1] == (40, 49, 1)
    (replica,) = node.logs.damaged_replicas
    damage = replica.damage
    assert (replica.topic_partition, damage.from_offset, damage.to_offset, damage.size) == (TP, 50, 200, 15 * size)
    assert "offsets 50..199 are damaged" in replica.detail
    assert f"{path} at byte {5 * size}: checksum" in damage.reason
    await node.restart()
    assert [replica.damage for replica in node.logs.damaged_replicas] == [damage]
    assert not node.logs.newly_damaged or high_watermark > 50


def is_kept(path: Path, at: int) -> bytes:
    return path.read_bytes()


def without_length(path: Path, at: int) -> bytes:
    """The length field, too, is garbage: nothing but a search finds the next batch."""
    content = path.read_bytes()
    return content[: at + 8] + b"\xff" * 4 + content[at + 12 :]


def without_rest(path: Path, at: int) -> bytes:
    return path.read_bytes()[: at + 70]


@pytest.mark.rule("R9.22")
@pytest.mark.parametrize(
    ("segment_bytes", "change", "end", "is_known"),
    [
        (1 << 20, without_length, 200, True),
        (1 << 20, without_rest, 120, False),
        (1000, is_kept, 200, True),
        (1000, without_rest, 200, True),
    ],
)
async def test_damage_goes_as_far_as_anything_says_the_log_went(
    node: Node, segment_bytes: int, change: Callable[[Path, int], bytes], end: int, is_known: bool
) -> None:
    node.config = LogConfig(segment_bytes=segment_bytes)
    await node.start()
    log = await node.log()
    fill(log, *[1] * 20)
    path, size = segment_files(log)[0], len(batch(10))
    await node.logs.write_high_watermarks(node.paths[0], lambda: {TP: Offset(120)})
    await crash(node)
    content = bytearray(change(path, 2 * size))
    content[2 * size + 65] ^= 0x40
    path.write_bytes(content)
    await node.start()
    (replica,) = node.logs.damaged_replicas
    assert (replica.damage.from_offset, replica.damage.to_offset) == (20, end)
    assert replica.damage.is_end_known is is_known
    assert replica.detail.startswith(("at least " if not is_known else "") + f"offsets 20..{end - 1} are damaged")


@pytest.mark.rule("R9.22")
@pytest.mark.parametrize(
    ("file", "content"), [(f"{170:020d}.snapshot", ""), ("leader-epoch-checkpoint", "0\n2\n1 0\n2 170\n")]
)
async def test_snapshots_and_epochs_tell_how_far_a_log_went(node: Node, file: str, content: str) -> None:
    node.config = LogConfig()
    await node.start()
    log = await node.log()
    fill(log, *[1] * 5)
    await node.logs.write_high_watermarks(node.paths[0], lambda: {TP: Offset(120)})
    await crash(node)
    (Path(log.path) / file).write_text(content)
    await node.start()
    (replica,) = node.logs.damaged_replicas
    assert replica.detail.startswith("at least offsets 50..169 are damaged")


@pytest.mark.rule("R9.22")
async def test_what_was_never_known_to_be_there_is_no_damage(node: Node) -> None:
    await node.start()
    log = await node.log()
    fill(log, *[1] * 5)
    await log.flush()
    await node.logs.write_recovery_points()
    await node.logs.write_high_watermarks(node.paths[0], lambda: {TP: Offset(40)})
    fill(log, 1)
    path = segment_files(log)[-1]
    await crash(node)
    path.write_bytes(path.read_bytes()[:-30])
    await node.start()
    assert (found(node).log_end_offset, list(node.logs.damaged_replicas)) == (50, [])


@pytest.mark.rule("R9.22")
@pytest.mark.parametrize("whole", [False, True])
async def test_a_log_of_which_only_the_high_watermark_is_left_is_damaged(node: Node, whole: bool) -> None:
    await node.start()
    fill(await node.log(), *[1] * 5)
    await node.logs.write_high_watermarks(node.paths[0], lambda: {TP: Offset(50)})
    directory = Path(found(node).path)
    await node.stop()
    if whole:
        shutil.rmtree(directory)
    else:
        (directory / f"{0:020d}.log").unlink()
    await node.start()
    assert [(r.topic_partition, r.damage.from_offset, r.damage.to_offset) for r in node.logs.damaged_replicas] == [
        (TP, 0, 50)
    ]


@pytest.mark.rule("R9.22", "R10.11")
@pytest.mark.parametrize("log_start", [0, 52, 58, 65])
@pytest.mark.parametrize("flushed", [0, 30, 100])
@pytest.mark.parametrize("how", ["crash", "checkpoint and crash", "half a checkpoint and crash", "stop"])
async def test_what_a_truncation_inside_a_batch_removed_is_no_damage(
    node: Node, how: str, flushed: int, log_start: int
) -> None:
    await node.start()
    log, directory = await node.log(), node.paths[0]
    for number in range(10):
        fill(log, 1)
        if 10 * (number + 1) == flushed:
            await log.flush()
    await node.logs.write_recovery_points()
    await node.logs.write_high_watermarks(directory, lambda: {TP: log.set_high_watermark(Offset(80))})
    log.raise_log_start_offset(Offset(log_start))
    await node.logs.write_log_start_offsets()
    log.truncate_to(Offset(55))
    start = min(log_start, 55)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (start, 55, 55)
    assert log.epoch_entries == (((1, log_start),) if log_start < 55 else ())
    if how == "checkpoint and crash":
        await log.flush()
        await node.logs.write_recovery_points()
        await node.logs.write_high_watermarks(directory, lambda: {TP: log.high_watermark_to_checkpoint})
    elif how == "half a checkpoint and crash":
        await node.logs.flush_due()
    await (node.stop() if how == "stop" else crash(node))
    await node.start()
    assert list(node.logs.damaged_replicas) == []
    assert [extent for extent in extents(found(node)) if extent[1] >= start] == [
        (base, base + 9, 1) for base in range(0, 50, 10) if base + 9 >= start
    ]
    assert found(node).log_start_offset == start


@pytest.mark.rule("R9.22", "R10.12")
@pytest.mark.parametrize("how", ["crash", "half a checkpoint and crash", "stop"])
@pytest.mark.parametrize("offset", [20, 55, 500])
async def test_a_log_that_starts_again_at_an_earlier_offset_is_not_damaged(node: Node, how: str, offset: int) -> None:
    await node.start()
    log = await node.log()
    fill(log, *[1] * 10)
    await log.flush()
    await node.logs.write_high_watermarks(node.paths[0], lambda: {TP: log.set_high_watermark(Offset(80))})
    log.raise_log_start_offset(Offset(65))
    await node.logs.write_recovery_points()
    await node.logs.write_log_start_offsets()
    log.truncate_fully_and_start_at(Offset(offset))
    if how == "half a checkpoint and crash":
        await node.logs.write_recovery_points()
    await (node.stop() if how == "stop" else crash(node))
    await node.start()
    assert list(node.logs.damaged_replicas) == []
    assert (found(node).log_start_offset, found(node).log_end_offset) == (offset, offset)
