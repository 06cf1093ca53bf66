"""An office that cannot be held is left, one nobody rules by is given up, and only the registered compete for it."""

from collections.abc import Sequence
from typing import Any

import pytest

from cluster.errors import OutcomeUnknownError, ZooKeeperError
from cluster.state_change_log import Kind
from cluster.znodes import CONTROLLER, CONTROLLER_EPOCH
from cluster.zookeeper.port import Delete, Op, SetData
from tests.controllers import World, run_virtually, settle, until
from tests.offices import epoch, in_office, owner, withhold_the_election


@pytest.mark.rule("EL-7", "EL-12")
def test_a_failover_that_fails_passes_the_office_on() -> None:
    async def main() -> None:
        world = await World().start()
        broken = world.start_controller(1001)

        async def refuse(path: str) -> None:
            raise OSError("no reading today")

        original = broken.zookeeper.children
        broken.zookeeper.children = lambda path, watch=False: refuse(path)  # type: ignore[assignment,misc]
        await until(lambda: broken.gauge("ControllerState") == 0 and len(broken.sink.of(Kind.CONTROLLER)) >= 1)
        healthy = world.start_controller(1002)
        await in_office(healthy)
        await settle(5)
        assert healthy.gauge("ActiveControllerCount") == 1
        assert broken.gauge("ActiveControllerCount") == 0
        broken.zookeeper.children = original  # type: ignore[method-assign]
        await healthy.stop()
        await in_office(broken)
        await broken.stop()

    run_virtually(main)


@pytest.mark.rule("EL-5", "EL-10")
def test_an_office_that_this_session_holds_without_ruling_is_given_up() -> None:
    async def main() -> None:
        world = await World().start()
        c = world.start_controller()
        withheld = withhold_the_election(c)
        await until(lambda: withheld, "the first attempt")
        # Somebody writes the epoch by hand before the candidate finds out that its attempt has worked.
        await c.zookeeper.multi(withheld[0])
        await world.write(SetData(CONTROLLER_EPOCH, b"41"))
        await in_office(c)
        await settle()
        assert (await epoch(world))[0] == b"42"
        assert c.context.epoch == 42
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-12", "D-2")
def test_who_cannot_read_who_rules_steps_down_all_the_same_and_competes_again() -> None:
    async def main() -> None:
        world = await World().start()
        c = await in_office(world.start_controller())
        get = c.zookeeper.get

        async def refuse(path: str, *, watch: bool = False) -> Any:
            raise ZooKeeperError("no reading today")

        c.zookeeper.get = refuse  # type: ignore[method-assign]
        with pytest.raises(ZooKeeperError):
            await c.controller.step_down()
        assert not c.controller.in_office
        c.zookeeper.get = get  # type: ignore[method-assign]
        await in_office(c)
        assert (await epoch(world))[0] == b"2"
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-26")
@pytest.mark.parametrize("rules", [True, False])
def test_a_registration_that_somebody_deleted_is_made_again(rules: bool) -> None:
    async def main() -> None:
        world = await World().start()
        ruler = await in_office(world.start_controller(1002))
        standby = world.start_controller(1003)
        await settle()
        c = ruler if rules else standby
        path = f"/controllers/ids/{c.controller.config.id}"
        for _ in range(2):
            await world.delete(path)
            await settle()
            node = await world.tool.get(path)
            assert node is not None
            assert node.stat.ephemeral_owner == c.zookeeper.session_id
        assert [r.to_state for r in ruler.sink.of(Kind.CONTROLLER)] == ["active"]
        assert (await epoch(world))[0] == b"1"
        await standby.stop()
        await ruler.stop()

    run_virtually(main)


@pytest.mark.rule("EL-23", "D-26")
def test_nobody_competes_before_he_is_registered() -> None:
    async def main() -> None:
        world = await World().start()
        c = await in_office(world.start_controller())
        # It fails in office and waits before it competes again; meanwhile its session ends and somebody takes its id.
        await c.controller.step_down()
        await settle(0.1)
        c.zookeeper.expire()
        await world.create("/controllers/ids/1001", b"{}")
        await settle(5)
        assert await owner(world) is None
        await world.delete("/controllers/ids/1001")
        await in_office(c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-10", "ZC-2")
@pytest.mark.parametrize("spoiled", [b"no json", None])
def test_an_office_is_left_even_where_the_connection_breaks_meanwhile(spoiled: bytes | None) -> None:
    async def main() -> None:
        world = await World().start()
        c = await in_office(world.start_controller())
        original, lost = c.zookeeper.multi_many, []

        async def lose_once(transactions: Sequence[Sequence[Op]]) -> Any:
            if not lost and any(isinstance(op, Delete) and op.path == CONTROLLER for ops in transactions for op in ops):
                lost.append(transactions)
                return [OutcomeUnknownError("it did not arrive")]
            return await original(transactions)

        c.zookeeper.multi_many = lose_once  # type: ignore[method-assign]
        if spoiled is None:
            await c.controller.step_down()
        else:
            await world.write(SetData(CONTROLLER, spoiled))
        await until(lambda: c.rules and c.context.epoch == 2)
        assert lost
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-7", "EL-12")
def test_who_steps_down_leaves_an_office_even_where_its_fence_is_gone() -> None:
    async def main() -> None:
        world = await World().start()
        c = await in_office(world.start_controller())
        await world.delete(CONTROLLER_EPOCH)
        await c.controller.step_down()
        assert await world.tool.get(CONTROLLER) is None
        await in_office(c)
        await c.stop()

    run_virtually(main)
