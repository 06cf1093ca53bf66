"""Shared by tests of controller elections: who is active, under which epoch, and elections whose answers are lost."""

from collections.abc import Sequence

from cluster.model.errors import OutcomeUnknownError
from cluster.znodes.controller import decode_controller
from cluster.znodes.paths import CONTROLLER, CONTROLLER_EPOCH
from cluster.zookeeper.port import Create, Op, OpResult
from tests.controllers.worlds import RunningController, World, until


async def active_controller(*candidates: RunningController) -> RunningController:
    def find() -> RunningController | None:
        return next((c for c in candidates if c.is_active), None)

    found: RunningController = await until(find, "an active controller")
    return found


async def epoch(world: World) -> tuple[bytes, int]:
    znode = await world.tool.get(CONTROLLER_EPOCH)
    assert znode is not None
    return znode.data, znode.stat.version


async def owner(world: World) -> int | None:
    znode = await world.tool.get(CONTROLLER)
    return None if znode is None else decode_controller(znode.data)


def withhold_the_election(c: RunningController) -> list[list[Op]]:
    """Withhold the first transaction that would win the election, as a lost connection does. Returns where it is."""
    withheld: list[list[Op]] = []
    original = c.zookeeper.multi

    async def multi(ops: Sequence[Op]) -> list[OpResult]:
        if not withheld and any(isinstance(op, Create) and op.path == CONTROLLER for op in ops):
            withheld.append(list(ops))
            raise OutcomeUnknownError("the connection was lost")
        return await original(ops)

    c.zookeeper.multi = multi  # type: ignore[method-assign]
    return withheld
