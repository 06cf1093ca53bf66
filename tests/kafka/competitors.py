"""Shared by tests of take-overs: the controllers of Apache Kafka's brokers beside the candidates of a test."""

import asyncio
from random import Random

from cluster.model.broker import BrokerId
from cluster.model.takeover import AdoptedMode
from cluster.znodes.adoption import Adoption, encode_adoption
from cluster.znodes.paths import ADOPTION
from cluster.zookeeper.port import Delete
from simulator.cluster import VirtualClock
from simulator.kafka_competitor import KafkaCompetitor
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.controllers.worlds import SESSION_MS, World, until


class RunningCompetitor:
    """The controller of one broker, with its own session."""

    def __init__(self, world: World, id_: int) -> None:
        self.zookeeper = SimulatedZooKeeperClient(world.server, session_timeout_ms=SESSION_MS)
        self.competitor = KafkaCompetitor(self.zookeeper, BrokerId(id_), Random(id_), VirtualClock())
        self.task = asyncio.get_running_loop().create_task(self.competitor.run())

    async def stop(self) -> None:
        self.task.cancel()
        await self.zookeeper.close()


async def ruling_broker(world: World, id_: int = 1) -> RunningCompetitor:
    """The controller of a broker that has won `/controller`."""
    started = RunningCompetitor(world, id_)
    await until(lambda: started.competitor.epoch_won is not None, f"broker {id_} is the active controller")
    return started


async def adopt(world: World, mode: AdoptedMode = "atomic") -> None:
    await world.create(ADOPTION, encode_adoption(Adoption(mode, "test", 0)))


async def leave(world: World) -> None:
    await world.write(Delete(ADOPTION))
