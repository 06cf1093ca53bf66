"""What a new active controller reads, in which order, and that it notices every change afterwards."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerId, Endpoint
from cluster.model.partition import ReplicaAssignment, TopicAssignment
from cluster.model.protocol_version import ProtocolVersion
from cluster.requests.agents import ControlledShutdownRequest
from cluster.requests.control import UpdateMetadataRequest
from cluster.requests.reassignments import ListPartitionReassignmentsRequest
from cluster.znodes.admin_requests import encode_reassignments
from cluster.znodes.controller import encode_controller
from cluster.znodes.paths import (
    BROKERS_IDS,
    BROKERS_TOPICS,
    CONTROLLER,
    CONTROLLER_EPOCH,
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    REASSIGN_PARTITIONS,
    broker_path,
    delete_topic_path,
    state_path,
    topic_path,
)
from cluster.znodes.registrations import decode_broker, encode_broker
from cluster.znodes.topics import encode_topic
from cluster.zookeeper.port import Create, Delete, OpResult, SetData, ZkError
from controller.changes import OfflineReplicasReported
from controller.controller_state import ControllerState
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.controllers.contexts import assignment, ids, tp
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until


async def successor(world: World, first: RunningController, **settings: Any) -> RunningController:
    await first.stop()
    second = world.start_controller(1002, **settings)
    await until(lambda: second.is_active)
    await quiesce()
    return second


def test_the_active_controller_counts_from_the_election_while_the_other_figures_follow_the_failover() -> None:
    """Section 15.1: ActiveControllerCount and ControllerState are live, the other gauges as of the last event."""

    async def main() -> None:
        world, first = await running_cluster(1, 2)
        await first.stop()
        second = world.start_controller(1002)
        await until(lambda: second.gauge("ActiveControllerCount") == 1)
        assert second.gauge("ControllerState") == ControllerState.CONTROLLER_CHANGE
        assert second.metrics.gauge("kafka.server", "MetadataLoader", "CurrentControllerId").value == 1002
        assert second.gauge("ActiveBrokerCount") == 0
        await until(lambda: second.is_active)
        assert second.gauge("ActiveBrokerCount") == 2

    run_virtually(main)


async def grow(world: World, topic: str, *replicas: int) -> int:
    """Add a partition as a tool does; its number."""
    known = await world.topic(topic)
    assert known is not None
    added = len(known.partitions)
    grown = TopicAssignment({**known.partitions, added: ReplicaAssignment(ids(*replicas))}, known.topic_id)
    await world.write(SetData(topic_path(topic), encode_topic(grown)))
    return added


async def move_to(world: World, broker: int, host: str) -> None:
    znode = await world.tool.get(broker_path(BrokerId(broker)))
    assert znode is not None
    moved = replace(decode_broker(BrokerId(broker), znode.data), endpoints=(Endpoint(host, 9092),))
    await world.write(SetData(broker_path(BrokerId(broker)), encode_broker(moved, 1)))


def last_hosts(c: RunningController, broker: int) -> list[str]:
    return [b.endpoints[0].host for b in c.brokers.of(broker, UpdateMetadataRequest)[-1].live_brokers]


@pytest.mark.rule("FO-2", "FO-3", "LC-2", "LC-3", "LC-7", "TP-11", "ZC-5")
def test_after_a_failover_every_kind_of_change_is_noticed_time_and_again() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2)
        await world.create_topic("old", [1, 2])
        await world.leads("old", leader=1)
        c = await successor(world, first)
        for number in (3, 4):
            await world.start_broker(number)
            await until(lambda n=number: c.gauge("ActiveBrokerCount") == n, "a new broker")
            await world.create_topic(f"new-{number}", [1])
            await world.leads(f"new-{number}", leader=1)
            for topic in ("old", f"new-{number}"):
                await world.leads(topic, await grow(world, topic, 2), leader=2)
            await move_to(world, 1, f"elsewhere-{number}")
            await until(lambda n=number: last_hosts(c, 2)[0] == f"elsewhere-{n}", "new endpoints")
            order = ids(2, 1) if number == 3 else ids(1, 2)
            await world.create(REASSIGN_PARTITIONS, encode_reassignments({tp("old-0"): order}))
            await until(lambda o=order: c.context.topics.assignment(tp("old-0")).replicas == o, "a requested move")
            await quiesce()
            assert await world.tool.exists(REASSIGN_PARTITIONS) is None
            await world.create(delete_topic_path(f"new-{number}"))
            await until(lambda n=number: f"new-{n}" in c.context.deletions.queued, "a deletion")
        await c.stop()

    run_virtually(main)


class Diary(SimulatedZooKeeperClient):
    """Notes the order of what is listed, read and deleted."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.calls: list[tuple[str, str]] = []

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...] | None:
        self.calls.append(("listed" if watch else "listed unwatched", path))
        return await super().children(path, watch=watch)

    async def get_many(self, paths: Any, *, watch: bool = False) -> Any:
        self.calls += [("read" if watch else "read unwatched", path) for path in paths]
        return await super().get_many(paths, watch=watch)

    async def multi_many(self, transactions: Any) -> Any:
        self.calls += [(type(op).__name__, op.path) for ops in transactions for op in ops]
        return await super().multi_many(transactions)


@pytest.mark.rule("FO-2", "FO-4", "FO-5", "FO-6", "LC-1", "LC-2", "LC-3", "LC-8")
def test_notifications_are_listed_before_the_state_is_read_and_nothing_is_written_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        world, first = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await first.stop()
        await world.create(f"{ISR_CHANGE_NOTIFICATION}/isr_change_0000000003", b"{}")
        await world.create(f"{LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_0000000001", b"{}")
        monkeypatch.setattr("tests.controllers.worlds.SimulatedZooKeeperClient", Diary)
        second = world.start_controller(1002)
        await until(lambda: second.is_active)
        await quiesce()
        assert isinstance(second.zookeeper, Diary)
        steps = [
            ("listed", BROKERS_IDS),
            ("read", f"{BROKERS_IDS}/1"),
            ("listed", LOG_DIR_EVENT_NOTIFICATION),
            ("listed", ISR_CHANGE_NOTIFICATION),
            ("listed", BROKERS_TOPICS),
            ("read", topic_path("t")),
            ("read unwatched", state_path(tp("t-0"))),
            ("Delete", f"{LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_0000000001"),
            ("Delete", f"{ISR_CHANGE_NOTIFICATION}/isr_change_0000000003"),
        ]
        assert [call for call in dict.fromkeys(second.zookeeper.calls) if call in steps] == steps
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("LC-5", "LC-6", "RA-50")
def test_a_new_controller_knows_the_moves_of_the_last_one_but_not_who_was_shutting_down() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2], [2, 1])
        await world.leads("t", 1, leader=2)
        await first.ask(ControlledShutdownRequest(BrokerId(2)))
        await world.leads("t", 1, leader=1)
        assert first.context.brokers.shutting_down == {2}
        known = await world.topic("t")
        assert known is not None
        moving = {**known.partitions, 0: assignment([9, 1, 2], adding=[9], removing=[2])}
        await world.write(SetData(topic_path("t"), encode_topic(TopicAssignment(moving, known.topic_id))))
        c = await successor(world, first)
        assert c.context.brokers.shutting_down == set()
        assert c.context.brokers.live_ids == {1, 2, 3}
        assert c.context.topics.being_reassigned == {tp("t-0")}
        listed = await c.ask(ListPartitionReassignmentsRequest())
        (partition,) = listed.topics[0].partitions
        assert (partition.partition_index, partition.replicas) == (0, (9, 1, 2))
        assert (partition.adding_replicas, partition.removing_replicas) == ((9,), (2,))
        assert await world.state("t", 1) == c.context.leaderships.known[tp("t-1")]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("LC-9", "FO-9")
def test_every_registered_broker_has_a_channel_and_hears_who_else_there_is() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2, 3)
        c = await successor(world, first)
        for broker in (1, 2, 3):
            introduction = c.brokers.of(broker, UpdateMetadataRequest)[0]
            assert [b.id for b in introduction.live_brokers] == [1, 2, 3]
            assert introduction.broker_epoch == await world.broker_epoch(broker)
            tag = {"broker-id": broker}
            waited = c.metrics.timer("kafka.controller", "ControllerChannelManager", "RequestRateAndQueueTimeMs", **tag)
            assert waited.count > 0
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TI-2")
def test_an_old_protocol_gives_no_ids_but_keeps_those_there_are() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2, protocol_version=ProtocolVersion.parse("2.7-IV2"))
        given = "Wx8MUo0-SnefEGwuS32aMQ"
        await world.create_topic("with", [1, 2], topic_id=given)
        await world.create_topic("without", [1, 2])
        await world.leads("without", leader=1)
        moves = {tp("with-0"): ids(2, 1), tp("without-0"): ids(2, 1)}
        await world.create(REASSIGN_PARTITIONS, encode_reassignments(moves))
        await until(lambda: first.context.topics.assignment(tp("without-0")).replicas == (2, 1))
        await quiesce()
        with_id, without_id = await world.topic("with"), await world.topic("without")
        assert with_id is not None
        assert without_id is not None
        assert with_id.partitions[0].replicas == without_id.partitions[0].replicas == (2, 1)
        assert (with_id.topic_id, without_id.topic_id) == (given, None)
        assert first.context.topics.ids == {"with": given}
        await first.stop()

    run_virtually(main)


@pytest.mark.rule("CX-12", "INV-11")
def test_a_second_failover_to_the_same_candidate_starts_from_nothing_but_zookeeper() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await c.ask(ControlledShutdownRequest(BrokerId(2)))
        before = c.context
        before.apply(OfflineReplicasReported(BrokerId(1), frozenset([tp("t-0")])))
        await world.delete(CONTROLLER)
        await until(lambda: c.controller.is_active and c.context.epoch == 2)
        await quiesce()
        after = c.context
        assert after is not before
        assert (after.brokers.shutting_down, after.brokers.offline_directories) == (set(), {})
        assert after.epoch_zk_version == 2
        assert after.topics.names == {"t"}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EL-12", "D-2")
def test_stepping_down_resigns_even_where_another_is_active_and_leaves_its_znode_alone() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        # The news of the other one has not come yet.
        c.zookeeper.listen(lambda _: None)
        others = encode_controller(ControllerId(7), 1)
        await world.write(Delete(CONTROLLER), Create(CONTROLLER, others, ephemeral=True))
        await c.controller.step_down()
        assert not c.controller.is_active
        await quiesce(3)
        assert not c.controller.is_active
        znode = await world.tool.get(CONTROLLER)
        assert znode is not None
        assert (znode.data, znode.stat.version) == (others, 0)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-11", "EL-20", "EV-7")
def test_a_stop_during_an_expiry_does_not_hang() -> None:
    async def main() -> None:
        _, c = await running_cluster(1)
        c.zookeeper.expire()
        async with asyncio.timeout(5):
            await c.stop()
        assert not c.controller.is_active

    run_virtually(main)


@pytest.mark.rule("EL-6", "EL-7")
def test_an_election_that_zookeeper_refuses_for_another_reason_is_tried_again() -> None:
    async def main() -> None:
        world = await World().start()
        c = world.start_controller()
        original, refused = c.zookeeper.multi, 0

        async def multi(ops: Any) -> list[OpResult]:
            nonlocal refused
            if refused < 2 and any(isinstance(op, Create) and op.path == CONTROLLER for op in ops):
                refused += 1
                return [OpResult(ZkError.NO_AUTH), *[OpResult(ZkError.RUNTIME_INCONSISTENCY)] * (len(ops) - 1)]
            return await original(ops)

        c.zookeeper.multi = multi  # type: ignore[method-assign]
        await until(lambda: c.is_active)
        assert refused == 2
        znode = await world.tool.get(CONTROLLER_EPOCH)
        assert znode is not None
        assert znode.data == b"1"
        await c.stop()

    run_virtually(main)
