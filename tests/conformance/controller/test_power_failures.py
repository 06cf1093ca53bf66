"""Power fails at all brokers: whoever is back first, the members of an ISR wait for one another, and the one with the
newest log leads.
"""

from itertools import permutations

import pytest

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.requests.agents import UNCLEAN_SHUTDOWN
from tests.controllers.damage_reports import report
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

E = ErrorCode
ENDS = {1: 90, 2: 50, 3: 70}
"""Broker -> where its log ends after the power failure."""


async def power_failed(*, controller: str) -> tuple[World, RunningController]:
    """Topic t on brokers 1 to 3, all in sync, which are gone; an active controller.

    `controller`: whether it "saw them go", or is "back first", before the brokers.
    """
    world, c = await running_cluster(1, 2, 3, auto_leader_rebalance_enable=False)
    await world.create_topic("t", [3, 2, 1])
    await world.leads("t", leader=3)
    if controller == "back first":
        c.crash()
    await world.stop_broker(*ENDS)
    if controller == "back first":
        c = world.start_controller(1002, auto_leader_rebalance_enable=False)
        await until(lambda: c.is_active, "another controller")
    await quiesce(1)
    await world.leads("t", leader=-1)
    return world, c


async def back_in_doubt(world: World, c: RunningController, broker: int) -> list[ErrorCode]:
    await world.start_broker(broker, damaged=True)
    await quiesce()
    return await report(world, c, broker, UNCLEAN_SHUTDOWN, end=ENDS[broker])


@pytest.mark.rule("D-120", "RM-10")
@pytest.mark.parametrize("order", list(permutations(ENDS)))
def test_the_longest_log_leads_in_whatever_order_brokers_are_back(order: tuple[int, ...]) -> None:
    async def main() -> None:
        world, c = await power_failed(controller="back first")
        await world.leads("t", leader=-1, isr=[3, 2, 1])
        for broker in order:
            assert (await world.state("t")) is not None
            await world.leads("t", leader=-1, isr=[3, 2, 1])
            await back_in_doubt(world, c, broker)
        await world.leads("t", leader=1, isr=[1])
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-120")
@pytest.mark.parametrize("gone", [(), (2,), (1, 2)])
def test_members_stay_in_the_isr_when_they_go_again_before_all_are_back(gone: tuple[int, ...]) -> None:
    """Each in doubt, and held; some stop again before anybody was elected."""

    async def main() -> None:
        world, c = await power_failed(controller="back first")
        for broker in (1, 2):
            assert await back_in_doubt(world, c, broker) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        for broker in gone:
            await world.stop_broker(broker)
            await quiesce(2)
        await world.leads("t", leader=-1, isr=[3, 2, 1])
        for broker in (3, *gone):
            await back_in_doubt(world, c, broker)
        await world.leads("t", leader=1, isr=[1])
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-120", "D-41")
@pytest.mark.parametrize("others", [(), (3,)])
def test_nobody_waits_for_ever_for_those_that_stay_away(others: tuple[int, ...]) -> None:
    async def main() -> None:
        world, c = await power_failed(controller="back first")
        for broker in (2, *others):
            await back_in_doubt(world, c, broker)
        await quiesce(55)
        await world.leads("t", leader=-1, isr=[3, 2, 1])
        longest = max((2, *others), key=ENDS.__getitem__)
        await quiesce(15)
        state = await world.state("t")
        assert state is not None
        assert (state.leader, state.isr) == (longest, (longest,))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-120", "RM-10")
@pytest.mark.parametrize("controller", ["back first", "saw them go"])
@pytest.mark.parametrize("first", list(ENDS))
def test_a_member_that_lost_nothing_leads_at_once(controller: str, first: int) -> None:
    """All were killed, on machines that run on."""

    async def main() -> None:
        world, c = await power_failed(controller=controller)
        state = await world.state("t")
        assert state is not None
        await world.start_broker(first)
        await quiesce()
        after = await world.state("t")
        assert after is not None
        if first in state.isr:
            assert (after.leader, after.isr) == (first, (first,))
        else:
            assert after.leader == -1
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RM-10", "D-120")
def test_members_that_go_while_another_one_is_online_leave_the_isr() -> None:
    """What a rolling restart or the crash of a broker sees is as ever."""

    async def main() -> None:
        world, c = await running_cluster(1, 2, 3, auto_leader_rebalance_enable=False)
        await world.create_topic("t", [1, 2, 3])
        await world.leads("t", leader=1)
        for broker, left in ((1, [2, 3]), (2, [3])):
            await world.stop_broker(broker)
            await world.leads("t", leader=left[0], isr=left)
        await world.stop_broker(3)
        await world.leads("t", leader=-1, isr=[3])
        assert BrokerId(3) not in c.context.brokers.live_ids
        await c.stop()

    run_virtually(main)
