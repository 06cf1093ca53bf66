"""Watched znodes that were malformed, or whose parents were deleted: the next good one is noticed."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cluster.model.broker import BrokerId, ControllerId
from cluster.model.partition import ReplicaAssignment, TopicAssignment
from cluster.requests.control import LeaderAndIsrRequest
from cluster.znodes.admin_requests import encode_log_dir_event, encode_partitions
from cluster.znodes.configs import ConfigEntity, encode_config, encode_config_change
from cluster.znodes.controller import encode_controller
from cluster.znodes.paths import (
    BROKERS_IDS,
    BROKERS_TOPICS,
    CONFIG_CHANGES,
    CONTROLLER,
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    controller_registration_path,
    delete_topic_path,
    state_path,
    topic_path,
)
from cluster.znodes.registrations import encode_broker
from cluster.znodes.topics import encode_state, encode_topic
from cluster.zookeeper.port import Create, Delete, SetData
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.controllers.contexts import broker, ids, leadership, tp
from tests.controllers.elections import cluster
from tests.controllers.repairing import (
    GARBAGE,
    OTHER_GARBAGE,
    REPAIRS,
    Repair,
    delete_and_create,
    has_topic,
    is_gone,
    is_quiet,
    overwrite,
    overwrite_in_a_row,
    overwrite_twice,
    replace_at_once,
)
from tests.controllers.worlds import RunningController, World, run_virtually, until

# Notifications and their parents


async def log_directory_failed(world: World, c: RunningController) -> None:
    c.brokers.received.clear()
    parent = LOG_DIR_EVENT_NOTIFICATION
    await world.write(Create(f"{parent}/log_dir_event_", encode_log_dir_event(BrokerId(1)), sequential=True))
    await until(lambda: c.brokers.of(1, LeaderAndIsrRequest))


async def isr_changed(world: World, c: RunningController) -> None:
    known = c.context.leaderships.known[tp("t-0")]
    changed = leadership(1, [1], leader_epoch=known.leader_epoch, controller_epoch=known.controller_epoch)
    await world.write(SetData(state_path(tp("t-0")), encode_state(changed)))
    parent = ISR_CHANGE_NOTIFICATION
    await world.write(Create(f"{parent}/isr_change_", encode_partitions([tp("t-0")]), sequential=True))
    await until(lambda: c.context.leaderships.known[tp("t-0")].isr == (1,))


async def topic_marked(world: World, _c: RunningController) -> None:
    await world.create(delete_topic_path("t"))
    await until(lambda: is_gone(world, topic_path("t")))


async def topic_created(world: World, _c: RunningController) -> None:
    await world.create_topic("new", [1, 2])
    await world.leads("new", leader=1)


async def broker_started(world: World, c: RunningController) -> None:
    await world.start_broker(7)
    await until(lambda: 7 in c.context.brokers.live_ids)


async def settings_changed(world: World, c: RunningController) -> None:
    config = encode_config({"unclean.leader.election.enable": "true"})
    await world.create("/config/brokers/<default>", config)
    change = encode_config_change(ConfigEntity("brokers", "<default>"))
    await world.write(Create(f"{CONFIG_CHANGES}/config_change_", change, sequential=True))
    settings = c.controller._config_listener.settings
    await until(lambda: settings.unclean_leader_election_enable)


PARENTS = [
    (LOG_DIR_EVENT_NOTIFICATION, "log_dir_event_", log_directory_failed),
    (ISR_CHANGE_NOTIFICATION, "isr_change_", isr_changed),
    (DELETE_TOPICS, "none_", topic_marked),
    (BROKERS_TOPICS, "malformed_", topic_created),
    (BROKERS_IDS, "malformed_", broker_started),
    (CONFIG_CHANGES, "config_change_", settings_changed),
]
Next = Callable[[World, RunningController], Awaitable[None]]


@pytest.mark.rule("ZC-5", "BK-50", "IS-2", "TD-10", "TP-10", "BK-1", "EP-34")
@pytest.mark.parametrize(("parent", "prefix", "follow"), PARENTS, ids=[parent for parent, _, _ in PARENTS])
def test_after_a_malformed_child_the_next_good_one_is_noticed(parent: str, prefix: str, follow: Next) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        for body in (GARBAGE, OTHER_GARBAGE, b""):
            await world.write(Create(f"{parent}/{prefix}", body, sequential=True))
        await is_quiet(c)
        await follow(world, c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("ZC-5", "BK-50", "IS-2", "TD-10", "EP-34")
@pytest.mark.parametrize("repair", [delete_and_create, replace_at_once, overwrite])
@pytest.mark.parametrize(("parent", "prefix", "follow"), [PARENTS[0], PARENTS[1], PARENTS[2], PARENTS[5]])
def test_a_parent_that_was_deleted_and_created_again_is_watched(
    parent: str, prefix: str, follow: Next, repair: Repair
) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        # So that the names under the new parent begin again with lower numbers.
        for _ in range(3):
            await world.write(Create(f"{parent}/{prefix}", GARBAGE, sequential=True))
        await asyncio.sleep(1)
        for name in await world.tool.children(parent) or ():
            await world.delete(f"{parent}/{name}")
        await asyncio.sleep(1)
        await repair(world, parent, b"")
        await is_quiet(c)
        await follow(world, c)
        await is_quiet(c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("ZC-5", "TP-10", "BK-1")
@pytest.mark.parametrize("repair", [delete_and_create, replace_at_once, overwrite])
def test_lists_of_brokers_and_topics_that_were_deleted_and_created_again_are_watched(repair: Repair) -> None:
    async def main() -> None:
        world, c = await cluster()
        await repair(world, BROKERS_IDS, b"")
        await repair(world, BROKERS_TOPICS, b"")
        await is_quiet(c)
        await world.start_broker(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("ZC-5", "FO-2")
def test_parents_that_are_absent_at_a_failover_are_watched_once_they_are_there() -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        second = world.start_controller(1002)
        await until(lambda: is_there(world, controller_registration_path(second.controller.config.id)))
        await asyncio.sleep(1)
        parents = (LOG_DIR_EVENT_NOTIFICATION, ISR_CHANGE_NOTIFICATION, DELETE_TOPICS)
        for parent in parents:
            await world.delete(parent)
        await c.stop()
        await until(lambda: second.is_active and second.context.epoch == 2, "active")
        for parent in parents:
            await world.create(parent)
        await asyncio.sleep(1)
        await log_directory_failed(world, second)
        await isr_changed(world, second)
        await topic_marked(world, second)
        await second.stop()

    run_virtually(main)


async def is_there(world: World, path: str) -> bool:
    return not await is_gone(world, path)


# Topics, brokers and controllers


@pytest.mark.rule("TP-10", "TP-20", "LC-3")
@pytest.mark.parametrize("repair", REPAIRS)
@pytest.mark.parametrize("found_at_failover", [False, True])
def test_a_malformed_topic_makes_way_for_a_good_one(repair: Repair, found_at_failover: bool) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        if found_at_failover:
            await c.stop()
        await world.create(topic_path("bad"), GARBAGE)
        if found_at_failover:
            c = world.start_controller(1002)
            await until(lambda: c.is_active and c.context.epoch == 2, "active")
        await is_quiet(c)
        await repair(world, topic_path("bad"), encode_topic(TopicAssignment({0: ReplicaAssignment(ids(2, 1))})))
        await world.leads("bad", leader=2)
        await is_quiet(c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-20")
@pytest.mark.parametrize("repair", [overwrite, overwrite_twice, overwrite_in_a_row])
def test_a_topic_that_was_malformed_for_a_while_can_grow_again(repair: Repair) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        good = await world.topic("t")
        assert good is not None
        await world.write(SetData(topic_path("t"), GARBAGE))
        await is_quiet(c)
        grown = TopicAssignment({**good.partitions, 1: ReplicaAssignment(ids(2, 1))}, good.topic_id)
        await repair(world, topic_path("t"), encode_topic(grown))
        await world.leads("t", 1, leader=2)
        assert (await world.leads("t", leader=1)).leader_epoch == 0
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TD-10", "TD-15")
def test_a_malformed_topic_that_is_marked_for_deletion_goes() -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        await world.create(topic_path("bad"), GARBAGE)
        await world.create(delete_topic_path("bad"))
        await until(lambda: is_gone(world, topic_path("bad")))
        await until(lambda: is_gone(world, delete_topic_path("bad")))
        await topic_created(world, c)
        await is_quiet(c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-1", "BK-40")
@pytest.mark.parametrize("repair", ["create again", "replace at once", "overwrite", "overwrite twice"])
def test_a_malformed_registration_makes_way_for_a_good_one(repair: str) -> None:
    async def main() -> None:
        world, c = await has_topic(1, 2)
        session = SimulatedZooKeeperClient(world.server, session_timeout_ms=60_000)
        session.listen(lambda _: None)
        await session.start_session()
        path, good = "/brokers/ids/3", encode_broker(broker(3), 1)
        await session.multi([Create(path, GARBAGE, ephemeral=True)])
        await is_quiet(c)
        match repair:
            case "create again":
                await session.multi([Delete(path)])
                await asyncio.sleep(1)
                await session.multi([Create(path, good, ephemeral=True)])
            case "replace at once":
                await session.multi([Delete(path), Create(path, good, ephemeral=True)])
            case "overwrite":
                await session.multi([SetData(path, good)])
            case "overwrite twice":
                await session.multi([SetData(path, OTHER_GARBAGE)])
                await session.multi([SetData(path, good)])
        await until(lambda: 3 in c.context.brokers.live_ids)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-9", "EL-11", "D-92")
@pytest.mark.parametrize("data", [GARBAGE, b"", encode_controller(ControllerId(1001), 1)])
def test_a_persistent_controller_znode_that_nobody_owns_is_replaced(data: bytes) -> None:
    async def main() -> None:
        world = await World().start()
        await world.create(CONTROLLER, data)
        c = world.start_controller()
        await until(lambda: c.is_active, "active")
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-23")
def test_a_registration_of_another_process_that_is_overwritten_is_still_watched() -> None:
    async def main() -> None:
        world = await World().start()
        first = world.start_controller()
        await until(lambda: first.is_active, "active")
        path = controller_registration_path(first.controller.config.id)
        second = world.start_controller()
        await is_quiet(second)
        await world.write(SetData(path, GARBAGE))
        await is_quiet(second)
        await first.stop()
        await until(lambda: second.is_active, "active")
        await second.stop()

    run_virtually(main)
