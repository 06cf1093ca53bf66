"""The machine of a broker that moves a replica loses its power at each await of the disk, one after the other: the move
ends after the next start.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

import pytest

from cluster.model.errors import ErrorCode
from simulator.disk import SimulatedDisk
from tests.brokers.agents import TP, AgentProcess, AgentWorld, until, virtually
from tests.brokers.log_dirs import content, directory_of, move, moved, other_than, partition_dirs, world_of_directories

T = TypeVar("T")
NONE = ErrorCode.NONE


class HaltingDisk(SimulatedDisk):
    """Of the pieces of work for threads, those from the number `at` on, counted from 0, never begin."""

    at: int | None = None
    pieces = 0

    def halt_at(self, at: int | None) -> None:
        self.at, self.pieces = at, 0
        self.halted = asyncio.Event()

    async def run(self, work: Callable[[], T]) -> T:
        if self.at is not None:
            self.pieces += 1
            if self.pieces > self.at:
                self.halted.set()
                await asyncio.Event().wait()
        return await super().run(work)


class HaltingProcess(AgentProcess):
    disk: HaltingDisk

    def __init__(self, world: AgentWorld, broker: Any) -> None:
        super().__init__(world, broker)
        self.disk = HaltingDisk(world.clock, Random(broker))
        self.disk.halt_at(None)


async def move_and_die(at: int) -> bool:
    """Let the broker die at the await with this number; whether the move was not over by then."""
    world = world_of_directories(log_segment_bytes=1500, log_flush_scheduler_interval_ms=3_600_000)
    await world.start()
    process = world.agents[1] = HaltingProcess(world, 1)
    await process.start()
    await world.create(1, (1,))
    for _ in range(8):
        await process.produce(10)
    log = process.partition().log
    assert log is not None
    await log.flush()
    await process.logs.write_recovery_points()
    before, source = content(log), directory_of(process)
    target = other_than(source)
    process.disk.halt_at(at)
    asking = asyncio.ensure_future(move(process, target))
    halted = asyncio.ensure_future(process.disk.halted.wait())
    over = asyncio.ensure_future(moved(process, target))
    await asyncio.wait([halted, over], return_when=asyncio.FIRST_COMPLETED)
    was_halted = halted.done()
    for task in (asking, halted, over):
        task.cancel()
    await asyncio.gather(asking, halted, over, return_exceptions=True)
    await process.crash(power_fails=True)
    process.disk.halt_at(None)
    await asyncio.sleep(7)
    await process.start()
    await until(lambda: sum("orders-0" in kinds for kinds in partition_dirs(process).values()) == 1)
    assert content(process.logs.get(TP)) == before
    world.decide(1, (1,))
    await world.update_metadata()
    assert await world.tell(1) is NONE
    # Without a copy the request never took effect, and is made again; with one the move continues by itself.
    if directory_of(process) == source and process.logs.futures.get(TP) is None:
        assert await move(process, target) == [NONE]
    await moved(process, target)
    assert content(process.partition().log) == before
    assert (await process.produce(10)).error_code is NONE
    assert process.offsets() == (90, 90)
    assert process.agent.copies.failed == ()
    assert [replica for replica in process.logs.damaged_replicas if not replica.is_in_doubt] == []
    await process.stop()
    return was_halted


def run_virtually(work: Coroutine[Any, Any, bool]) -> bool:
    outcome: list[bool] = []

    @virtually
    async def run() -> None:
        outcome.append(await work)

    run()
    return outcome[0]


@pytest.mark.rule("R11.13", "R11.12", "R2.13")
def test_a_broker_whose_power_fails_at_any_await_of_a_move_ends_it_after_the_next_start() -> None:
    halts = itertools.takewhile(lambda at: run_virtually(move_and_die(at)), itertools.count())
    assert len(list(halts)) > 15
