"""Automatic rebalance of leaders: when it runs, which brokers it finds imbalanced, what it moves."""

import asyncio
from typing import Any

import pytest

from cluster.model.broker import BrokerId, PartitionEpoch
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest
from cluster.requests.elections import PREFERRED
from cluster.znodes.paths import state_path
from cluster.znodes.topics import encode_state
from cluster.zookeeper.port import SetData
from state_log.record import Kind
from tests.controllers.contexts import leadership, tp
from tests.controllers.elections import catch_up, cluster, elect, restart_broker, stop_broker
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until

INTERVAL_S = 20


async def balanced_cluster(*brokers: int, **settings: Any) -> tuple[World, RunningController, float]:
    """Also when the controller became active."""
    began = asyncio.get_running_loop().time()
    world, c = await cluster(
        *brokers,
        auto_leader_rebalance_enable=True,
        leader_imbalance_check_interval_seconds=INTERVAL_S,
        **settings,
    )
    return world, c, began


def runs(c: RunningController) -> int:
    return c.metrics.timer("kafka.controller", "ControllerStats", "AutoLeaderBalanceRateAndTimeMs").count


@pytest.mark.rule("EP-20", "FO-15")
def test_it_checks_five_seconds_after_the_failover_and_then_once_per_interval() -> None:
    async def main() -> None:
        world, c, _ = await balanced_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        loop = asyncio.get_running_loop()
        is_active = loop.time()
        await until(lambda: runs(c) == 1)
        assert loop.time() - is_active <= 5
        first = loop.time()
        await until(lambda: runs(c) == 3, deadline_s=3 * INTERVAL_S)
        assert loop.time() - first == pytest.approx(2 * INTERVAL_S, abs=0.1)
        await c.stop()
        await asyncio.sleep(3 * INTERVAL_S)
        assert runs(c) == 3

    run_virtually(main)


@pytest.mark.rule("EP-20", "EP-22")
def test_leadership_goes_back_to_a_preferred_replica_that_is_in_sync_again() -> None:
    async def main() -> None:
        world, c, _ = await balanced_cluster(1, 2)
        await world.create_topic("t", [1, 2], [2, 1])
        await world.leads("t", leader=1)
        await quiesce()
        await restart_broker(world, c, 1)
        assert (await world.leads("t", leader=2)).isr == (2, 1)
        back = await world.leads("t", leader=1)
        assert (back.isr, back.leader_epoch) == ((2, 1), 2)
        (record,) = [r for r in c.sink.of(Kind.PARTITION) if r.reason == "Preferred"]
        assert record.cause is not None
        assert record.cause.event == "AutoPreferredReplicaLeaderElection"
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-20")
def test_it_does_nothing_where_it_is_switched_off() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        await restart_broker(world, c, 1)
        await asyncio.sleep(1000)
        assert runs(c) == 0
        await world.leads("t", leader=2)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-21", "EP-23")
@pytest.mark.parametrize(("percentage", "goes_back"), [(50, False), (49, True), (0, True), (100, False)])
def test_a_share_of_lost_leaderships_strictly_above_the_percentage_is_too_much(
    percentage: int, goes_back: bool
) -> None:
    async def main() -> None:
        world, c, _ = await balanced_cluster(1, 2, leader_imbalance_per_broker_percentage=percentage)
        await world.create_topic("t", [1, 2], [1, 2])
        await world.leads("t", 1, leader=1)
        await quiesce()
        await stop_broker(world, c, 1)
        await world.start_broker(1)
        await quiesce()
        # One of the two goes back by itself, so that half of what broker 1 was meant to lead is led by others.
        await catch_up(world, c, tp("t-0"), tp("t-1"), broker=1)
        await elect(c, PREFERRED, "t-0")
        assert (await world.leads("t", leader=1)).isr == (2, 1)
        before = runs(c)
        await until(lambda: runs(c) > before, deadline_s=2 * INTERVAL_S)
        await world.leads("t", 1, leader=1 if goes_back else 2)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-22", "EP-24")
def test_partitions_of_a_dead_or_late_preferred_replica_count_and_stay_where_they_are() -> None:
    async def main() -> None:
        world, c, _ = await balanced_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2], [1, 2], [3, 2])
        await world.leads("t", 2, leader=3)
        await quiesce()
        await stop_broker(world, c, 3)
        await stop_broker(world, c, 1)
        await world.start_broker(1)
        await quiesce()
        await catch_up(world, c, tp("t-0"), broker=1)
        assert set(c.context.leaderships.preferred_leaders.led_by_others(BrokerId(1))) == {tp("t-0"), tp("t-1")}
        await world.leads("t", leader=1)
        late = await world.leads("t", 1, leader=2)
        dead = await world.leads("t", 2, leader=2)
        before = runs(c)
        await until(lambda: runs(c) >= before + 2, deadline_s=3 * INTERVAL_S)
        assert await world.state("t", 1) == late
        assert await world.state("t", 2) == dead
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-23")
def test_one_run_moves_any_number_of_partitions_with_one_election_per_broker() -> None:
    async def main() -> None:
        world, c, _ = await balanced_cluster(1, 2, 3)
        await world.create_topic("t", *[[1, 3]] * 60, *[[2, 3]] * 60)
        await world.leads("t", 119, leader=2)
        await quiesce()
        await stop_broker(world, c, 1, 2)
        await world.start_broker(1, 2)
        await quiesce()
        everything = [tp(f"t-{p}") for p in range(120)]
        await catch_up(world, c, *everything[:60], broker=1)
        await catch_up(world, c, *everything[60:], broker=2)
        await world.leads("t", 119, leader=2)
        await world.leads("t", 0, leader=1)
        assert c.gauge("PreferredReplicaImbalanceCount") == 0
        assert c.context.leaderships.preferred_leaders.brokers() == []
        moved = [r for r in c.sink.of(Kind.PARTITION) if r.reason == "Preferred"]
        assert len(moved) == 120
        assert [r.leader for r in moved] == [1] * 60 + [2] * 60
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-25", "EP-20")
def test_a_run_that_fails_is_logged_and_the_next_one_comes() -> None:
    async def main() -> None:
        world, c, _ = await balanced_cluster(1, 2)
        await world.create_topic("t", [1, 2], [1, 2])
        await world.leads("t", 1, leader=1)
        await quiesce()
        await restart_broker(world, c, 1)
        # Somebody else wrote this state, so that the election fails; the other one's is held.
        newer = leadership(2, [2, 1], leader_epoch=9, controller_epoch=99)
        await world.write(SetData(state_path(tp("t-0")), encode_state(newer)))
        await world.leads("t", 1, leader=1)
        assert (await world.leads("t", leader=2)).leader_epoch == 9
        before = runs(c)
        await until(lambda: runs(c) > before, deadline_s=2 * INTERVAL_S)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-104", "EP-23")
@pytest.mark.parametrize("limit", [1000, 40])
def test_a_run_moves_so_many_and_the_next_follows_until_the_broker_leads_all_of_its_own(limit: int) -> None:
    """The last runs are below the percentage: without a limit they would not have been left over."""
    count = limit * 11 // 10

    async def main() -> None:
        world, c, _ = await balanced_cluster(1, 2, leader_rebalance_max_elections=limit)
        await world.create_topic("t", *[[1, 2]] * count)
        await world.leads("t", count - 1, leader=1)
        await quiesce()
        await stop_broker(world, c, 1)
        await until(lambda: c.gauge("PreferredReplicaImbalanceCount") == count)
        await world.start_broker(1)
        await quiesce()
        before = runs(c)
        items = tuple(
            AlterPartitionItem(
                "t", None, p, state.leader_epoch, (*state.isr, BrokerId(1)), PartitionEpoch(state.partition_epoch)
            )
            for (_, p), state in c.context.leaderships.known.items()
        )
        await c.ask(AlterPartitionRequest(BrokerId(2), await world.broker_epoch(2), items))
        assert runs(c) == before, "the check came in between"
        await until(lambda: runs(c) == before + 1, deadline_s=2 * INTERVAL_S)
        first = asyncio.get_running_loop().time()
        assert c.gauge("PreferredReplicaImbalanceCount") == count - limit
        await until(lambda: runs(c) == before + 2, deadline_s=2 * INTERVAL_S)
        assert asyncio.get_running_loop().time() - first == pytest.approx(1, abs=0.1)
        assert c.gauge("PreferredReplicaImbalanceCount") == 0
        await until(lambda: runs(c) == before + 3, deadline_s=2 * INTERVAL_S)
        assert asyncio.get_running_loop().time() - first == pytest.approx(1 + INTERVAL_S, abs=0.2)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-104")
def test_a_replica_that_is_late_gets_its_leadership_back_also_below_the_percentage() -> None:
    async def main() -> None:
        world, c, _ = await balanced_cluster(1, 2)
        await world.create_topic("t", *[[1, 2]] * 20)
        await world.leads("t", 19, leader=1)
        await quiesce()
        await stop_broker(world, c, 1)
        await world.start_broker(1)
        await quiesce()
        late = tp("t-7")
        partitions = [p for p in c.context.topics.partitions_on(BrokerId(1)) if p != late]
        await catch_up(world, c, *partitions, broker=1)
        await until(lambda: c.gauge("PreferredReplicaImbalanceCount") == 1, deadline_s=2 * INTERVAL_S)
        before = runs(c)
        await asyncio.sleep(3 * INTERVAL_S)
        assert runs(c) - before <= 3
        await catch_up(world, c, late, broker=1)
        await until(lambda: c.gauge("PreferredReplicaImbalanceCount") == 0, deadline_s=2 * INTERVAL_S)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-104")
def test_a_round_ends_when_its_broker_dies_and_does_not_go_on_when_it_is_back() -> None:
    async def main() -> None:
        world, c, _ = await balanced_cluster(
            1, 2, leader_rebalance_max_elections=2, leader_imbalance_per_broker_percentage=60
        )
        await world.create_topic("t", *[[1, 2]] * 5)
        await world.leads("t", 4, leader=1)
        await quiesce()
        await restart_broker(world, c, 1)
        await until(lambda: c.gauge("PreferredReplicaImbalanceCount") == 3, deadline_s=2 * INTERVAL_S)
        before = runs(c)
        await world.stop_broker(1)
        await until(lambda: runs(c) == before + 1, deadline_s=2)
        await asyncio.sleep(2)
        assert runs(c) == before + 1, "nothing to do, and still every second"
        await c.stop()

    run_virtually(main)
