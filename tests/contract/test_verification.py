"""Verifying the stored batches of a log while it is in use, on files and on the simulated disk."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import Offset
from tests.contract.log_worlds import FileWorld, InMemoryWorld, Node, batch, fill

SMALL = LogConfig(segment_bytes=1000)
SIZE = len(batch(10))
"""Of each batch in these logs; six of them fill a segment."""

pytestmark = pytest.mark.rule("R9.30")


@pytest.fixture(params=["files", "memory"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    is_file = request.param == "files"
    return Node(FileWorld() if is_file else InMemoryWorld(), str(tmp_path) if is_file else "/disk")


async def full_log(node: Node, batches: int = 20) -> PartitionLog:
    await node.start()
    log = await node.log(SMALL)
    fill(log, *[0] * batches)
    return log


def flip(log: PartitionLog, segment: int, position: int) -> None:
    file = [*log.segments][segment]._file
    content = bytearray(file.read(0, file.size))
    content[position] ^= 0xFF
    file.truncate(0)
    file.append([bytes(content)])


class Pieces:
    """Counts the verified bytes; `meanwhile` runs after the first piece."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.sizes: list[int] = []
        self._meanwhile = meanwhile

    async def __call__(self, size: int) -> None:
        self.sizes.append(size)
        if len(self.sizes) == 1:
            self._meanwhile()


async def test_all_but_the_unflushed_part_of_the_active_segment_is_verified(node: Node) -> None:
    log = await full_log(node)
    sealed = Pieces()
    assert await log.verify(sealed) is None
    assert sum(sealed.sizes) == 18 * SIZE
    await log.flush()
    fill(log, 0)
    flip(log, -1, log.segments.active.size - 1)
    pieces = Pieces()
    assert await log.verify(pieces) is None
    assert sum(pieces.sizes) == 20 * SIZE


@pytest.mark.parametrize("position", [0, 8, 16, 21, SIZE - 1])
async def test_the_first_damaged_batch_is_named(node: Node, position: int) -> None:
    log = await full_log(node)
    await log.flush()
    second = [*log.segments][1]
    flip(log, 1, SIZE + position)
    damage = await log.verify(Pieces())
    assert damage is not None
    following = [*log.segments][2].base_offset
    assert (damage.from_offset, damage.to_offset) == (second.base_offset + 10, following)
    assert (damage.size, damage.is_cut) == (0, False)
    assert damage.reason.startswith(f"{second.path} at byte {SIZE}: ")


async def test_what_changes_meanwhile_is_no_damage(node: Node) -> None:
    log = await full_log(node)
    await log.flush()
    flip(log, 1, SIZE)

    assert await log.verify(Pieces(lambda: log.truncate_to(Offset(15)))) is None
    fill(log, *[0] * 20)
    await log.flush()
    flip(log, 1, SIZE)
    assert await log.verify(Pieces(log.abandon)) is None
    assert node.failures == []


@pytest.mark.parametrize("offset", [5, 15])
async def test_a_log_may_be_truncated_while_a_piece_of_it_is_read(node: Node, offset: int) -> None:
    log = await full_log(node)
    await log.flush()
    verifying = asyncio.create_task(log.verify(Pieces()))
    await asyncio.sleep(0)
    log.truncate_to(Offset(offset))
    assert await verifying is None
    assert node.failures == []
