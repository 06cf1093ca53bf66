"""Damaged replicas that the controller holds back: how long, and what does not happen to their partitions meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import SCRUB, ControlledShutdownRequest
from cluster.requests.cluster import DescribeFindingsRequest
from cluster.requests.topics import CreateTopicsRequest, DeleteTopicsRequest, NewTopic, TopicToDelete
from cluster.znodes.paths import state_path, topic_path
from cluster.zookeeper.port import SetData
from tests.controllers.contexts import ids
from tests.controllers.damage_reports import propose, report
from tests.controllers.refused_writes import Refusal, WriteRefusals
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

E = ErrorCode
T0 = TopicPartition("t", 0)


async def cluster(*replicas: int) -> tuple[World, RunningController]:
    """Topic t with one partition on these of the brokers 1 to 3, all in sync."""
    world, c = await running_cluster(1, 2, 3, auto_leader_rebalance_enable=False)
    await world.create_topic("t", list(replicas))
    await world.leads("t", leader=replicas[0])
    return world, c


async def next_controller(world: World, c: RunningController, **settings: bool) -> RunningController:
    c.crash()
    successor = world.start_controller(1002, auto_leader_rebalance_enable=False, **settings)
    await until(lambda: successor.is_active, "another controller")
    await quiesce(1)
    return successor


async def led_by_2(world: World, c: RunningController) -> None:
    """Broker 2 leads, and broker 1 is in sync."""
    await world.stop_broker(1)
    await world.leads("t", leader=2, isr=[2])
    await world.start_broker(1)
    await quiesce()
    await propose(world, c, 2, 1)


@pytest.mark.rule("D-41")
def test_the_end_of_an_earlier_wait_does_not_end_a_later_one() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        loop = asyncio.get_running_loop()
        assert await report(world, c, 1, SCRUB) == [E.NONE, E.NONE]
        await world.leads("t", leader=2, isr=[2])
        await quiesce(50)
        await propose(world, c, 2, 1)
        # Its replacement is refused once: it is held again, 10 s before the first wait would have ended.
        c.zookeeper.refuse_writes(WriteRefusals(Refusal.NO_AUTH, 0))
        assert await report(world, c, 1, SCRUB) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        began = loop.time()
        await quiesce(55)
        assert T0 in c.context.damage.held_on(BrokerId(1))
        await until(lambda: T0 not in c.context.damage.held_on(BrokerId(1)), "released")
        assert 55 < loop.time() - began < 65
        await c.stop()

    run_virtually(main)


async def refused_once(world: World, c: RunningController) -> RunningController:
    """Broker 1 names its damage, and ZooKeeper refuses its replacement."""
    c.zookeeper.refuse_writes(WriteRefusals(Refusal.NO_AUTH, 0))
    assert await report(world, c, 1, SCRUB) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    return c


async def named_while_malformed(world: World, c: RunningController) -> RunningController:
    """Broker 1 names its damage while nobody knows who leads; then the state znode is repaired."""
    path = state_path(T0)
    znode = await c.zookeeper.get(path)
    assert znode is not None
    await world.write(SetData(path, b"{"))
    c = await next_controller(world, c)
    assert await report(world, c, 1, SCRUB) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    await world.write(SetData(path, znode.data))
    await until(lambda: T0 in c.context.leaderships.known, "repaired")
    return c


@pytest.mark.rule("D-40", "CS-8")
@pytest.mark.parametrize("hold", [refused_once, named_while_malformed])
def test_a_leader_that_shuts_down_does_not_leave_the_partition_to_a_held_replica(
    hold: Callable[[World, RunningController], Awaitable[RunningController]],
) -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await led_by_2(world, c)
        c = await hold(world, c)
        answer = await c.ask(ControlledShutdownRequest(BrokerId(2), await world.broker_epoch(2)))
        await quiesce(1)
        state = await world.state("t")
        assert state is not None
        assert state.leader == 2
        assert [(p.topic_name, p.partition_index) for p in answer.remaining_partitions] == [T0]
        await c.stop()

    run_virtually(main)


async def one_held_one_sound(*, unclean: bool) -> tuple[World, RunningController]:
    """Broker 1 is the only one in sync of both partitions; t-0 is damaged and waits, t-1 is sound, and it leads it."""
    world, c = await running_cluster(
        1, 2, 3, auto_leader_rebalance_enable=False, unclean_leader_election_enable=unclean
    )
    await world.create_topic("t", [1, 3], [1, 2])
    for partition in (0, 1):
        await world.leads("t", partition, leader=1)
        await propose(world, c, 1, partition=partition)
    await world.stop_broker(1, 2, 3)
    await quiesce(1)
    await world.start_broker(1, damaged=True)
    await quiesce()
    assert await report(world, c, 1) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    await world.leads("t", 1, leader=1)
    await world.start_broker(2, 3)
    await quiesce(1)
    return world, c


@pytest.mark.rule("D-41", "D-42", "PS-20")
@pytest.mark.parametrize("unclean", [False, True])
def test_no_replica_out_of_sync_leads_because_another_controller_has_no_report_yet(unclean: bool) -> None:
    """What is sound is back with the report, what is damaged waits on."""

    async def main() -> None:
        world, c = await one_held_one_sound(unclean=unclean)
        c = await next_controller(world, c, unclean_leader_election_enable=unclean)
        for partition in (0, 1):
            await world.leads("t", partition, leader=-1, isr=[1])
        assert await report(world, c, 1) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        await quiesce()
        for partition, leader in ((0, -1), (1, 1)):
            state = await world.state("t", partition)
            assert state is not None
            assert (state.leader, state.isr) == (leader, (1,))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-42", "PS-20")
def test_an_unclean_election_does_not_wait_for_a_broker_that_goes_without_a_report() -> None:
    async def main() -> None:
        world, c = await one_held_one_sound(unclean=True)
        c = await next_controller(world, c, unclean_leader_election_enable=True)
        await world.stop_broker(1)
        await world.leads("t", 0, leader=3, isr=[3])
        await world.leads("t", 1, leader=2, isr=[2])
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-41", "CX-10")
@pytest.mark.parametrize("replicas", [(1,), (1, 2)])
def test_a_held_replica_is_forgotten_with_its_topic(replicas: tuple[int, ...]) -> None:
    async def main() -> None:
        world, c = await cluster(1)
        await world.stop_broker(1)
        await world.leads("t", leader=-1, isr=[1])
        await world.start_broker(1, damaged=True)
        await quiesce()
        assert await report(world, c, 1) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        await c.ask(DeleteTopicsRequest((TopicToDelete("t"),), timeout_ms=5000))
        await until(lambda: "t" not in c.context.topics.names, "deleted")
        assert c.context.damage.held_on(BrokerId(1)) == {}
        assert (await c.ask(DescribeFindingsRequest())).findings == ()
        await c.ask(CreateTopicsRequest((NewTopic("t", assignments={0: ids(*replicas)}),), timeout_ms=1000))
        await world.leads("t", leader=1)
        assert c.context.damage.held_on(BrokerId(1)) == {}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-41")
@pytest.mark.parametrize("is_known", [False, True])
def test_of_a_malformed_topic_no_more_is_held_than_it_has_partitions(is_known: bool) -> None:
    """`is_known`: the topic znode was sound when the controller read it. Otherwise nobody knows its partitions."""

    async def main() -> None:
        world, c = await cluster(1, 2)
        before = await c.zookeeper.get(topic_path("t"))
        assert before is not None
        if is_known:
            await world.write(SetData(topic_path("t"), b"{"))
            await quiesce()
        else:
            await world.write(SetData(topic_path("t"), b"{"))
            c = await next_controller(world, c)
        for partition in range(200):
            await report(world, c, 1, SCRUB, partition=partition)
        assert len(c.context.damage.held_on(BrokerId(1))) <= 1
        await world.write(SetData(topic_path("t"), before.data))
        await until(lambda: T0 in c.context.leaderships.known, "repaired")
        assert await report(world, c, 1, SCRUB) == [E.NONE, E.NONE]
        await world.leads("t", leader=2, isr=[2])
        await c.stop()

    run_virtually(main)
