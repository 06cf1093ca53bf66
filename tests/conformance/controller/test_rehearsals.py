"""Plans in full: every field before and after, and the requests in the order of sending.

That they are what then happens is held in `test_dry_runs`; here stand a few of them to read.
"""

from typing import Any

import pytest

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest, ControlledShutdownRequest
from cluster.requests.elections import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    PlanControlledShutdownRequest,
    ThreatenedPartition,
)
from cluster.requests.plans import DescribedPartition, Plan, PlannedChange, PlannedRequest
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.requests.topics import DeleteTopicsRequest, TopicToDelete
from tests.controllers.contexts import ids
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until


def described(
    partition: int,
    leader: int,
    epochs: tuple[int, int],
    isr: list[int],
    *lists: list[int],
    offline: tuple[int, ...] = (),
) -> DescribedPartition:
    """`lists`: replicas, and those being added and removed; `epochs`: of the leader and of the partition."""
    replicas, adding, removing = [ids(*each) for each in (*lists, [], [])[:3]]
    leader_epoch, partition_epoch = epochs
    return DescribedPartition(
        partition,
        BrokerId(leader),
        leader_epoch,  # type: ignore[arg-type]
        partition_epoch,  # type: ignore[arg-type]
        ids(*isr),
        replicas,
        adding,
        removing,
        ids(*offline),
    )


def sent(*rows: tuple[int, str, int]) -> tuple[PlannedRequest, ...]:
    return tuple(PlannedRequest(BrokerId(b), name, count) for b, name, count in rows)


def to_all(name: str, brokers: tuple[int, ...], count: int = 1) -> tuple[PlannedRequest, ...]:
    return sent(*[(b, name, count) for b in brokers])


def deleting(broker: int, count: int = 1) -> PlannedRequest:
    return PlannedRequest(BrokerId(broker), "StopReplica", count, delete=True)


async def with_topic(*replicas: list[int], brokers: tuple[int, ...] = (1, 2)) -> tuple[World, RunningController]:
    world, c = await running_cluster(*brokers, auto_leader_rebalance_enable=False)
    await world.create_topic("t", *replicas)
    await until(lambda: len(c.context.leaderships.known) == len(replicas))
    return world, c


async def in_sync(world: World, c: RunningController, partition: int, *isr: int) -> None:
    state = await world.state("t", partition)
    assert state is not None
    topic_id = c.context.topics.ids["t"]
    item = AlterPartitionItem("t", topic_id, partition, state.leader_epoch, ids(*isr), state.partition_epoch)
    answer = await c.ask(AlterPartitionRequest(state.leader, await world.broker_epoch(state.leader), (item,)))
    assert answer.partitions[0].error_code is ErrorCode.NONE


async def plan_of(c: RunningController, request: Any) -> Plan:
    await quiesce()
    plan: Plan = (await c.ask(request)).plan
    return plan


def move(**targets: list[int] | None) -> AlterPartitionReassignmentsRequest:
    """`p0=[1, 2]`: where partition 0 goes; None: it stays."""
    moves = tuple(
        ReassignablePartition(int(name[1:]), None if target is None else ids(*target))
        for name, target in targets.items()
    )
    return AlterPartitionReassignmentsRequest((ReassignableTopic("t", moves),), validate_only=True)


@pytest.mark.rule("RA-3", "RA-13")
def test_a_move_stops_where_copying_begins() -> None:
    async def main() -> None:
        _, c = await with_topic([1, 2], [1], brokers=(1, 2, 3))
        plan = await plan_of(c, move(p0=[2, 3]))
        assert plan.changes == (
            PlannedChange(
                "t", described(0, 1, (0, 0), [1, 2], [1, 2]), described(0, 1, (1, 1), [1, 2], [2, 3, 1], [3], [1])
            ),
        )
        assert plan.requests == (
            *to_all("LeaderAndIsr", (1, 2, 3)),
            *to_all("UpdateMetadata", (1, 2, 3)),
            # The new replica hears it again when it becomes one.
            *sent((3, "LeaderAndIsr", 1)),
            *to_all("UpdateMetadata", (1, 2, 3)),
        )

    run_virtually(main)


@pytest.mark.rule("RA-18", "RA-20")
def test_a_shorter_list_is_shown_complete() -> None:
    async def main() -> None:
        _, c = await with_topic([1, 2])
        plan = await plan_of(c, move(p0=[2]))
        # An election away from broker 1, then its removal from the ISR.
        assert plan.changes == (
            PlannedChange("t", described(0, 1, (0, 0), [1, 2], [1, 2]), described(0, 2, (2, 2), [2], [2])),
        )
        everybody = to_all("UpdateMetadata", (1, 2))
        assert plan.requests == (
            *sent((2, "LeaderAndIsr", 1)),
            *everybody,
            *sent((2, "LeaderAndIsr", 1)),
            *everybody,
            *sent((1, "StopReplica", 1)),
            deleting(1),
            *everybody,
        )

    run_virtually(main)


@pytest.mark.rule("RA-11", "RA-17")
def test_a_cancellation_stops_the_replicas_that_were_on_their_way() -> None:
    async def main() -> None:
        world, c = await with_topic([1, 2], brokers=(1, 2, 3, 4))
        await c.ask(
            AlterPartitionReassignmentsRequest((ReassignableTopic("t", (ReassignablePartition(0, ids(3, 4)),)),))
        )
        await in_sync(world, c, 0, 1, 2, 3)
        plan = await plan_of(c, move(p0=None))
        (change,) = plan.changes
        assert change.before == described(0, 1, (1, 2), [1, 2, 3], [3, 4, 1, 2], [3, 4], [1, 2])
        assert change.after == described(0, 1, (3, 4), [1, 2], [1, 2])
        assert [r for r in plan.requests if r.broker_id in (3, 4) and r.name == "StopReplica"] == [
            *sent((3, "StopReplica", 1), (4, "StopReplica", 1)),
            deleting(3),
            deleting(4),
        ]

    run_virtually(main)


@pytest.mark.rule("RA-26")
def test_where_nobody_can_lead_the_epochs_stay() -> None:
    async def main() -> None:
        world, c = await with_topic([1, 2], brokers=(1, 2))
        await world.stop_broker(1)
        await world.leads("t", leader=2)
        await world.stop_broker(2)
        await world.leads("t", leader=-1)
        await world.start_broker(1)
        plan = await plan_of(c, move(p0=[2, 1]))
        (change,) = plan.changes
        assert (change.before.leader, change.before.isr) == (-1, (2,))
        unchanged = (change.before.leader_epoch, change.before.partition_epoch)
        assert change.after == described(0, -1, unchanged, [2], [2, 1], offline=(2,))

    run_virtually(main)


@pytest.mark.rule("EP-2", "EP-5")
def test_elections_say_who_would_lead_and_change_nothing() -> None:
    async def main() -> None:
        world, c = await with_topic([1, 2], [2, 1])
        await world.stop_broker(1)
        await world.leads("t", leader=2, isr=[2])
        await world.start_broker(1)
        await until(lambda: c.gauge("ActiveBrokerCount") == 2)
        await in_sync(world, c, 0, 2, 1)
        plan = await plan_of(c, ElectLeadersRequest(PREFERRED, None, 0, validate_only=True))
        before = described(0, 2, (1, 2), [2, 1], [1, 2])
        assert plan == Plan(
            (PlannedChange("t", before, described(0, 1, (2, 3), [2, 1], [1, 2])),),
            (*to_all("LeaderAndIsr", (1, 2)), *to_all("UpdateMetadata", (1, 2))),
        )
        state = await world.state("t")
        assert state is not None
        assert state.leader == 2

    run_virtually(main)


@pytest.mark.rule("EP-3")
def test_an_unclean_election_leaves_who_it_elects_alone_in_the_isr() -> None:
    async def main() -> None:
        world, c = await with_topic([1, 2])
        await world.stop_broker(2)
        await world.leads("t", leader=1, isr=[1])
        await world.stop_broker(1)
        await world.leads("t", leader=-1)
        await world.start_broker(2)
        await until(lambda: c.gauge("ActiveBrokerCount") == 1)
        plan = await plan_of(c, ElectLeadersRequest(UNCLEAN, None, 0, validate_only=True))
        (change,) = plan.changes
        assert (change.before.leader, change.before.isr) == (-1, (1,))
        assert (change.after.leader, change.after.isr, change.after.offline_replicas) == (2, (2,), (1,))
        assert plan.requests == sent((2, "LeaderAndIsr", 1), (2, "UpdateMetadata", 1))
        assert c.metrics.meter("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec").count == 0

    run_virtually(main)


@pytest.mark.rule("CS-7", "CS-11", "CS-14")
def test_a_shutdown_goes_through_every_partition_of_the_broker() -> None:
    async def main() -> None:
        _, c = await with_topic([1], [1, 2], [2, 1], [2])
        await quiesce()
        answer = await c.ask(PlanControlledShutdownRequest(BrokerId(1)))
        assert answer.leaderless == (ThreatenedPartition("t", 0, 0, 1),)
        assert answer.below_min_isr == ()
        assert answer.plan.changes == (
            PlannedChange(
                "t", described(1, 1, (0, 0), [1, 2], [1, 2]), described(1, 2, (1, 1), [2], [1, 2], offline=(1,))
            ),
            PlannedChange(
                "t", described(2, 2, (0, 0), [2, 1], [2, 1]), described(2, 2, (1, 1), [2], [2, 1], offline=(1,))
            ),
        )
        assert answer.plan.requests == (
            *to_all("LeaderAndIsr", (1, 2)),
            *to_all("UpdateMetadata", (1, 2)),
            *sent((2, "LeaderAndIsr", 1)),
            *to_all("UpdateMetadata", (1, 2)),
            *sent((1, "StopReplica", 1)),
        )

    run_virtually(main)


@pytest.mark.rule("TD-13", "TD-15")
def test_a_deletion_is_shown_to_its_end() -> None:
    async def main() -> None:
        _, c = await with_topic([1, 2])
        plan = await plan_of(c, DeleteTopicsRequest((TopicToDelete("t"),), validate_only=True))
        assert plan.changes == (
            PlannedChange("t", described(0, 1, (0, 0), [1, 2], [1, 2]), described(0, -1, (-1, -1), [], [])),
        )
        assert plan.requests[:2] == to_all("UpdateMetadata", (1, 2))
        assert [r for r in plan.requests if r.name == "StopReplica"] == [
            *sent((1, "StopReplica", 1), (2, "StopReplica", 1)),
            deleting(1),
            deleting(2),
        ]
        assert "t" in c.context.topics.names

    run_virtually(main)


def test_a_leaving_broker_is_planned_for_once_more() -> None:
    async def main() -> None:
        _, c = await with_topic([1, 2])
        await c.ask(ControlledShutdownRequest(BrokerId(1)))
        answer = await c.ask(PlanControlledShutdownRequest(BrokerId(1)))
        assert answer.plan.changes == ()

    run_virtually(main)
