"""ISR changes: which replicas are proposed, and how a proposal ends."""

import asyncio

import pytest

from broker_agent.decisions.isr import CommittedIsr
from broker_agent.replication.controller_isr_proposals import ControllerIsrProposals
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionResult
from simulator.network import SimulatedClusterClient
from state_log.record import Cause
from tests.brokers.agents import CONTROLLER_ENDPOINTS, TOPIC_ID, AgentWorld, refuse, until, virtually
from tests.brokers.isr_proposals import proposes_expansion


@pytest.mark.rule("R8.10", "R8.13", "R8.15", "P22", "P38", "AG-7")
@virtually
async def test_a_follower_that_caught_up_is_proposed_and_joins() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    world.decide(1, [1], replicas=[1, 2])
    await world.update_metadata()
    await world.tell(1)
    leader = world.agents[1]
    await leader.produce(5, acks=-1)
    assert leader.offsets() == (5, 5)
    assert leader.agent.metrics.registry.gauge("kafka.server", "ReplicaManager", "UnderReplicatedPartitions").value == 1
    await world.tell(2)
    await until(lambda: leader.partition().isr == (1, 2))
    [request] = world.controller.requests
    [item] = request.partitions
    assert (item.topic_id, item.new_isr, item.leader_epoch, item.partition_epoch) == (TOPIC_ID, (1, 2), 0, 0)
    assert (request.broker_id, request.broker_epoch) == (1, leader.epoch)
    assert leader.partition().partition_epoch == 1
    assert leader.agent.metrics.isr_expands.count == 1
    assert leader.agent.metrics.registry.gauge("kafka.server", "ReplicaManager", "UnderReplicatedPartitions").value == 0
    await world.stop()


@pytest.mark.rule("R8.1", "R8.3", "R6.18", "R7.12", "P9", "P16", "AG-7")
@virtually
async def test_a_joining_replica_is_waited_for_from_the_moment_it_is_proposed() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    world.controller.answer = lambda _: None
    world.decide(1, [1], replicas=[1, 2])
    await world.update_metadata()
    await world.tell(1, 2)
    leader = world.agents[1]
    await until(lambda: proposes_expansion(leader))
    await world.agents.pop(2).crash()
    await leader.produce(3)
    await asyncio.sleep(60)
    await leader.produce(1)
    assert leader.offsets() == (0, 4)
    assert leader.partition().isr == (1,)
    assert len(world.controller.requests) > 100
    await world.stop()


@pytest.mark.rule("R8.16")
@pytest.mark.parametrize("code", [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA])
def test_what_was_certainly_not_applied_is_taken_back_and_proposed_again(code: ErrorCode) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        await world.start(1, 2)
        world.controller.answer = lambda item: refuse(item, code)
        world.decide(1, [1], replicas=[1, 2])
        await world.update_metadata()
        await world.tell(1, 2)
        leader = world.agents[1]
        await until(lambda: len(world.controller.requests) >= 3)
        world.controller.answer = world.accept
        await until(lambda: leader.partition().isr == (1, 2))
        assert leader.agent.metrics.failed_isr_updates.count >= 2
        await world.stop()

    check()


@pytest.mark.rule("R8.14", "R3.6")
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA])
def test_an_answer_that_a_new_order_has_overtaken_is_ignored(code: ErrorCode) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        await world.start(1, 2)
        world.controller.top_level = ErrorCode.NOT_CONTROLLER
        world.decide(1, [1], replicas=[1, 2])
        await world.update_metadata()
        await world.tell(1, 2)
        leader = world.agents[1]
        await until(lambda: proposes_expansion(leader))
        world.decide(1, [1, 2])
        await world.tell(1)
        assert leader.partition().isr == (1, 2)
        world.controller.answer = lambda late: AlterPartitionResult(
            late.topic_name,
            late.topic_id,
            late.partition_index,
            code,
            leader_id=BrokerId(1),
            leader_epoch=LeaderEpoch(1),
            isr=(BrokerId(1),),
            partition_epoch=PartitionEpoch(7),
        )
        world.controller.top_level = ErrorCode.NONE
        await asyncio.sleep(1)
        assert leader.partition().isr_state == CommittedIsr((BrokerId(1), BrokerId(2)))
        assert leader.partition().partition_epoch == 1
        assert leader.agent.metrics.failed_isr_updates.count == 0
        await world.stop()

    check()


EPOCH = ControllerEpoch(1)


def item(partition: int) -> AlterPartitionItem:
    return AlterPartitionItem("t", TOPIC_ID, partition, LeaderEpoch(0), (BrokerId(1),), PartitionEpoch(0))


@pytest.mark.rule("R8.25", "R8.26")
@virtually
async def test_one_request_is_in_flight_and_everything_that_waits_goes_into_the_next() -> None:
    world = AgentWorld()
    proposals = ControllerIsrProposals(
        BrokerId(1),
        broker_epoch=lambda: BrokerEpoch(5),
        controller=lambda: CONTROLLER_ENDPOINTS[1],
        client=SimulatedClusterClient(world.network, "broker-1:9092"),
        timeout_ms=1000,
    )
    answers: list[tuple[int, ErrorCode]] = []

    def record(answer: AlterPartitionResult, _: Cause) -> None:
        answers.append((answer.partition_index, answer.error_code))
        if answer.partition_index == 0 and len(answers) == 2:
            # Its place is free again when it learns of the answer.
            proposals.submit(item(0), record, controller_epoch=EPOCH)

    world.controller.top_level = ErrorCode.STALE_BROKER_EPOCH
    world.controller.answer = lambda i: None if i.partition_index == 3 else refuse(i, ErrorCode.NONE)
    running = asyncio.ensure_future(proposals.run())
    loop = asyncio.get_running_loop()
    proposals.submit(item(0), record, controller_epoch=EPOCH)
    proposals.submit(item(0), record, controller_epoch=EPOCH)
    assert answers == [(0, ErrorCode.OPERATION_NOT_ATTEMPTED)]
    await asyncio.sleep(0.04)
    proposals.submit(item(1), record, controller_epoch=EPOCH)
    proposals.submit(item(3), record, controller_epoch=EPOCH)
    await until(lambda: len(world.controller.requests) == 2)
    assert loop.time() >= 0.05
    world.controller.top_level = ErrorCode.NONE
    await until(lambda: len(answers) == 4)
    partitions = [[i.partition_index for i in request.partitions] for request in world.controller.requests]
    assert partitions[:4] == [[0], [0, 1, 3], [0, 1, 3], [3, 0]]
    running.cancel()


@pytest.mark.rule("R8.10", "R8.13")
@virtually
async def test_a_proposal_has_the_broker_epoch_under_which_the_joining_replica_fetched() -> None:
    world = AgentWorld(replica_fetch_backoff_ms=50)
    await world.start(1, 2, 3)
    await world.create(1, (1, 3), replicas=(1, 2, 3))
    await until(lambda: sorted(world.agents[1].partition().isr) == [1, 2, 3])
    [item] = world.controller.requests[-1].partitions
    assert item.new_isr == (1, 3, 2)
    assert item.new_isr_epochs == (-1, -1, world.agents[2].epoch)
    await world.stop()


@pytest.mark.rule("R8.8", "R8.26")
@virtually
async def test_an_answer_that_one_partition_cannot_digest_leaves_the_others_alone() -> None:
    world = AgentWorld()
    await world.start(1)
    states = [world.decide(1, (1,), tp=TopicPartition("t", number)) for number in range(2)]
    answered: list[int] = []

    def digest(answer: AlterPartitionResult, _: Cause) -> None:
        assert answer.partition_index != 0, "the first one chokes"
        answered.append(answer.partition_index)

    proposals = world.agents[1].agent.proposals
    for state in states:
        number = state.partition_index
        item = AlterPartitionItem("t", None, number, state.leader_epoch, (BrokerId(1),), state.partition_epoch)
        proposals.submit(item, digest, controller_epoch=state.controller_epoch)
    await until(lambda: answered == [1])
    await world.stop()
