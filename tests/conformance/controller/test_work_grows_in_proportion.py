"""The controller's work for an event grows with the partitions that it is about, and not with their square.

Counted in lines of Python that run, so that the machine does not matter.
"""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import cluster
import controller
from tests.controllers import RunningController, World, run_virtually, running_cluster, until

COUNTED = tuple(str(Path(str(package.__file__)).parent) for package in (controller, cluster))
PARTITIONS = 150

Step = Callable[[World, RunningController, int], Awaitable[None]]


async def create(world: World, c: RunningController, partitions: int) -> None:
    await world.create_topic("t", *[(1, 2, 3)] * partitions)
    await until(lambda: len(c.context.leaderships) == partitions)


async def lose_the_leader(world: World, c: RunningController, _: int) -> None:
    await world.stop_broker(1)
    await until(lambda: all(known.isr == (2, 3) for known in c.context.leaderships.values()))


async def take_it_back(world: World, c: RunningController, _: int) -> None:
    await world.start_broker(1)
    await until(lambda: c.gauge("ActiveBrokerCount") == 3)


async def fail_over(world: World, c: RunningController, _: int) -> None:
    successor = world.start_controller(1002)
    await c.stop()
    await until(lambda: successor.rules)


async def delete(world: World, c: RunningController, _: int) -> None:
    await world.create("/admin/delete_topics/t")
    await until(lambda: not c.context.topics)


class Lines:
    """How many lines of our own code have run."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(COUNTED):
            return None
        self.count += event == "line"
        return self


async def work(before: tuple[Step, ...], step: Step, partitions: int) -> int:
    world, c = await running_cluster(1, 2, 3)
    for earlier in before:
        await earlier(world, c, partitions)
    lines = Lines()
    tracer = sys.gettrace()
    sys.settrace(lines)
    try:
        await step(world, c, partitions)
    finally:
        sys.settrace(tracer)
    return lines.count


@pytest.mark.parametrize(
    ("before", "step"),
    [
        ((), create),
        ((create,), lose_the_leader),
        ((create, lose_the_leader), take_it_back),
        ((create,), fail_over),
        ((create,), delete),
    ],
)
def test_twice_the_partitions_are_twice_the_work(before: tuple[Step, ...], step: Step) -> None:
    once, twice = (run_virtually(lambda n=n: work(before, step, n)) for n in (PARTITIONS, 2 * PARTITIONS))
    assert twice < 2.4 * once
