"""Reassignments of partitions that never had a leader: refused or stored, and carried out later."""

import pytest

from tests.controllers.contexts import assignment
from tests.controllers.reassignments import Cluster, E
from tests.controllers.worlds import World, quiesce, run_virtually, until


@pytest.mark.rule("RA-14", "RA-3")
def test_a_partition_that_never_had_a_leader_cannot_be_moved() -> None:
    async def main() -> None:
        world = await World().start()
        controller = world.start_controller()
        await until(lambda: controller.is_active)
        await world.start_broker(3)
        await world.create_topic("t", [1, 2], [3])
        await world.leads("t", 1, leader=3)
        c = Cluster(world, controller)
        assert await c.alter({0: [3], 1: [3]}) == [E.UNKNOWN_SERVER_ERROR, E.NONE]
        await controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-15", "RA-16", "BK-13")
def test_a_replica_that_joins_before_there_was_a_leader_is_informed_of_it_ever_after() -> None:
    async def main() -> None:
        world = await World().start()
        controller = world.start_controller()
        await until(lambda: controller.is_active)
        await world.start_broker(1)
        await world.create_topic("t", [4, 2])
        await quiesce()
        c = Cluster(world, controller)
        (answer,) = (await c.ask_for({0: [4, 1]})).responses[0].partitions
        assert answer.error_code == E.UNKNOWN_SERVER_ERROR
        assert "the reassignment is recorded, and resumed" in (answer.error_message or "")
        assert await c.lists() == assignment([4, 1, 2], [1], [2])
        assert c.sent_to(1) == []
        await world.start_broker(4)
        await world.leads("t", leader=4, isr=(4, 1))
        await quiesce()
        assert await c.lists() == assignment([4, 1])
        await world.stop_broker(1)
        await world.leads("t", leader=4, isr=(4,))
        c.forget()
        await world.start_broker(1)
        await quiesce()
        assert c.sent_to(1) == ["lead or follow"]
        await controller.stop()

    run_virtually(main)
