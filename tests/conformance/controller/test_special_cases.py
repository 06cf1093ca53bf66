"""Rare cases: modified brokers, features, queued topics, old protocol versions, batches."""

from typing import Any

import pytest
from msgspec.structs import replace

from cluster.model.broker import Broker, BrokerId, ControllerEpoch, Endpoint, FeatureRange
from cluster.model.partition import ReplicaAssignment, TopicAssignment
from cluster.model.protocol_version import ProtocolVersion
from cluster.model.state_machines import PREVIOUS_PARTITION_STATES, PartitionState, ReplicaState
from cluster.requests.cluster import DescribeClusterRequest
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from cluster.znodes.cluster_wide import FinalizedFeatures, decode_features, encode_features
from cluster.znodes.paths import FEATURE, broker_path, state_path, topic_path
from cluster.znodes.registrations import encode_broker
from cluster.znodes.topics import encode_state, encode_topic
from cluster.zookeeper.port import Create, Delete, SetData
from controller.changes import DeletionsQueued
from controller.handlers.partitions.replica_transitions import move_replicas
from state_log.record import Kind
from tests.controllers.contexts import ids, leadership, tp
from tests.controllers.worlds import World, quiesce, run_virtually, running_cluster, until


@pytest.mark.rule("BK-40", "D-12", "ZK-14", "BK-17")
def test_changed_endpoints_are_announced_and_a_changed_rack_is_not() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        c.brokers.received.clear()
        record = Broker(BrokerId(1), (Endpoint("host1", 9092),), "rack-a")
        await world.write(SetData(broker_path(record.id), encode_broker(record, 1)))
        await quiesce()
        assert c.brokers.received == []
        moved = replace(record, endpoints=(Endpoint("elsewhere", 9092),))
        await world.write(SetData(broker_path(record.id), encode_broker(moved, 1)))
        await quiesce()
        (request,) = c.brokers.of(2, UpdateMetadataRequest)
        assert request.topic_states == ()
        assert [b.endpoints[0].host for b in request.live_brokers] == ["elsewhere", "host2"]
        assert c.gauge("ActiveBrokerCount") == 2
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("FO-1", "FT-1", "FT-2", "LC-1", "BK-3", "D-16")
def test_brokers_that_lack_finalized_features_do_not_take_part() -> None:
    async def main() -> None:
        world = await World().start()
        await world.create(FEATURE, encode_features(FinalizedFeatures(True, {"f": 2})))
        c = world.start_controller()
        await until(lambda: c.is_active)
        await world.start_broker(1)
        fit = Broker(BrokerId(2), (Endpoint("host2", 9092),), features={"f": FeatureRange(1, 3)})
        await world.create(broker_path(fit.id), encode_broker(fit, 1))
        await until(lambda: c.gauge("ActiveBrokerCount") == 1)
        described = await c.ask(DescribeClusterRequest())
        assert [b.id for b in described.brokers] == [2]
        assert not c.brokers.of(1, UpdateMetadataRequest)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-1", "BK-2", "BK-3", "BK-11", "BK-35")
def test_a_notification_of_a_new_a_bounced_and_a_dead_broker_is_worked_off_in_this_order() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        c.brokers.received.clear()
        c.zookeeper.pause()
        await world.stop_broker(2, 3)
        await world.start_broker(2, 4)
        c.zookeeper.resume()
        await quiesce()
        alive = [[b.id for b in r.live_brokers] for r in c.brokers.of(1, UpdateMetadataRequest)]
        # The new one is introduced, the bounced one is gone and back, the dead one is gone.
        assert alive == [[1, 2, 3, 4], [1, 3, 4], [1, 2, 3, 4], [1, 2, 4]]
        assert sorted(c.brokers.forgotten) == [2, 3]
        assert not c.brokers.of(3, UpdateMetadataRequest), "its channel went first"
        assert c.brokers.of(2, UpdateMetadataRequest)[-1].broker_epoch == await world.broker_epoch(2)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-1", "BK-40", "FT-2")
def test_a_broker_that_takes_part_stays_whatever_becomes_of_the_features_until_it_registers_again() -> None:
    async def main() -> None:
        world = await World().start()
        await world.create(FEATURE, encode_features(FinalizedFeatures(True, {"f": 2})))
        c = world.start_controller()
        await until(lambda: c.is_active)
        fit = Broker(BrokerId(2), (Endpoint("host2", 9092),), features={"f": FeatureRange(1, 3)})
        await world.create(broker_path(fit.id), encode_broker(fit, 1))
        await until(lambda: c.gauge("ActiveBrokerCount") == 1)
        await world.write(SetData(broker_path(fit.id), encode_broker(replace(fit, features={}), 1)))
        await quiesce()
        await world.create(broker_path(BrokerId(3)), encode_broker(replace(fit, id=BrokerId(3)), 1))
        await until(lambda: 3 in c.context.brokers.live_ids)
        assert c.context.brokers.live_ids == {2, 3}
        await world.write(
            Delete(broker_path(fit.id)), Create(broker_path(fit.id), encode_broker(replace(fit, features={}), 1))
        )
        await until(lambda: 2 not in c.context.brokers.live_ids)
        assert c.context.brokers.live_ids == {3}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("FO-1")
@pytest.mark.parametrize(
    ("found", "version", "expected"),
    [
        (None, "3.9", FinalizedFeatures(True)),
        (FinalizedFeatures(False, {"f": 1}), "3.9", FinalizedFeatures(True)),
        (FinalizedFeatures(True, {"f": 1}), "2.6", FinalizedFeatures(False, version=1)),
        (None, "2.6", FinalizedFeatures(False, version=1)),
        (FinalizedFeatures(True, {"f": 1}), "3.2", FinalizedFeatures(True, {"f": 1}, version=1)),
    ],
)
def test_a_failover_sets_the_feature_node_up(
    found: FinalizedFeatures | None, version: str, expected: FinalizedFeatures
) -> None:
    async def main() -> None:
        world = await World().start()
        if found is not None:
            await world.create(FEATURE, encode_features(found))
        c = world.start_controller(protocol_version=ProtocolVersion.parse(version))
        await until(lambda: c.is_active)
        await quiesce()
        znode = await world.tool.get(FEATURE)
        assert znode is not None
        assert decode_features(znode.data) == expected
        await c.stop()

    run_virtually(main)


def test_an_unreadable_feature_node_is_left_alone_and_keeps_nobody_from_ruling() -> None:
    async def main() -> None:
        world = await World().start()
        await world.create(FEATURE, b"garbage")
        c = world.start_controller()
        await until(lambda: c.is_active)
        await world.start_broker(1)
        await until(lambda: c.gauge("ActiveBrokerCount") == 1)
        znode = await world.tool.get(FEATURE)
        assert znode is not None
        assert znode.data == b"garbage"
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("FO-4", "FO-5")
def test_notifications_of_earlier_times_are_dropped_at_a_failover() -> None:
    async def main() -> None:
        world = await World().start()
        await world.create("/isr_change_notification/isr_change_0000000003", b"{}")
        await world.create("/log_dir_event_notification/log_dir_event_0000000001", b"{}")
        c = world.start_controller()
        await until(lambda: c.is_active)
        await quiesce()
        assert await world.tool.children("/isr_change_notification") == ()
        assert await world.tool.children("/log_dir_event_notification") == ()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-21", "TP-22")
def test_a_topic_that_waits_for_its_deletion_may_not_grow() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await quiesce()
        c.context.apply(DeletionsQueued(("t",)))
        before = await world.topic("t")
        assert before is not None
        grown = TopicAssignment({**before.partitions, 1: ReplicaAssignment(ids(1))}, before.topic_id)
        await world.write(SetData(topic_path("t"), encode_topic(grown)))
        await quiesce()
        assert await world.topic("t") == before
        assert await world.state("t", 1) is None
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("PS-9")
def test_a_state_node_that_is_there_already_is_never_overwritten() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        there = encode_state(leadership(2, [2], leader_epoch=5))
        await world.create(state_path(tp("t-0")), there)
        await quiesce()
        before = c.context.topics.assignments.get("t")
        assert not before
        znode = TopicAssignment({0: ReplicaAssignment(ids(1)), 1: ReplicaAssignment(ids(1))})
        await world.write(SetData(topic_path("t"), encode_topic(znode)))
        await world.leads("t", 1, leader=1)
        await quiesce()
        kept = await world.tool.get(state_path(tp("t-0")))
        assert kept is not None
        assert kept.data == there
        assert c.context.leaderships.partition_state(tp("t-0")) is PartitionState.NEW
        assert PartitionState.NEW in PREVIOUS_PARTITION_STATES[PartitionState.ONLINE]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("PS-10", "PS-12", "RM-8", "D-23")
def test_below_alter_partition_every_decision_reads_the_state_nodes_first() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3, protocol_version=ProtocolVersion.parse("2.6"))
        await world.create_topic("t", [1, 2, 3], [1, 2, 3])
        for partition in (0, 1):
            await world.leads("t", partition, leader=1)
        await quiesce()
        # A leader of those times shrinks the ISR by itself.
        shrunk = leadership(1, [1, 3], controller_epoch=1)
        await world.write(SetData(state_path(tp("t-0")), encode_state(shrunk)))
        newer = replace(shrunk, controller_epoch=ControllerEpoch(9))
        await world.write(SetData(state_path(tp("t-1")), encode_state(newer)))
        await world.stop_broker(1)
        state = await world.leads("t", leader=3)
        assert (state.isr, state.leader_epoch, state.partition_epoch) == ((3,), 1, 2)
        await quiesce()
        left = await world.state("t", 1)
        assert left is not None
        assert (left.leader, left.controller_epoch, left.partition_epoch) == (1, 9, 1)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RM-3", "RM-4")
def test_every_target_of_the_replica_machine_has_its_action() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        active: Any = c.controller._active
        partition, two, three = tp("t-0"), BrokerId(2), BrokerId(3)

        async def move(broker: BrokerId, target: ReplicaState) -> ReplicaState:
            c.brokers.received.clear()
            await move_replicas(active, {broker: [partition]}, target)
            await quiesce()
            state: ReplicaState = c.context.replicas.state(broker, partition)
            return state

        assert await move(three, ReplicaState.ONLINE) is ReplicaState.NON_EXISTENT
        assert await move(three, ReplicaState.NEW) is ReplicaState.NEW
        (request,) = c.brokers.of(3, LeaderAndIsrRequest)
        assert request.topic_states[0].partition_states[0].is_new
        assert await move(three, ReplicaState.ONLINE) is ReplicaState.ONLINE
        assert c.brokers.received == []
        assert await move(two, ReplicaState.OFFLINE) is ReplicaState.OFFLINE
        assert not c.brokers.of(2, StopReplicaRequest)[0].partition_states[0].delete_partition
        assert not c.brokers.of(2, LeaderAndIsrRequest)
        assert len(c.brokers.of(1, LeaderAndIsrRequest)) == 1
        assert (await world.state("t")).isr == (1,)  # type: ignore[union-attr]
        assert await move(two, ReplicaState.DELETION_STARTED) is ReplicaState.DELETION_STARTED
        assert c.brokers.of(2, StopReplicaRequest)[0].partition_states[0].delete_partition
        assert await move(two, ReplicaState.OFFLINE) is ReplicaState.DELETION_STARTED
        assert await move(two, ReplicaState.DELETION_SUCCESSFUL) is ReplicaState.DELETION_SUCCESSFUL
        assert await move(two, ReplicaState.NON_EXISTENT) is ReplicaState.NON_EXISTENT
        # The list of replicas is the topic node's affair, which has not changed.
        assert c.context.topics.assignment(partition).replicas == (1, 2)
        moves = [(r.broker, r.from_state, r.to_state) for r in c.sink.of(Kind.REPLICA)]
        assert (2, "OnlineReplica", "OfflineReplica") in moves
        assert (2, "ReplicaDeletionSuccessful", "NonExistentReplica") in moves
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RM-3")
def test_a_new_replica_on_the_leader_is_a_failure_that_leaves_its_state() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await quiesce()
        active: Any = c.controller._active
        c.context.replicas.states[BrokerId(1)].pop(tp("t-0"))
        await move_replicas(active, {BrokerId(1): [tp("t-0")]}, ReplicaState.NEW)
        assert c.context.replicas.state(BrokerId(1), tp("t-0")) is ReplicaState.NON_EXISTENT
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-35")
def test_the_death_of_a_broker_that_hosts_nothing_is_announced() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        c.brokers.received.clear()
        await world.stop_broker(2)
        await quiesce()
        (request,) = c.brokers.of(1, UpdateMetadataRequest)
        assert [b.id for b in request.live_brokers] == [1]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-24", "LC-8")
def test_a_failover_and_a_death_take_few_round_trips_however_many_partitions_there_are() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2, 3)
        replicas = ([1, 2, 3], [2, 3, 1], [3, 1, 2])
        await world.create_topic("t", *(replicas[p % 3] for p in range(900)))
        await until(lambda: first.gauge("GlobalPartitionCount") == 900)
        await quiesce()
        await first.stop()
        second = world.start_controller(1002)
        await until(lambda: second.is_active)
        await quiesce()
        assert second.zookeeper.requests < 60
        before = second.zookeeper.requests
        await world.stop_broker(1)
        await until(lambda: second.gauge("ActiveBrokerCount") == 2)
        await quiesce()
        # 300 elections and 300 removals: two transactions each, a handful of reads, and the re-armed watches.
        assert second.zookeeper.requests - before < 15
        sent = [type(r) for b, r in second.brokers.received if b == 2]
        assert sent.count(LeaderAndIsrRequest) == 1 + 2
        assert second.gauge("OfflinePartitionsCount") == 0
        await second.stop()

    run_virtually(main)
