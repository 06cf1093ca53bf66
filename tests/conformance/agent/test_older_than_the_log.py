"""ZooKeeper was restored from a backup: an agent keeps its records, and names the epochs that it knows."""

import asyncio

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, Offset, TopicId
from cluster.model.errors import ErrorCode
from cluster.requests.cluster import DescribeFindingsRequest
from cluster.requests.control import StopReplicaPartitionState, StopReplicaRequest
from cluster.requests.data import FetchPartition, FetchRequest
from cluster.requests.recovery import DescribeReplicasRequest
from cluster.zookeeper.port import Create
from tests.brokers.agents import CONTROLLER_ID, TOPIC_ID, TP, AgentProcess, AgentWorld, until, virtually

OTHER_ID = TopicId("B" * 22)


async def restart(world: AgentWorld, broker: int) -> None:
    """kill -9 and start again: the memory of epochs is gone, the log is not."""
    old = world.agents[broker]
    await old.crash()
    await asyncio.sleep(10)  # The session expires.
    process = AgentProcess(world, BrokerId(broker))
    process.disk = old.disk
    await process.start()
    world.agents[broker] = process


@pytest.mark.rule("R2.18")
@virtually
async def test_after_a_restart_a_leader_epoch_below_that_of_the_log_is_refused() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, [1])
    backup = world.states[TP]
    for _ in range(3):
        world.decide(1, [1])
        await world.tell(1)
    assert (await world.agents[1].produce(5)).error_code is ErrorCode.NONE
    await restart(world, 1)
    newest, world.states[TP] = world.states[TP], backup
    await world.update_metadata()
    response = await world.agents[1].handle(world.leader_and_isr(backup))
    refused = response.partition_errors[0]
    assert (refused.error_code, refused.leader_epoch) == (ErrorCode.STALE_CONTROLLER_EPOCH, newest.leader_epoch)
    assert not world.agents[1].partition().is_leader
    world.states[TP] = newest
    assert await world.tell(1) is ErrorCode.NONE
    assert world.agents[1].offsets()[1] == 5
    await world.stop()


@pytest.mark.rule("R2.18")
@virtually
async def test_refusals_name_the_epochs_that_the_broker_knows() -> None:
    world = AgentWorld()
    await world.start(1)
    world.controller_epoch = ControllerEpoch(12)
    await world.create(1, [1])
    world.decide(1, [1])
    await world.tell(1)
    agent = world.agents[1]
    repeated = (await agent.handle(world.leader_and_isr(world.states[TP]))).partition_errors[0]
    assert (repeated.error_code, repeated.leader_epoch) == (ErrorCode.STALE_CONTROLLER_EPOCH, -1)
    older = replace(world.states[TP], leader_epoch=LeaderEpoch(0))
    behind = (await agent.handle(world.leader_and_isr(older))).partition_errors[0]
    assert (behind.error_code, behind.leader_epoch) == (ErrorCode.STALE_CONTROLLER_EPOCH, 1)
    world.controller_epoch = ControllerEpoch(9)
    for response in (
        await agent.handle(world.leader_and_isr(world.states[TP])),
        await agent.handle(world.metadata()),
        await world.stop_replica(1),
    ):
        assert (response.error_code, response.controller_epoch) == (ErrorCode.STALE_CONTROLLER_EPOCH, 12)
        assert response.broker_epoch == agent.epoch
    await world.stop()


@pytest.mark.rule("R4.15")
@virtually
async def test_a_replica_of_a_later_topic_of_the_same_name_is_not_deleted() -> None:
    """The backup knows the deletion of a topic that was completed long ago, and its successor does not exist there."""
    world = AgentWorld()
    await world.start(1)
    await world.create(1, [1])
    await world.agents[1].produce(5)
    for topic_id, code in ((OTHER_ID, ErrorCode.INCONSISTENT_TOPIC_ID), (None, ErrorCode.NONE)):
        state = StopReplicaPartitionState(TP.topic, TP.partition, LeaderEpoch(-2), True, topic_id)
        request = StopReplicaRequest(CONTROLLER_ID, world.controller_epoch, BrokerEpoch(-1), (state,))
        if topic_id is not None:
            await restart(world, 1)
        response = await world.agents[1].handle(request)
        assert response.partition_errors[0].error_code is code
        assert (world.agents[1].logs.get(TP) is None) == (code is ErrorCode.NONE)
    await world.stop()


@pytest.mark.rule("R6.10")
@virtually
async def test_a_follower_whose_broker_epoch_fell_is_fenced_only_until_the_next_leader_epoch() -> None:
    """In a ZooKeeper restored from a backup broker epochs begin anew; the leader stays the leader."""
    world = AgentWorld()
    await world.start(1)
    world.decide(1, [1], replicas=[1, 2])
    await world.update_metadata()
    await world.tell(1)
    agent = world.agents[1]
    await agent.produce()
    before, after = BrokerEpoch(150), BrokerEpoch(104)

    async def fetch(epoch: BrokerEpoch) -> ErrorCode:
        item = FetchPartition(TP.topic, TOPIC_ID, TP.partition, Offset(1), 1 << 20, world.states[TP].leader_epoch)
        response = await agent.handle(FetchRequest(BrokerId(2), (item,), 0, 1, 1 << 20, epoch))
        return response.error_code or response.partitions[0].error_code

    assert await fetch(before) is ErrorCode.NONE
    assert await fetch(after) is not ErrorCode.NONE
    world.decide(1, [1])
    await world.tell(1)
    assert await fetch(after) is ErrorCode.NONE
    await world.stop()


@pytest.mark.rule("R1.19")
@virtually
async def test_after_a_restore_no_controller_is_obeyed_before_a_recovery_whatever_its_epoch() -> None:
    """A controller elected after the restore may have any epoch that was used before, or a higher one."""
    world = AgentWorld()
    await world.start(1)
    backup = world.zookeeper.tree.copy()
    await world.create(1, [1])
    agent = world.agents[1]
    for number in range(20):
        await agent.zookeeper.multi([Create(f"/consumers/{number}")])
    before = agent.epoch
    world.zookeeper.restore(backup, 6)
    await until(lambda: agent.epoch != before)
    (found,) = (await agent.handle(DescribeFindingsRequest())).findings
    assert (found.kind, found.broker) == ("refuses_controller", 1)
    assert "ZooKeeper was restored from a backup" in found.detail
    for epoch in (1, 2, 9):
        world.controller_epoch = ControllerEpoch(epoch)
        world.decide(1, [1])
        assert await world.tell(1) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert (await agent.handle(DescribeReplicasRequest())).controller_epoch == 1
    assert await world.tell(1) is ErrorCode.STALE_CONTROLLER_EPOCH
    await agent.handle(DescribeReplicasRequest(recovers=True))
    world.controller_epoch = ControllerEpoch(1)
    assert await world.tell(1) is ErrorCode.STALE_CONTROLLER_EPOCH
    world.controller_epoch = ControllerEpoch(2)
    assert await world.tell(1) is ErrorCode.NONE
    assert (await agent.handle(DescribeFindingsRequest())).findings == ()
    await world.stop()
