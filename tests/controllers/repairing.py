"""What tests of malformed znodes share: ways to put something good in their place, and a check for busy loops."""

import asyncio
from collections.abc import Awaitable, Callable

from cluster.zookeeper.port import Create, Delete, SetData
from tests.controllers.elections import cluster
from tests.controllers.worlds import RunningController, World

GARBAGE = b'{"version":1,"\xff'
OTHER_GARBAGE = b'{"version":1}'
Repair = Callable[[World, str, bytes], Awaitable[None]]


async def delete_and_create(world: World, path: str, good: bytes) -> None:
    await world.delete(path)
    await asyncio.sleep(1)
    await world.create(path, good)


async def replace_at_once(world: World, path: str, good: bytes) -> None:
    await world.write(Delete(path), Create(path, good))


async def overwrite(world: World, path: str, good: bytes) -> None:
    await world.write(SetData(path, good))


async def overwrite_twice(world: World, path: str, good: bytes) -> None:
    await world.write(SetData(path, OTHER_GARBAGE))
    await asyncio.sleep(1)
    await world.write(SetData(path, good))


async def overwrite_in_a_row(world: World, path: str, good: bytes) -> None:
    await world.write(SetData(path, OTHER_GARBAGE))
    await world.write(SetData(path, good))


REPAIRS = (delete_and_create, replace_at_once, overwrite, overwrite_twice, overwrite_in_a_row)


async def is_quiet(c: RunningController) -> None:
    """Nothing is asked of ZooKeeper time and again."""
    await asyncio.sleep(5)
    before = c.zookeeper.requests
    await asyncio.sleep(60)
    assert c.zookeeper.requests - before < 5


async def has_topic(*brokers: int) -> tuple[World, RunningController]:
    world, c = await cluster(*brokers)
    await world.create_topic("t", [1, 2])
    await world.leads("t", leader=1)
    await asyncio.sleep(1)
    return world, c


async def is_gone(world: World, path: str) -> bool:
    return await world.tool.get(path) is None
