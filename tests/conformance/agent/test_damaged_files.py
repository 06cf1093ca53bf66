"""Any bytes of any file of a log may be damaged: the log opens with what is sound, or the file is named."""

import asyncio
from contextlib import suppress
from functools import cache
from operator import ge

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import walk
from broker_agent.log.time_search import first_batch_at
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import ClusterError, StartupError
from simulator.disk import SimulatedDisk
from tests.contract.log_worlds import TP, InMemoryWorld, Node, batch, check_invariants, extents, fill

DISK = "/disk/a"
FOLDER = f"{DISK}/{TP}"
SMALL = LogConfig(segment_bytes=1500, index_interval_bytes=200)
EPOCHS = [1] * 8 + [2] * 7 + [4] * 9
BATCHES = [(10 * at, 10 * at + 9, epoch) for at, epoch in enumerate(EPOCHS)]
Files = dict[str, bytes]


@cache
def files_of_a_log(*, clean: bool) -> Files:
    """The files of a log of several segments and epochs, after a clean stop or as a kill leaves them."""

    async def make() -> Files:
        world = InMemoryWorld()
        node = Node(world, DISK, config=SMALL)
        await node.start()
        log = await node.log()
        for number, epoch in enumerate(EPOCHS):
            log.append_as_leader(
                batch(10, timestamp=number, producer_id=7, producer_epoch=0, base_sequence=10 * number),
                LeaderEpoch(epoch),
                1_000_000,
            )
        await node.logs.write_high_watermarks(DISK, lambda: {TP: Offset(40)})
        if clean:
            await node.stop()
        return all_files(world.disk)

    return asyncio.run(make())


def all_files(disk: SimulatedDisk, path: str = DISK) -> Files:
    found: Files = {}
    for name in disk.list_directory(path):
        inside = f"{path}/{name}"
        if disk.is_directory(inside):
            found |= all_files(disk, inside)
        else:
            found[inside] = disk.read_file(inside) or b""
    return found


def world_with(files: Files) -> InMemoryWorld:
    world = InMemoryWorld()
    world.disk.make_directory(FOLDER)
    for path, content in files.items():
        world.disk.open_file(path).append([content])
    return world


def damage(content: bytes) -> st.SearchStrategy[bytes | None]:
    """Bytes changed, cut off, added or replaced; None: the file is gone."""
    changed = st.lists(st.tuples(st.integers(0, max(0, len(content) - 1)), st.integers(0, 255)), min_size=1, max_size=8)
    return st.one_of(
        changed.map(lambda changes: overwritten(content, changes)),
        st.integers(0, len(content)).map(lambda size: content[:size]),
        st.binary(min_size=1, max_size=80).map(lambda more: content + more),
        st.binary(max_size=120),
        st.none(),
    )


def overwritten(content: bytes, changes: list[tuple[int, int]]) -> bytes:
    damaged = bytearray(content)
    for at, value in changes:
        damaged[at : at + 1] = bytes([value])
    return bytes(damaged)


async def exercise(log: PartitionLog) -> None:
    """Every operation that derives something from the files; only expected errors may come out of it."""
    for at in range(-1, len(EPOCHS) + 1):
        with suppress(ClusterError):
            await first_batch_at(log, at, Offset(0))
    for step in (
        lambda: [log.read(Offset(at), 300, log.log_end_offset, at_least_one=True) for at in every_offset(log)],
        lambda: fill(log, log.latest_epoch or 0, count=3),
        lambda: [log.truncate_to(Offset(at)) for at in reversed(every_offset(log))],
    ):
        try:
            step()
        except ClusterError:
            continue


def every_offset(log: PartitionLog) -> list[int]:
    return list(range(log.log_start_offset, log.log_end_offset, 7)[:100])


@pytest.mark.rule("R9.15", "R9.19", "R9.7")
@given(st.data(), st.booleans())
def test_any_damage_leaves_a_sound_log_or_a_named_file(data: st.DataObject, clean: bool) -> None:
    files = dict(files_of_a_log(clean=clean))
    path = data.draw(st.sampled_from(sorted(files)))
    damaged = data.draw(damage(files.pop(path)))
    if damaged is not None:
        files[path] = damaged

    of_all_batches = producers()

    async def open_it() -> None:
        node = Node(world_with(files), DISK, config=SMALL)
        refused = await start_or_say_why(node)
        if refused is not None:
            assert path in refused
            return
        log = node.logs.get(TP)
        if log is None:
            assert path in node.logs.unloadable[TP]
            return
        if path.endswith(".log"):
            if not clean:
                # Without its first file a log is as retention leaves it.
                assert is_prefix(extents(log)) or (damaged is None and extents(log) == BATCHES[9:])
                check_invariants(log)
        elif not path.endswith("log-start-offset-checkpoint"):
            assert extents(log) == BATCHES
            check_invariants(log)
            assert log.producers.encode() == of_all_batches
        await exercise(log)
        await node.stop()
        await node.start()

    asyncio.run(open_it())


async def start_or_say_why(node: Node) -> str | None:
    try:
        await node.start()
    except StartupError as error:
        return str(error)
    return None


def is_prefix(found: list[tuple[int, int, int]]) -> bool:
    """Whether the log has the first batches; nothing contradicts a base offset or epoch of the last if too high."""
    true = BATCHES[: len(found)]
    return found == true or (found[:-1] == true[:-1] and all(map(ge, found[-1], true[-1])))


@cache
def producers() -> bytes:
    files = files_of_a_log(clean=True)

    async def read() -> bytes:
        node = Node(world_with(files), DISK, config=SMALL)
        log = (await node.start()).get(TP)
        assert log is not None
        return log.producers.encode()

    return asyncio.run(read())


@pytest.mark.rule("R9.15")
def test_a_damaged_base_offset_below_the_index_does_not_keep_a_log_from_being_truncated() -> None:
    """After a clean stop no batch is checked; only the last index entry and what follows it are."""
    files = dict(files_of_a_log(clean=True))
    path = max(name for name in files if name.endswith(".log"))
    third = [position for position, _ in walk(files[path])][2]
    files[path] = overwritten(files[path], [(third, 0x80)])

    async def use() -> None:
        node = Node(world_with(files), DISK, config=SMALL)
        await node.start()
        log = await node.log()
        for offset in range(log.log_end_offset, 0, -7):
            log.truncate_to(Offset(offset))
        assert log.log_end_offset < 7
        await node.stop()

    asyncio.run(use())
