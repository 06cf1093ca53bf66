"""Brokers that report damage of partitions of topic t to a controller under test."""

from cluster.model.broker import BrokerEpoch, BrokerId, Offset, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import (
    RECOVERY,
    SCRUB,
    UNCLEAN_SHUTDOWN,
    AlterPartitionItem,
    AlterPartitionRequest,
    ReportDamagedReplicasRequest,
    ReportDamagedReplicasResponse,
    ReportedDamage,
)
from controller.events import DamagedReplicaElection
from tests.controllers.contexts import ids
from tests.controllers.worlds import RunningController, World, quiesce

PARTITIONS = tuple(TopicPartition("t", partition) for partition in range(3))


async def report_damage(world: World, c: RunningController, broker: int, found_by: str) -> object:
    damages = tuple(
        ReportedDamage(tp.topic, None, tp.partition, Offset(3), Offset(9), 0, found_by) for tp in PARTITIONS
    )
    return await c.ask(ReportDamagedReplicasRequest(BrokerId(broker), await world.broker_epoch(broker), damages))


async def damaged_returns(world: World, c: RunningController) -> None:
    """Broker 2 is back after a crash, with damage that its start has found."""
    await world.start_broker(2, damaged=True)
    await quiesce()
    await report_damage(world, c, 2, RECOVERY)


async def leader_is_damaged(world: World, c: RunningController) -> None:
    await report_damage(world, c, 1, SCRUB)


async def waited_long_enough(world: World, c: RunningController) -> None:
    """Another controller would first wait for a report of its own."""
    held = c.context.damage.held_on(BrokerId(2))
    (until_ms,) = {held[tp].until_ms for tp in PARTITIONS if tp in held}
    c.controller.events.put(DamagedReplicaElection(BrokerId(2), await world.broker_epoch(2), PARTITIONS, until_ms))


async def report(
    world: World,
    c: RunningController,
    broker: int,
    found_by: str = RECOVERY,
    *,
    epoch: int | None = None,
    topic: str = "t",
    partition: int = 0,
    topic_id: str | None = None,
    end: int = 9,
) -> list[ErrorCode]:
    """Report a damaged replica; returns the codes of the answer: that of the request, then that of the replica."""
    known = await world.broker_epoch(broker) if epoch is None else BrokerEpoch(epoch)
    damage = ReportedDamage(
        topic,
        None if topic_id is None else TopicId(topic_id),
        partition,
        Offset(end if found_by == UNCLEAN_SHUTDOWN else 3),
        Offset(end),
        100,
        found_by,
    )
    answer = await c.ask(ReportDamagedReplicasRequest(BrokerId(broker), known, (damage,)))
    assert isinstance(answer, ReportDamagedReplicasResponse)
    return [answer.error_code, *(result.error_code for result in answer.replicas)]


async def propose(world: World, c: RunningController, *isr: int, partition: int = 0) -> None:
    """Have the leader propose this ISR."""
    state = await world.state("t", partition)
    assert state is not None
    item = AlterPartitionItem("t", None, partition, state.leader_epoch, ids(*isr), state.partition_epoch)
    await c.ask(AlterPartitionRequest(state.leader, await world.broker_epoch(state.leader), (item,)))
