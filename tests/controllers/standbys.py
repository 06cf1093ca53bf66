"""A warm standby on the simulated ZooKeeper, and a failover to it."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from cluster.model.broker import BrokerId, ControllerEpoch, ZkVersion
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.znodes.controller import encode_controller_epoch
from cluster.znodes.paths import (
    BROKERS,
    BROKERS_TOPICS,
    CONTROLLER_EPOCH,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)
from cluster.znodes.topics import encode_state, encode_topic
from cluster.zookeeper.port import Create, Delete, Op, SessionEvent, SessionState, SetData, WatchEvent
from cluster.zookeeper.recipes import create_where_missing
from controller.events import StandbyDiffered
from controller.fenced_writes import FencedWriter
from controller.store import ControllerStore
from controller.warm_standby import WarmStandby
from simulator.cluster import simulate
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient

REPLICAS = tuple(map(BrokerId, (1, 2, 3)))
EPOCH = ControllerEpoch(7)
"""Of the first controller that is elected."""
Loaded = tuple[dict[str, TopicAssignment], dict[TopicPartition, LeaderAndIsr]]


class Standby:
    """A warm standby on a ZooKeeper that somebody else writes."""

    def __init__(self, server: SimulatedZooKeeper | None = None, *, partitions_max: int = 1000) -> None:
        self.server = SimulatedZooKeeper(Random(3)) if server is None else server
        self.client, self.other = (SimulatedZooKeeperClient(self.server, session_timeout_ms=6000) for _ in range(2))
        self.is_over = asyncio.Event()
        self.epoch = ControllerEpoch(EPOCH - 1)
        self.differences: list[StandbyDiffered] = []
        self.fired: list[WatchEvent] = []
        """What watches of single znodes reported."""
        self.warm = WarmStandby(self.client, partitions_max, self.differences.append)
        self.store = ControllerStore(
            self.client, FencedWriter(self.client, ZkVersion(0), CONTROLLER_EPOCH, on_refusal=lambda: None)
        )

    async def start(self, *, runs: bool = True) -> None:
        self.client.listen(self._hear)
        self.other.listen(lambda _: None)
        await self.client.start_session()
        await self.other.start_session()
        for path in (BROKERS, BROKERS_TOPICS):
            await create_where_missing(self.other, path)
        self.warm.follow(follows=True)
        if runs:
            self.run()

    def run(self) -> None:
        self.running = asyncio.get_running_loop().create_task(self.warm.run())

    async def other_again(self) -> None:
        """Open another session of whoever writes, after ZooKeeper was restored."""
        self.other = SimulatedZooKeeperClient(self.server, session_timeout_ms=6000)
        self.other.listen(lambda _: None)
        await self.other.start_session()

    def _hear(self, event: WatchEvent | SessionEvent) -> None:
        if isinstance(event, SessionEvent):
            if event.state is SessionState.EXPIRED:
                self.is_over.set()
            self.warm.session_changed(event.state)
        else:
            self.fired.append(event)

    async def until_warm(self) -> None:
        async with asyncio.timeout(60):
            while not self.warm.is_warm:  # noqa: ASYNC110 - it says so to nobody.
                await asyncio.sleep(0.1)

    async def elect(self) -> None:
        """Raise the controller epoch, as an election does."""
        self.epoch = ControllerEpoch(self.epoch + 1)
        data = encode_controller_epoch(self.epoch)
        (created,) = await self.client.multi([Create(CONTROLLER_EPOCH, data)])
        if not created.ok:
            await self.client.multi([SetData(CONTROLLER_EPOCH, data)])

    async def take_over(self) -> Loaded:
        """What a failover loads."""
        await self.elect()
        reads = self.warm.reads(self.store)
        topics = await reads.read_topics(sorted(await self.store.list_topics()))
        states = await reads.read_states(partitions_in(topics))
        await self.warm.loaded(self.epoch, reads)
        return topics, states

    async def read(self) -> Loaded:
        """What a failover without a warm standby loads."""
        topics = await self.store.read_topics(sorted(await self.store.list_topics()))
        return topics, await self.store.read_states(partitions_in(topics))


def partitions_in(topics: dict[str, TopicAssignment]) -> list[TopicPartition]:
    return [TopicPartition(topic, p) for topic, assignment in topics.items() for p in assignment.partitions]


def assignment(partitions: int) -> TopicAssignment:
    return TopicAssignment({p: ReplicaAssignment(REPLICAS) for p in range(partitions)})


def state(leader: int, epoch: int = 0) -> bytes:
    return encode_state(LeaderAndIsr(BrokerId(leader), epoch, REPLICAS, ControllerEpoch(1), 0))  # type: ignore[arg-type]


def creation(topic: str, partitions: int) -> list[Op]:
    """The znodes of a topic and of its partitions, in one transaction."""
    ops: list[Op] = [Create(topic_path(topic), encode_topic(assignment(partitions))), Create(partitions_path(topic))]
    for tp in (TopicPartition(topic, p) for p in range(partitions)):
        ops += Create(partition_path(tp)), Create(state_path(tp), state(1))
    return ops


def deletion(topic: str, partitions: int) -> list[Op]:
    return [Delete(op.path) for op in reversed(creation(topic, partitions))]


def run(test: Coroutine[Any, Any, None]) -> None:
    async def main() -> None:
        await test

    simulate(main)
