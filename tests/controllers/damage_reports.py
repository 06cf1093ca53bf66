"""Brokers that report damage of the partitions t-0 to t-2 to a controller under test."""

from cluster.model.broker import BrokerId, Offset
from cluster.model.partition import TopicPartition
from cluster.requests.agents import RECOVERY, SCRUB, ReportDamagedReplicasRequest, ReportedDamage
from controller.events import DamagedReplicaElection
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
    c.controller.events.put(DamagedReplicaElection(BrokerId(2), await world.broker_epoch(2), PARTITIONS))
