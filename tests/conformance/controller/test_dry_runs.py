"""A dry run shows what then happens: the same leaders and epochs, the same requests to the same brokers in order."""

from typing import Any

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest, ControlledShutdownRequest
from cluster.requests.configs import (
    BROKER_RESOURCE,
    SET_CONFIG,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from cluster.requests.elections import PREFERRED, ElectLeadersRequest, PlanControlledShutdownRequest
from cluster.requests.plans import DescribedPartition, Plan, PlannedSetting
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewTopic,
    TopicToDelete,
)
from tests.controllers.contexts import ids, tp
from tests.controllers.dry_runs import planned, received
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until


async def dry_and_real(c: RunningController, request: Any) -> Plan:
    """The plan, after the request was carried out; asserts that brokers got the requests of the plan."""
    await quiesce()
    c.brokers.received.clear()
    plan: Plan = (await c.ask(replace(request, validate_only=True))).plan
    await quiesce()
    assert not c.brokers.received, "a dry run tells nobody"
    answer = await c.ask(request)
    assert answer.plan is None
    await quiesce()
    assert received(c) == planned(plan)
    return plan


async def assert_as_planned(world: World, plan: Plan) -> None:
    assert plan.changes
    for change in plan.changes:
        state = await world.state(change.topic, change.after.partition)
        after = change.after
        found: tuple[object, ...] = (-1, -1, -1, ())
        if state is not None:
            found = (state.leader, state.leader_epoch, state.partition_epoch, state.isr)
        assert (after.leader, after.leader_epoch, after.partition_epoch, after.isr) == found, change.topic


@pytest.mark.rule("TP-1", "PS-8")
def test_the_plan_of_new_topics_is_what_happens() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3, 4)
        await world.create_topic("other", [1, 2])
        await world.leads("other", leader=1)
        await world.stop_broker(4)
        await until(lambda: c.gauge("ActiveBrokerCount") == 3)
        new = (
            NewTopic("t", assignments={0: ids(3, 1), 1: ids(4, 2), 2: ids(2, 3)}),
            NewTopic("nowhere", assignments={0: ids(4)}),
            NewTopic("refused", num_partitions=0),
        )
        plan = await dry_and_real(c, CreateTopicsRequest(new, timeout_ms=0))
        await assert_as_planned(world, plan)
        # In the order of their creation, which is by name.
        alone, led, partly, _ = plan.changes
        assert led.before == DescribedPartition(0, *(-1,) * 3, (), ())  # type: ignore[arg-type]
        assert (led.after.leader, led.after.isr, led.after.replicas) == (3, (3, 1), (3, 1))
        assert (partly.after.isr, partly.after.offline_replicas) == ((2,), (4,))
        assert (alone.topic, alone.after.leader, alone.after.replicas) == ("nowhere", -1, (4,))
        assert "nowhere" in c.context.topics.names
        assert "refused" not in c.context.topics.names

    run_virtually(main)


@pytest.mark.rule("TP-2")
def test_the_plan_of_new_partitions_is_what_happens() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        plan = await dry_and_real(c, CreatePartitionsRequest((NewPartitions("t", 4),), timeout_ms=0))
        await assert_as_planned(world, plan)
        assert [change.after.partition for change in plan.changes] == [1, 2, 3]

    run_virtually(main)


@pytest.mark.rule("TD-13")
@pytest.mark.parametrize("dead", [False, True], ids=["all-alive", "one-dead"])
def test_the_plan_of_a_deletion_is_what_happens(dead: bool) -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2, 3], [2, 3])
        await world.create_topic("kept", [1])
        await world.leads("t", 1, leader=2)
        if dead:
            await world.stop_broker(3)
            await world.leads("t", 1, leader=2, isr=[2])
        before = [await world.state("t", 0), await world.state("t", 1)]
        plan = await dry_and_real(c, DeleteTopicsRequest((TopicToDelete("t"),), timeout_ms=0))
        assert [change.before.leader_epoch for change in plan.changes] == [s.leader_epoch for s in before if s]
        assert [change.after.replicas for change in plan.changes] == ([(3,), (3,)] if dead else [(), ()])
        assert all(change.after.leader == -1 for change in plan.changes)
        if dead:
            # Held by the dead broker, so the state nodes can still be looked at.
            await assert_as_planned(world, plan)
        else:
            assert await world.topic("t") is None

    run_virtually(main)


@pytest.mark.rule("TP-3", "D-1")
def test_a_topic_that_is_marked_or_moving_adds_nothing_to_the_plan_of_a_deletion() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1, 9])
        await world.leads("t", leader=1)
        plan = await dry_and_real(c, DeleteTopicsRequest((TopicToDelete("t"),), timeout_ms=0))
        assert plan.requests
        again = await c.ask(DeleteTopicsRequest((TopicToDelete("t"),), validate_only=True))
        assert again.responses[0].error_code is ErrorCode.NONE
        assert again.plan == Plan()

    run_virtually(main)


async def _orphan(world: World, *topics: str) -> None:
    """Topics whose only ISR member is dead, while broker 2 has a replica that was not in sync."""
    for topic in topics:
        await world.create_topic(topic, [3, 2])
        await world.leads(topic, leader=3)
    await world.stop_broker(2)
    for topic in topics:
        await world.leads(topic, leader=3, isr=[3])
    await world.stop_broker(3)
    for topic in topics:
        await world.leads(topic, leader=-1)
    await world.start_broker(2)


def _set(resource_type: int, name: str, **settings: str) -> AlterConfigsResource:
    changes = tuple(AlterableConfig(key.replace("_", "."), SET_CONFIG, value) for key, value in settings.items())
    return AlterConfigsResource(resource_type, name, changes)


@pytest.mark.rule("EP-30", "EP-31")
@pytest.mark.parametrize(
    ("resource", "elected"),
    [
        (_set(TOPIC_RESOURCE, "t", unclean_leader_election_enable="true"), ["t"]),
        (_set(BROKER_RESOURCE, "", unclean_leader_election_enable="true"), ["t", "u"]),
        (_set(BROKER_RESOURCE, "1001", unclean_leader_election_enable="true"), ["t", "u"]),
        (_set(BROKER_RESOURCE, "7", unclean_leader_election_enable="true"), []),
        (_set(TOPIC_RESOURCE, "t", retention_ms="5"), []),
    ],
    ids=["topic", "all", "controller", "another-broker", "other-setting"],
)
def test_the_plan_of_a_setting_names_the_elections_it_leads_to(
    resource: AlterConfigsResource, elected: list[str]
) -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await _orphan(world, "t", "u", "strict")
        strict = _set(TOPIC_RESOURCE, "strict", unclean_leader_election_enable="false")
        await c.ask(AlterConfigsRequest((strict,)))
        plan = await dry_and_real(c, AlterConfigsRequest((resource,)))
        assert [change.topic for change in plan.changes] == elected
        if elected:
            await assert_as_planned(world, plan)
        (alteration,) = resource.configs
        key = (resource.resource_type, resource.resource_name, alteration.name)
        assert plan.settings == (PlannedSetting(*key, None, alteration.value),)
        again = await c.ask(AlterConfigsRequest((resource,), validate_only=True))
        assert again.plan == Plan()

    run_virtually(main)


@pytest.mark.rule("RA-3", "RA-10")
@pytest.mark.parametrize(
    "target",
    [[2, 1], [3, 4], [1, 4], [2, 3, 4], [1], [2]],
    ids=["reorder", "replace", "swap", "move-and-grow", "shrink", "shrink-to-another"],
)
def test_the_plan_of_a_move_is_what_happens_at_once(target: list[int]) -> None:
    async def main() -> None:
        # Leaders must not be balanced between a plan and what it is held against.
        world, c = await running_cluster(1, 2, 3, 4, auto_leader_rebalance_enable=False)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        plan = await dry_and_real(c, move(target))
        await assert_as_planned(world, plan)
        assert plan.changes[0].after.replicas == c.context.topics.assignment(tp("t-0")).replicas
        if target == [3, 4]:
            # A move that replaces it: one of its replicas stays, one goes, one is new.
            replaced = await dry_and_real(c, move([3, 2]))
            await assert_as_planned(world, replaced)
        if c.context.topics.assignment(tp("t-0")).is_being_reassigned:
            cancelled = await dry_and_real(c, move(None))
            await assert_as_planned(world, cancelled)
            assert cancelled.changes[0].after.replicas == c.context.topics.assignment(tp("t-0")).replicas

    run_virtually(main)


@pytest.mark.rule("RA-3", "RA-18")
def test_the_plan_of_moves_of_which_some_are_complete_at_once_is_what_happens() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3, 4)
        await world.create_topic("t", [1, 2], [1, 2], [1, 2], [1, 2])
        await world.leads("t", 3, leader=1)
        targets = {0: ids(3, 4), 1: ids(2, 1), 2: ids(2), 3: ids(2, 3)}
        moves = tuple(ReassignablePartition(p, replicas) for p, replicas in targets.items())
        request = AlterPartitionReassignmentsRequest((ReassignableTopic("t", moves),))
        await assert_as_planned(world, await dry_and_real(c, request))

    run_virtually(main)


@pytest.mark.rule("RA-15", "RA-17")
@pytest.mark.parametrize("failover", [False, True])
def test_the_plan_of_a_move_that_replaces_one_with_a_replica_that_has_arrived_is_what_happens(failover: bool) -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3, 4)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await c.ask(move([3, 4]))
        joined = await c.ask(
            AlterPartitionRequest(BrokerId(1), await world.broker_epoch(1), (await joining(world, c),))
        )
        assert joined.partitions[0].error_code is ErrorCode.NONE
        active = c
        if failover:
            active = world.start_controller(1002)
            await c.stop()
            await until(lambda: active.is_active)
        await assert_as_planned(world, await dry_and_real(active, move([3, 2])))
        assert active.context.topics.assignment(tp("t-0")).replicas == (3, 2)

    async def joining(world: World, c: RunningController) -> AlterPartitionItem:
        state = await world.leads("t", leader=1)
        topic_id = c.context.topics.ids["t"]
        return AlterPartitionItem("t", topic_id, 0, state.leader_epoch, ids(1, 2, 3), state.partition_epoch)

    run_virtually(main)


def move(target: list[int] | None) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(0, None if target is None else ids(*target))
    return AlterPartitionReassignmentsRequest((ReassignableTopic("t", (partition,)),))


@pytest.mark.rule("EP-2", "EP-5")
def test_the_plan_of_elections_is_what_happens() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2], [1, 2], [2, 1])
        await world.leads("t", 1, leader=1)
        await c.ask(ControlledShutdownRequest(BrokerId(1)))
        await world.stop_broker(1)
        await world.leads("t", 1, leader=2)
        await world.start_broker(1)
        await until(lambda: c.gauge("ActiveBrokerCount") == 2)
        for partition in (0, 1):
            state = await world.state("t", partition)
            assert state is not None
            joining = AlterPartitionItem(
                "t", c.context.topics.ids["t"], partition, state.leader_epoch, ids(2, 1), state.partition_epoch
            )
            epoch = await world.broker_epoch(2)
            await c.ask(AlterPartitionRequest(BrokerId(2), epoch, (joining,)))
            await world.leads("t", partition, leader=2, isr=[2, 1])
        plan = await dry_and_real(c, ElectLeadersRequest(PREFERRED, None, 0))
        assert [change.after.partition for change in plan.changes] == [0, 1]
        await assert_as_planned(world, plan)

    run_virtually(main)


@pytest.mark.rule("CS-7", "CS-8", "CS-10")
def test_the_plan_of_a_shutdown_is_what_happens() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2], [2, 1], [3, 1, 2], [2, 3], [1])
        await world.leads("t", 4, leader=1)
        await quiesce()
        c.brokers.received.clear()
        plan = (await c.ask(PlanControlledShutdownRequest(BrokerId(1)))).plan
        assert (await c.ask(ControlledShutdownRequest(BrokerId(1)))).error_code is ErrorCode.NONE
        await quiesce()
        assert received(c) == planned(plan)
        await assert_as_planned(world, plan)

    run_virtually(main)


def test_settings_that_cannot_be_read_are_refused_in_a_dry_run_too() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await world.create("/config/topics/t", b"malformed")
        request = AlterConfigsRequest((_set(TOPIC_RESOURCE, "t", retention_ms="5"),))
        for validate_only in (True, False):
            answer = await c.ask(replace(request, validate_only=validate_only))
            assert answer.responses[0].error_code is ErrorCode.INVALID_CONFIG

    run_virtually(main)
