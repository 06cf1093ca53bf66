"""A controller dies between any two writes of an election or of what a notification leads to; the next one goes on.

Each story is told again and again, the controller dying after its first write, after its second one, and so on.
Every time the cluster has to come to the same leaders and ISRs, with nothing left over in ZooKeeper.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.requests.elections import UNCLEAN
from cluster.znodes.admin_requests import encode_log_dir_event, encode_partitions
from cluster.znodes.paths import (
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    PREFERRED_REPLICA_ELECTION,
    state_path,
)
from cluster.znodes.topics import encode_state
from cluster.zookeeper.port import Create, Op, OpResult, SetData
from simulator.recount import recount
from simulator.zookeeper import ServerSession
from tests.controllers.contexts import leadership, tp
from tests.controllers.elections import catch_up, elect, stop_broker
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until

SAFETY_LIMIT = 50
SETTINGS = {"leader_imbalance_check_interval_seconds": 10}
End = Mapping[str, tuple[int, tuple[int, ...]]]
"""Partition -> leader and ISR."""


class Controllers:
    """One controller after the other, over brokers that come and go at once."""

    def __init__(self, world: World, *, balance: bool) -> None:
        self.world = world
        self._settings = {"auto_leader_rebalance_enable": balance, **SETTINGS}
        self.current = world.start_controller(**self._settings)
        self.writes = 0
        self.died = False

    async def is_active(self) -> RunningController:
        await until(lambda: self.current.is_active)
        return self.current

    def die_after(self, fatal_write: int) -> None:
        """Kill the controller once ZooKeeper has carried out so many transactions of its own; a successor starts."""
        carry_out, victim = self.world.server.write, self.current

        def write(session: ServerSession, ops: Sequence[Op]) -> list[OpResult]:
            results = carry_out(session, ops)
            if not self.died and session.client is victim.zookeeper:
                self.writes += 1
                if self.writes == fatal_write:
                    self.died = True
                    victim.crash()
                    successor = self.world.start_controller(1002, **self._settings)
                    successor.brokers.results = victim.brokers.results
                    self.current = successor
            return results

        self.world.server.write = write  # type: ignore[method-assign]

    async def lost_leaderships(self, *replicas: Sequence[int]) -> None:
        """A topic whose partitions are all led by their second replica, with everybody in sync."""
        world, c = self.world, await self.is_active()
        await world.create_topic("t", *replicas)
        names = [tp(f"t-{p}") for p in range(len(replicas))]
        for number, brokers in enumerate(replicas):
            await world.leads("t", number, leader=brokers[0])
        preferred = sorted({brokers[0] for brokers in replicas})
        await stop_broker(world, c, *preferred)
        await world.start_broker(*preferred)
        await until(lambda: c.context.brokers.live_ids.issuperset(preferred))
        await quiesce()
        for broker in preferred:
            await catch_up(world, c, *names, broker=broker)


Story = Callable[[Controllers, int], Awaitable[None]]


async def requested_in_zookeeper(controllers: Controllers, fatal_write: int) -> None:
    await controllers.lost_leaderships([1, 3], [2, 3], [1, 3])
    controllers.die_after(fatal_write)
    names = [tp(f"t-{p}") for p in range(3)]
    await controllers.world.create(PREFERRED_REPLICA_ELECTION, encode_partitions(names))


async def by_timer(controllers: Controllers, fatal_write: int) -> None:
    await controllers.lost_leaderships([1, 3], [2, 3], [1, 3])
    controllers.die_after(fatal_write)


async def asked_for_unclean(controllers: Controllers, fatal_write: int) -> None:
    world, c = controllers.world, await controllers.is_active()
    await world.create_topic("t", [1, 3], [3, 1], [2, 3])
    await world.leads("t", 2, leader=2)
    await stop_broker(world, c, 3)
    await stop_broker(world, c, 1)
    await world.start_broker(3)
    await world.leads("t", leader=-1, isr=(1,))
    await quiesce()
    controllers.die_after(fatal_write)
    while True:
        # A client asks again, until it is answered.
        c = await controllers.is_active()
        try:
            async with asyncio.timeout(5):
                await elect(c, UNCLEAN, "t-0", "t-1", "t-2", timeout_ms=1000)
        except Exception:  # Whatever a dying controller does to a caller.
            continue
        return


async def disks_failed(controllers: Controllers, fatal_write: int) -> None:
    world, c = controllers.world, await controllers.is_active()
    await world.create_topic("t", [1, 2], [2, 1], [1, 3])
    await world.leads("t", 2, leader=1)
    await quiesce()
    failed = ErrorCode.KAFKA_STORAGE_ERROR
    c.brokers.results[BrokerId(1)] = {tp("t-0"): failed, tp("t-1"): failed, tp("t-2"): ErrorCode.NONE}
    controllers.die_after(fatal_write)
    body = encode_log_dir_event(BrokerId(1))
    await world.write(Create(f"{LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_", body, sequential=True))


async def isr_written_by_its_leader(controllers: Controllers, fatal_write: int) -> None:
    world, _ = controllers.world, await controllers.is_active()
    await world.create_topic("t", [1, 2], [2, 1], [3])
    await world.leads("t", 2, leader=3)
    await quiesce()
    controllers.die_after(fatal_write)
    await world.write(
        SetData(state_path(tp("t-0")), encode_state(leadership(1, [1])), 0),
        Create(f"{ISR_CHANGE_NOTIFICATION}/isr_change_", encode_partitions([tp("t-0")]), sequential=True),
    )


STORIES: list[tuple[Story, bool, End, int]] = [
    (requested_in_zookeeper, False, {"t-0": (1, (3, 1)), "t-1": (2, (3, 2)), "t-2": (1, (3, 1))}, 2),
    (by_timer, True, {"t-0": (1, (3, 1)), "t-1": (2, (3, 2)), "t-2": (1, (3, 1))}, 2),
    (asked_for_unclean, False, {"t-0": (3, (3,)), "t-1": (3, (3,)), "t-2": (2, (2,))}, 1),
    (disks_failed, False, {"t-0": (2, (2,)), "t-1": (2, (2,)), "t-2": (1, (1, 3))}, 3),
    (isr_written_by_its_leader, False, {"t-0": (1, (1,)), "t-1": (2, (2, 1)), "t-2": (3, (3,))}, 1),
]


async def tell(story: Story, balance: bool, end: End, fatal_write: int) -> Controllers:
    world = await World().start()
    controllers = Controllers(world, balance=balance)
    await controllers.is_active()
    await world.start_broker(1, 2, 3)
    await until(lambda: controllers.current.gauge("ActiveBrokerCount") == 3)
    await quiesce()
    await story(controllers, fatal_write)
    for name, (leader, isr) in end.items():
        await world.leads("t", tp(name).partition, leader=leader, isr=isr)
    await until(lambda: nothing_is_left(world))
    # The last write may have been the fatal one.
    await quiesce()
    c = await controllers.is_active()
    await quiesce()
    for name, (leader, isr) in end.items():
        known = c.context.leaderships.known[tp(name)]
        assert (known.leader, known.isr) == (leader, isr)
        state = await world.state("t", tp(name).partition)
        assert state is not None
        # Of what it left as it was, a controller remembers that it looked.
        assert replace(state, controller_epoch=known.controller_epoch) == known
    assert recount(c.context) == (
        c.context.leaderships.offline_partition_count,
        c.context.leaderships.preferred_replica_imbalance_count,
    )
    await controllers.current.stop()
    return controllers


async def nothing_is_left(world: World) -> bool:
    notifications = [await world.tool.children(p) for p in (ISR_CHANGE_NOTIFICATION, LOG_DIR_EVENT_NOTIFICATION)]
    return not any(notifications) and await world.tool.get(PREFERRED_REPLICA_ELECTION) is None


@pytest.mark.rule("EP-8", "EP-11", "EP-20", "FO-4", "FO-5", "FO-14", "FO-15", "BK-50", "IS-4", "INV-10")
@pytest.mark.parametrize(("story", "balance", "end", "fewest_deaths"), STORIES, ids=[s[0].__name__ for s in STORIES])
def test_whenever_the_controller_dies_the_next_one_comes_to_the_same_end(
    story: Story, balance: bool, end: End, fewest_deaths: int
) -> None:
    deaths = 0
    for fatal_write in range(1, SAFETY_LIMIT):
        if not run_virtually(lambda: tell(story, balance, end, fatal_write)).died:  # noqa: B023 (run at once)
            break
        deaths += 1
    assert fewest_deaths <= deaths < SAFETY_LIMIT - 1
