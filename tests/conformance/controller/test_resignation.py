"""A controller that cannot stay active resigns and deletes `/controller`, and registered candidates compete."""

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from cluster.model.errors import OutcomeUnknownError, ZooKeeperError
from cluster.znodes.paths import CONTROLLER, CONTROLLER_EPOCH
from cluster.zookeeper.port import Delete, Op, SetData
from state_log.record import Kind
from tests.controllers.controller_elections import active_controller, epoch, owner, withhold_the_election
from tests.controllers.worlds import World, quiesce, run_virtually, running_cluster, until


@pytest.mark.rule("EL-7", "EL-12")
def test_a_failover_that_fails_moves_the_controller() -> None:
    async def main() -> None:
        world = await World().start()
        broken = world.start_controller(1001)

        async def refuse(path: str) -> None:
            raise OSError("no reading today")

        original = broken.zookeeper.children
        broken.zookeeper.children = lambda path, watch=False: refuse(path)  # type: ignore[assignment,misc]
        await until(lambda: broken.gauge("ControllerState") == 0 and len(broken.sink.of(Kind.CONTROLLER)) >= 1)
        healthy = world.start_controller(1002)
        await active_controller(healthy)
        await quiesce(5)
        assert healthy.gauge("ActiveControllerCount") == 1
        assert broken.gauge("ActiveControllerCount") == 0
        broken.zookeeper.children = original  # type: ignore[method-assign]
        await healthy.stop()
        await active_controller(broken)
        await broken.stop()

    run_virtually(main)


@pytest.mark.rule("EL-5", "EL-10")
def test_a_controller_znode_that_this_session_holds_without_being_active_is_deleted() -> None:
    async def main() -> None:
        world = await World().start()
        c = world.start_controller()
        withheld = withhold_the_election(c)
        await until(lambda: withheld, "the first attempt")
        # Somebody writes the epoch by hand before the candidate finds out that its attempt has worked.
        await c.zookeeper.multi(withheld[0])
        await world.write(SetData(CONTROLLER_EPOCH, b"41"))
        await active_controller(c)
        await quiesce()
        assert (await epoch(world))[0] == b"42"
        assert c.context.epoch == 42
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-12", "D-2")
def test_who_cannot_read_who_is_active_steps_down_all_the_same_and_competes_again() -> None:
    async def main() -> None:
        world = await World().start()
        c = await active_controller(world.start_controller())
        get = c.zookeeper.get

        async def refuse(path: str, *, watch: bool = False) -> Any:
            raise ZooKeeperError("no reading today")

        c.zookeeper.get = refuse  # type: ignore[method-assign]
        with pytest.raises(ZooKeeperError):
            await c.controller.step_down()
        assert not c.controller.is_active
        c.zookeeper.get = get  # type: ignore[method-assign]
        await active_controller(c)
        assert (await epoch(world))[0] == b"2"
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-26")
@pytest.mark.parametrize("is_active", [True, False])
def test_a_registration_that_somebody_deleted_is_made_again(is_active: bool) -> None:
    async def main() -> None:
        world = await World().start()
        active = await active_controller(world.start_controller(1002))
        standby = world.start_controller(1003)
        await quiesce()
        c = active if is_active else standby
        path = f"/controllers/ids/{c.controller.config.id}"
        for _ in range(2):
            await world.delete(path)
            await quiesce()
            znode = await world.tool.get(path)
            assert znode is not None
            assert znode.stat.ephemeral_owner == c.zookeeper.session_id
        assert [r.to_state for r in active.sink.of(Kind.CONTROLLER)] == ["active"]
        assert (await epoch(world))[0] == b"1"
        await standby.stop()
        await active.stop()

    run_virtually(main)


@pytest.mark.rule("EL-23", "D-26")
def test_nobody_competes_before_he_is_registered() -> None:
    async def main() -> None:
        world = await World().start()
        c = await active_controller(world.start_controller())
        # It fails while active and waits before it competes again; meanwhile its session ends and another takes its id.
        await c.controller.step_down()
        await quiesce(0.1)
        c.zookeeper.expire()
        await world.create("/controllers/ids/1001", b"{}")
        await quiesce(5)
        assert await owner(world) is None
        await world.delete("/controllers/ids/1001")
        await active_controller(c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-10", "ZC-2")
@pytest.mark.parametrize("malformed", [b"no json", None])
def test_a_controller_resigns_even_where_the_connection_breaks_meanwhile(malformed: bytes | None) -> None:
    async def main() -> None:
        world = await World().start()
        c = await active_controller(world.start_controller())
        original, lost = c.zookeeper.multi_many, []

        async def lose_once(transactions: Sequence[Sequence[Op]]) -> Any:
            if not lost and any(isinstance(op, Delete) and op.path == CONTROLLER for ops in transactions for op in ops):
                lost.append(transactions)
                return [OutcomeUnknownError("it did not arrive")]
            return await original(transactions)

        c.zookeeper.multi_many = lose_once  # type: ignore[method-assign]
        if malformed is None:
            await c.controller.step_down()
        else:
            await world.write(SetData(CONTROLLER, malformed))
        await until(lambda: c.is_active and c.context.epoch == 2)
        assert lost
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-7", "EL-12")
def test_who_steps_down_deletes_the_controller_znode_even_where_its_fence_is_gone() -> None:
    async def main() -> None:
        world = await World().start()
        c = await active_controller(world.start_controller())
        await world.delete(CONTROLLER_EPOCH)
        await c.controller.step_down()
        assert await world.tool.get(CONTROLLER) is None
        await active_controller(c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-20")
def test_the_loss_of_the_session_is_a_warning() -> None:
    async def main() -> None:
        _, c = await running_cluster(1, 2)
        with capture_logs() as lines:
            c.zookeeper.expire()
            await quiesce(5)
            assert c.is_active
        changes = [
            (line["log_level"], line["state"]) for line in lines if line["event"].startswith("ZooKeeper session s")
        ]
        assert changes == [("warning", "disconnected"), ("warning", "expired"), ("info", "connected")]
        await c.stop()

    run_virtually(main)


@pytest.mark.parametrize("by", ["stepping down", "expiry"])
def test_what_it_knew_of_the_cluster_is_freed_without_a_garbage_collection(by: str) -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2], [2, 1])
        await world.leads("t", 1, leader=2)
        assert c.controller.active is not None
        known = weakref.ref(c.controller.active.context.topics)
        gc.collect()
        gc.disable()
        try:
            if by == "expiry":
                c.zookeeper.expire()
            else:
                await c.controller.step_down()
            await until(lambda: c.controller.active is not None and c.context.epoch == 2)
            await quiesce()
            # A full collection may not come for days, and every failover would keep one more copy of the cluster.
            assert known() is None
        finally:
            gc.enable()
        await c.stop()

    run_virtually(main)
