"""LeaderAndIsr, StopReplica and UpdateMetadata on a real agent."""

import asyncio

import pytest
from msgspec.structs import replace

from cluster.model.broker import (
    LEADER_DURING_DELETE,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.control import UpdateMetadataRequest
from cluster.znodes.paths import topic_config_path
from cluster.zookeeper.port import Create
from state_log.record import Kind
from tests.brokers.agents import TOPIC, TOPIC_ID, TP, AgentWorld, until, virtually

OTHER_ID = TopicId("B" * 22)


@pytest.mark.rule("R1.16", "R2.1", "R2.2", "R4.1", "R4.8", "P26", "FN-6", "FN-7", "AG-2")
@virtually
async def test_stale_epochs_are_refused_in_each_requests_own_form_and_change_nothing() -> None:
    world = AgentWorld()
    await world.start(1)
    world.controller_epoch = ControllerEpoch(5)
    await world.create(1, [1])
    agent = world.agents[1]
    before = len(agent.records.all)
    newer = world.decide(1, [1])
    stale_broker = BrokerEpoch(agent.epoch - 1)
    response = await agent.handle(world.leader_and_isr(newer, broker_epoch=stale_broker))
    assert response.error_code is ErrorCode.STALE_BROKER_EPOCH
    assert [error.error_code for error in response.partition_errors] == [ErrorCode.STALE_BROKER_EPOCH]
    world.controller_epoch = ControllerEpoch(4)
    response = await agent.handle(world.leader_and_isr(newer))
    assert response.error_code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert [error.error_code for error in response.partition_errors] == [ErrorCode.STALE_CONTROLLER_EPOCH]
    stopped = await world.stop_replica(1, delete=True)
    assert (stopped.error_code, stopped.partition_errors) == (ErrorCode.STALE_CONTROLLER_EPOCH, ())
    updated = await agent.handle(world.metadata(1))
    assert updated.error_code is ErrorCode.STALE_CONTROLLER_EPOCH
    assert agent.partition().leader_epoch == 0
    assert len(agent.records.all) == before
    world.controller_epoch = ControllerEpoch(5)
    response = await agent.handle(world.leader_and_isr(newer, broker_epoch=BrokerEpoch(agent.epoch + 1)))
    assert response.partition_errors[0].error_code is ErrorCode.NONE
    await world.stop()


@pytest.mark.rule("R2.4", "P27", "FN-8", "AG-3", "AG-9")
@virtually
async def test_a_repeated_order_or_one_with_only_a_newer_partition_epoch_has_no_effect() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, [1])
    assert await world.tell(1) is ErrorCode.STALE_CONTROLLER_EPOCH
    world.states[TP] = replace(world.states[TP], partition_epoch=PartitionEpoch(9), replicas=(BrokerId(1), BrokerId(2)))
    assert await world.tell(1) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert world.agents[1].partition().assignment.replicas == (1,)
    assert world.agents[1].partition().partition_epoch == 0
    await world.stop()


@pytest.mark.rule("R2.3", "R2.6", "R2.10", "AG-3")
@virtually
async def test_topic_ids_are_adopted_once_and_never_exchanged() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    world.decide(1, [1, 2])
    await world.update_metadata()
    assert await world.tell(1, 2, topic_id=None) is ErrorCode.NONE
    assert await world.tell(1, 2, topic_id=TOPIC_ID) is ErrorCode.NONE
    log, fetching = world.agents[2].partition().log, world.agents[2].agent.fetchers.state(TP)
    assert log is not None
    assert log.topic_id == TOPIC_ID
    assert fetching is not None
    assert fetching.topic_id == TOPIC_ID
    world.decide(1, [1, 2])
    assert await world.tell(1, 2, topic_id=OTHER_ID) is ErrorCode.INCONSISTENT_TOPIC_ID
    assert world.agents[2].partition().leader_epoch == 0
    assert await world.tell(1, 2, topic_id=None) is ErrorCode.NONE
    await world.stop()


@pytest.mark.rule("R2.3", "R3.11", "R9.3")
@pytest.mark.parametrize("newer", [False, True], ids=["same epoch", "newer epoch"])
def test_an_id_that_comes_later_is_on_disk_soon_without_any_record(newer: bool) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        await world.start(1)
        world.decide(1, [1])
        await world.update_metadata()
        await world.tell(1, topic_id=None)
        await world.agents[1].produce(3)
        await asyncio.sleep(5)
        path = "/data/orders-0/partition.metadata"
        assert world.agents[1].disk.read_file(path) is None
        if newer:
            world.decide(1, [1])
        assert await world.tell(1) is ErrorCode.NONE
        await asyncio.sleep(5)
        assert world.agents[1].disk.read_file(path) == f"version: 0\ntopic_id: {TOPIC_ID}".encode()
        await world.agents[1].crash(power_fails=True)
        await asyncio.sleep(10)
        await world.agents[1].start()
        log = world.agents[1].logs.get(TP)
        assert log is not None
        assert log.topic_id == TOPIC_ID
        await world.stop()

    check()


@pytest.mark.rule("R3.13")
@virtually
async def test_a_log_on_disk_with_another_topic_id_is_refused_alone() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, [1])
    await world.agents[1].stop()
    await world.agents[1].start()
    world.decide(1, [1])
    assert await world.tell(1, topic_id=OTHER_ID) is ErrorCode.INCONSISTENT_TOPIC_ID
    assert world.agents[1].partition().leader_epoch == -1
    assert await world.tell(1) is ErrorCode.NONE
    await world.stop()


@pytest.mark.rule("R3.2", "R3.8", "R3.11")
@virtually
async def test_a_partition_whose_leader_is_not_alive_gets_a_log_but_keeps_role_and_epochs() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(2, [1, 2])
    for leader in (3, -1):
        world.decide(leader, [1, 2], replicas=[1, 2, 3])
        assert await world.tell(1) is ErrorCode.NONE
        assert world.agents[1].partition().leader_epoch == 0
        assert world.agents[1].agent.fetchers.state(TP) is not None
    other = TopicPartition(TOPIC, 1)
    world.decide(3, [1, 3], tp=other)
    assert await world.tell(1, tp=other) is ErrorCode.NONE
    partition = world.agents[1].partition(other)
    assert partition.log is not None
    assert (partition.leader_epoch, partition.leader_id) == (-1, -1)
    world.decide(2, [1, 2], replicas=[1, 2, 3])
    assert await world.tell(1, 2) is ErrorCode.NONE
    assert world.agents[1].partition().leader_epoch == 3
    await world.stop()


@pytest.mark.rule("R3.3", "R3.9", "AG-4")
@virtually
async def test_a_stale_partition_epoch_is_answered_none_and_ignored() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    world.decide(1, [1], partition_epoch=PartitionEpoch(7))
    await world.update_metadata()
    await world.tell(1)
    for leader in (1, 2):
        stale = replace(
            world.decide(leader, [1], replicas=[1, 2]), leader_epoch=LeaderEpoch(3), partition_epoch=PartitionEpoch(6)
        )
        response = await world.agents[1].handle(world.leader_and_isr(stale))
        assert response.partition_errors[0].error_code is ErrorCode.NONE
        assert world.agents[1].partition().leader_epoch == 0
        assert world.agents[1].partition().is_leader
    await world.stop()


@pytest.mark.rule("R3.12", "R15.1")
@virtually
async def test_topic_settings_hold_from_the_creation_of_the_log_and_nonsense_is_ignored() -> None:
    world = AgentWorld()
    await world.start(1)
    config = b'{"version":1,"config":{"min.insync.replicas":"2","segment.bytes":"many","retention.ms":"-1"}}'
    await world.agents[1].zookeeper.multi([Create(topic_config_path(TOPIC), config)])
    world.decide(1, [1, 2])
    await world.update_metadata()
    await world.tell(1)
    log = world.agents[1].partition().log
    assert log is not None
    assert (log.config.min_insync_replicas, log.config.retention_ms) == (2, -1)
    assert log.config.segment_bytes == world.settings.log_segment_bytes
    await world.stop()


@pytest.mark.rule("R3.12")
@virtually
async def test_without_zookeeper_a_new_log_is_not_opened_and_the_answer_is_none() -> None:
    world = AgentWorld(request_timeout_ms=1000)
    await world.start(1)
    world.decide(1, [1])
    await world.update_metadata()
    world.zookeeper.shut_down()
    assert await world.tell(1) is ErrorCode.NONE
    assert world.agents[1].partition().log is None
    assert (await world.agents[1].produce()).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.zookeeper.start_up()
    await asyncio.sleep(1)
    world.decide(1, [1])
    assert await world.tell(1) is ErrorCode.NONE
    assert (await world.agents[1].produce()).error_code is ErrorCode.NONE
    await world.stop()


@pytest.mark.rule("R3.12", "R2.3")
@virtually
async def test_a_follower_that_could_not_open_its_log_takes_the_same_order_again() -> None:
    world = AgentWorld(request_timeout_ms=1000)
    await world.start(1, 2)
    world.decide(1, [1], replicas=(1, 2))
    await world.update_metadata(1, 2, to=[1, 2])
    await world.tell(1)
    world.zookeeper.shut_down()
    assert await world.tell(2) is ErrorCode.NONE
    assert world.agents[2].partition().log is None
    world.zookeeper.start_up()
    await asyncio.sleep(1)
    assert await world.tell(2) is ErrorCode.NONE
    await until(lambda: sorted(world.agents[1].partition().isr) == [1, 2], within_s=30)
    await world.stop()


@pytest.mark.rule("R3.12")
@virtually
async def test_roles_are_taken_once_topic_configs_can_be_read_without_another_request() -> None:
    world = AgentWorld(request_timeout_ms=1000)
    await world.start(1, 2)
    world.decide(1, [1], replicas=(1, 2))
    await world.update_metadata(1, 2, to=[1, 2])
    world.zookeeper.shut_down()
    assert [await world.tell(1), await world.tell(2)] == [ErrorCode.NONE, ErrorCode.NONE]
    await asyncio.sleep(3)
    world.zookeeper.start_up()
    await until(lambda: world.agents[1].partition().log is not None, within_s=30)
    await until(lambda: sorted(world.agents[1].partition().isr) == [1, 2], within_s=30)
    await world.stop()


@pytest.mark.rule("R4.2", "R4.3", "R4.4", "R4.6", "R4.7", "FN-8", "AG-6", "AG-9")
@virtually
async def test_stop_replica_stops_fetching_or_deletes_and_is_idempotent() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, [1, 2])
    follower = world.agents[2]
    await world.agents[1].produce(3, acks=-1)
    fenced = await world.stop_replica(2, epoch=-1)
    assert fenced.partition_errors[0].error_code is ErrorCode.NONE
    assert follower.agent.fetchers.state(TP) is None
    assert follower.partition().leader_id == 1
    world.decide(1, [1, 2])
    await world.tell(1, 2)
    old = await world.stop_replica(2, epoch=0, delete=True)
    assert old.partition_errors[0].error_code is ErrorCode.FENCED_LEADER_EPOCH
    assert follower.agent.fetchers.state(TP) is not None
    for _ in range(2):
        deleted = await world.stop_replica(2, epoch=-2, delete=True)
        assert deleted.partition_errors[0].error_code is ErrorCode.NONE
        assert follower.agent.manager.online(TP) is None
        assert follower.logs.get(TP) is None
    assert (await follower.produce()).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert follower.agent.metrics.partition_count.value == 0
    states = [change.to_state for change in follower.records.all if change.kind is Kind.ROLE]
    assert states == ["follower", "stopped", "follower", "deleted", "deleted"]
    world.decide(1, [1, 2])
    await world.tell(1, 2)
    await until(lambda: follower.offsets()[1] == 3)
    await world.stop()


@pytest.mark.rule("R4.10", "R4.11", "R4.13", "R4.14", "AG-5")
@virtually
async def test_update_metadata_replaces_brokers_and_merges_partitions_without_touching_roles() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    assert (await world.agents[1].produce()).error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await world.create(1, [1, 2])
    cache = world.agents[1].agent.metadata
    await world.update_metadata(1, to=[1])
    assert (cache.is_alive(BrokerId(1)), cache.is_alive(BrokerId(2))) == (True, False)
    [topic] = await cache.describe_topics(None)
    assert topic.partitions[0].offline_replicas == (2,)
    assert topic.topic_id == TOPIC_ID
    world.states[TP] = replace(world.states[TP], leader=BrokerId(2))
    await world.update_metadata(1, to=[1])
    [topic] = await cache.describe_topics((TOPIC,))
    assert topic.partitions[0].error_code is ErrorCode.LEADER_NOT_AVAILABLE
    assert world.agents[1].partition().is_leader
    empty = UpdateMetadataRequest(world.metadata().controller_id, world.controller_epoch, BrokerEpoch(-1), (), ())
    await world.agents[1].handle(empty)
    assert cache.contains(TP)
    assert not cache.is_alive(BrokerId(1))
    world.states[TP] = replace(world.states[TP], leader=LEADER_DURING_DELETE)
    await world.update_metadata(to=[1])
    assert not cache.contains(TP)
    assert not cache.knows_topic_id(TOPIC_ID)
    [topic] = await cache.describe_topics((TOPIC,))
    assert topic.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await world.stop()


@pytest.mark.rule("R11.3", "R2.11", "R2.5", "R4.2", "P25", "R11.4", "R11.9", "AG-8")
@virtually
async def test_a_failed_directory_takes_its_partitions_offline_and_leaves_the_others() -> None:
    world = AgentWorld()
    await world.start(1)
    agent = world.agents[1]
    await agent.stop()
    await agent.start("/data", "/more")
    other = TopicPartition(TOPIC, 1)
    world.decide(1, [1], tp=other)
    await world.create(1, [1])
    await world.tell(1, tp=other)
    log, other_log = agent.partition().log, agent.partition(other).log
    assert log is not None
    assert other_log is not None
    assert log.directory != other_log.directory
    agent.disk.break_directory(log.directory)
    assert (await agent.produce()).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    await until(lambda: agent.agent.manager.is_offline(TP))
    assert agent.agent.metrics.offline_replica_count.value == 1
    assert (await agent.fetch(0)).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    world.decide(1, [1])
    assert await world.tell(1) is ErrorCode.KAFKA_STORAGE_ERROR
    stopped = await world.stop_replica(1)
    assert stopped.partition_errors[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (await agent.produce(tp=other)).error_code is ErrorCode.NONE
    await until(lambda: world.zookeeper.tree.children("/log_dir_event_notification") != ())
    await world.stop()


@pytest.mark.rule("R2.12", "R9.8")
@virtually
async def test_high_watermarks_are_checkpointed_only_after_the_first_order_and_at_the_end() -> None:
    world = AgentWorld()
    await world.start(1)
    agent = world.agents[1]
    await asyncio.sleep(20)
    assert await agent.logs.read_high_watermarks("/data") == {}
    assert agent.disk.read_file("/data/replication-offset-checkpoint") is None
    await world.create(1, [1])
    await agent.produce(4)
    await asyncio.sleep(6)
    assert await agent.logs.read_high_watermarks("/data") == {TP: Offset(4)}
    await agent.produce(2)
    await agent.stop()
    await agent.start()
    assert await agent.logs.read_high_watermarks("/data") == {TP: Offset(6)}
    await agent.stop()
    await agent.start()
    assert await agent.logs.read_high_watermarks("/data") == {TP: Offset(6)}
    await world.stop()
