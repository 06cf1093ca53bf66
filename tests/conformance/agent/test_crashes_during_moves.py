"""A process ends, or the power fails, at any step of a move between log directories: the next one has every record, in
one place, and continues the move.
"""

import asyncio
from copy import deepcopy
from random import Random

import pytest

from broker_agent.log.checkpoints import MetaProperties
from broker_agent.log.config import LogConfig
from broker_agent.log.log_directories import LogDirectories
from broker_agent.log.opening import LoadOptions, open_log_directories
from broker_agent.log.segments import LogDependencies
from cluster.model.broker import BrokerEpoch, BrokerId
from cluster.model.errors import ErrorCode
from simulator.disk import SimulatedDisk
from simulator.virtual_time_loop import virtual_loop
from tests.brokers.agents import CLUSTER_ID, TP, AgentProcess, AgentWorld, virtually
from tests.brokers.log_dirs import (
    A,
    B,
    content,
    directory_of,
    limit_copies,
    move,
    moved,
    other_than,
    world_of_directories,
)
from tests.contract.log_worlds import TestClock, check_invariants


class Moment:
    """What is on disk after one callback of the event loop, and what was in the log then."""

    def __init__(self, disk: SimulatedDisk, content: bytes) -> None:
        self.disk, self.content = disk, content


async def move_and_look(world: AgentWorld) -> tuple[list[Moment], str]:
    """Move a replica under load; every moment at which something has changed on disk, and where the replica is then."""
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    for _ in range(12):
        await process.produce(5)
    await process.logs.flush_due()
    await process.logs.write_recovery_points()
    await process.agent.manager.checkpoint_high_watermarks()
    moments: list[Moment] = []
    seen: list[object] = []
    source = directory_of(process)

    def look() -> None:
        disk = process.disk
        state = [(path, len(inode.content), inode.durable_size) for path, inode in disk._files.items()]
        if not seen or seen[-1] != state:
            seen.append(state)
            moments.append(Moment(deepcopy(disk), content(process.partition().log)))

    async def load() -> None:
        while directory_of(process) == source:
            await process.produce(1)
            await asyncio.sleep(0.002)

    process.disk.latency_s = (0.0005, 0.003)
    virtual_loop().after_step = look
    producing = asyncio.ensure_future(load())
    assert await move(process, other_than(source)) == [ErrorCode.NONE]
    await moved(process, other_than(source))
    await producing
    for _ in range(5):
        await process.produce(1)
    look()
    virtual_loop().after_step = None
    await world.stop()
    return moments, source


async def open_disk(disk: SimulatedDisk, boot: str) -> LogDirectories:
    failures: list[str] = []
    logs = await open_log_directories(
        LogDependencies(disk, TestClock(), Random(99)),
        (A, B),
        MetaProperties(BrokerId(1), CLUSTER_ID),
        lambda path, _: failures.append(path),
        options=LoadOptions(default_config=LogConfig(segment_bytes=1000), boot_id=boot),
    )
    assert failures == []
    return logs


def plain_directories(disk: SimulatedDisk) -> list[str]:
    return [path for path in (f"{A}/{TP}", f"{B}/{TP}") if disk.is_directory(path)]


async def check_next_start(moment: Moment, *, power_fails: bool) -> bytes:
    """Start on what is there, twice; returns what the log has."""
    disk, boot = moment.disk, "boot-1"
    if power_fails:
        disk.lose_power()
        boot = "boot-2"
    else:
        disk.kill_process()
    logs = await open_disk(disk, boot)
    log = logs.get(TP)
    assert log is not None
    found = content(log)
    if power_fails:
        assert moment.content.startswith(found)
    else:
        assert found == moment.content
    assert len(plain_directories(disk)) == 1
    assert not [path for path in disk._files if path.endswith("swap-in-progress") and "-future/" not in path]
    future = logs.futures.get(TP)
    if future is not None:
        assert future.directory != log.directory
        assert moment.content.startswith(content(future))
        check_invariants(future)
    check_invariants(log)
    await logs.close(BrokerEpoch(1))
    disk.kill_process()
    again = await open_disk(disk, boot)
    log = again.get(TP)
    assert log is not None
    assert content(log) == found
    await again.close(BrokerEpoch(1))
    return found


@pytest.mark.rule("R11.13", "R11.12", "R9.14", "P14")
@pytest.mark.parametrize("power_fails", [False, True])
def test_nothing_is_lost_at_whatever_step_the_process_ends(power_fails: bool) -> None:
    @virtually
    async def run() -> None:
        moments, source = await move_and_look(world_of_directories(log_segment_bytes=1000))
        assert len(moments) > 25
        both = 0
        for moment in moments:
            before = plain_directories(moment.disk)
            assert before, "there is a plain directory at every moment"
            both += len(before) == 2
            await check_next_start(moment, power_fails=power_fails)
        assert both > 0, "the moment between both renames was seen"
        assert plain_directories(moments[-1].disk) == [f"{other_than(source)}/{TP}"]

    run()


@pytest.mark.rule("R2.13", "R11.13")
@pytest.mark.parametrize("part", range(4))
def test_a_move_is_completed_by_the_next_process_at_whatever_step_the_last_one_ended(part: int) -> None:
    @virtually
    async def look() -> None:
        moments.extend((await move_and_look(world_of_directories(log_segment_bytes=1000)))[0])

    moments: list[Moment] = []
    look()
    for number, moment in enumerate(moments):
        if number % 4 == part:
            go_on(moment)


def go_on(moment: Moment) -> None:
    @virtually
    async def run() -> None:
        world = world_of_directories(log_segment_bytes=1000)
        await world.start()
        moment.disk.kill_process()
        moment.disk.clock = world.clock

        process = AgentProcess(world, BrokerId(1))
        process.disk, process.random = moment.disk, Random("next")
        world.agents[1] = process
        await process.start()
        future, log = process.logs.futures.get(TP), process.logs.get(TP)
        assert log is not None
        target = log.directory if future is None else future.directory
        world.decide(1, (1,), leader_epoch=5)
        await world.update_metadata()
        assert await world.tell(1) is ErrorCode.NONE
        await limit_copies(world, None)
        assert (await process.produce(3, acks=-1)).error_code is ErrorCode.NONE
        await moved(process, target)
        assert content(process.partition().log).startswith(moment.content)
        assert len(plain_directories(process.disk)) == 1
        await world.stop()

    run()
