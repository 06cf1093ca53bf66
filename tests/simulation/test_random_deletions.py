"""Topics come, grow and go while controllers and agents die: in the end there is what was asked for, no more."""

import asyncio
from random import Random

import pytest

from cluster.broker import BrokerId
from cluster.invariants import check_all
from cluster.partition import ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.znodes import (
    broker_path,
    decode_state,
    decode_topic,
    delete_topic_path,
    encode_config,
    encode_topic,
    state_path,
    topic_config_path,
    topic_path,
)
from cluster.zookeeper.port import Create, SetData
from simulator.cluster import SimulatedCluster, simulate
from simulator.zookeeper_client import SimulatedZooKeeperClient

TOPICS = ("a", "b", "c", "d")
BROKERS = (1, 2, 3)
STEPS = 40


class Life:
    """A cluster, and somebody with a plain ZooKeeper client who cannot make up his mind."""

    def __init__(self, seed: int) -> None:
        self.cluster = SimulatedCluster(seed, controllers=2, brokers=len(BROKERS))
        self.random = Random(f"{seed}/life")
        self.tool = SimulatedZooKeeperClient(self.cluster.zookeeper, session_timeout_ms=600_000)
        self.tool.listen(lambda _: None)
        self.done: list[str] = []

    async def live(self) -> None:
        await self.tool.start_session()
        self.cluster.start_all()
        await self.cluster.until(lambda: self.cluster.active_controller() is not None, "a controller in office")
        for _ in range(STEPS):
            await self.step()
            await asyncio.sleep(self.random.choice((0.0, 0.003, 0.02, 0.2, 3.0)))
        # The sessions of the dead are over by then; before that their successors could not register.
        await asyncio.sleep(10)
        for node in self.cluster.nodes:
            if not node.is_running:
                node.start()
        await self.cluster.until(self.is_at_rest, "everything as it was asked for", timeout_s=300)
        await asyncio.sleep(1)
        assert self.is_at_rest()
        self.check_controller()
        assert check_all(self.cluster.records()) == []

    async def step(self) -> None:
        topic, broker = self.random.choice(TOPICS), BrokerId(self.random.choice(BROKERS))
        steps = [self.create, self.create, self.delete, self.delete, self.grow]
        what = self.random.choice([*steps, self.shake, self.shake, self.depose])
        self.done.append(f"{what.__name__} {topic} {broker}")
        await what(topic, broker)

    async def create(self, topic: str, broker: BrokerId) -> None:
        """Tools look first whether a topic of the name is on its way out."""
        tree = self.cluster.zookeeper.tree
        if tree.get(delete_topic_path(topic)) is None and tree.get(topic_path(topic)) is None:
            partitions = {p: self.replicas(broker) for p in range(self.random.randint(1, 3))}
            await self.tool.multi([Create(topic_config_path(topic), encode_config({"file.delete.delay.ms": "10"}))])
            await self.tool.multi([Create(topic_path(topic), encode_topic(TopicAssignment(partitions)))])

    def replicas(self, first: int) -> ReplicaAssignment:
        others = [BrokerId(b) for b in BROKERS if b != first]
        return ReplicaAssignment((BrokerId(first), *others[: self.random.randint(0, 2)]))

    async def delete(self, topic: str, _broker: BrokerId) -> None:
        await self.tool.multi([Create(delete_topic_path(topic))])

    async def grow(self, topic: str, broker: BrokerId) -> None:
        node = await self.tool.get(topic_path(topic))
        if node is not None:
            assignment = decode_topic(topic, node.data)
            more = {len(assignment.partitions): self.replicas(broker)}
            grown = TopicAssignment(assignment.partitions | more, assignment.topic_id)
            await self.tool.multi([SetData(topic_path(topic), encode_topic(grown), node.stat.version)])

    async def shake(self, _topic: str, broker: BrokerId) -> None:
        agent = self.cluster.agents[broker]
        if agent.is_running:
            agent.crash()
        elif self.cluster.zookeeper.tree.get(broker_path(broker)) is None:
            agent.start()

    async def depose(self, _topic: str, _broker: BrokerId) -> None:
        for controller in self.cluster.controllers.values():
            if not controller.is_running:
                controller.start()
        active = self.cluster.active_controller()
        if active is not None:
            active.crash()

    def is_at_rest(self) -> bool:
        tree = self.cluster.zookeeper.tree
        topics = set(tree.children("/brokers/topics") or ())
        if tree.children("/admin/delete_topics") or set(tree.children("/config/topics") or ()) - topics:
            return False
        wanted: dict[int, set[str]] = {broker: set() for broker in BROKERS}
        for topic in topics:
            node = tree.get(topic_path(topic))
            assert node is not None
            for partition, assignment in decode_topic(topic, node.data).partitions.items():
                tp = TopicPartition(topic, partition)
                if not self.is_healthy(tp, assignment):
                    return False
                for broker in assignment.replicas:
                    wanted[broker].add(str(tp))
        return all(self.directories(broker) == wanted[broker] for broker in BROKERS)

    def is_healthy(self, tp: TopicPartition, assignment: ReplicaAssignment) -> bool:
        node = self.cluster.zookeeper.tree.get(state_path(tp))
        state = None if node is None else decode_state(tp, node.data, node.stat.version)  # type: ignore[arg-type]
        return state is not None and state.leader >= 0 and set(state.isr) == set(assignment.replicas)

    def directories(self, broker: int) -> set[str]:
        names = self.cluster.agents[BrokerId(broker)].disk.list_directory("/data")
        return {name for name in names if name[:1] in TOPICS and "-" in name}

    def check_controller(self) -> None:
        """What is in office knows what is in ZooKeeper, and counts it rightly (INV-10)."""
        active = self.cluster.active_controller()
        assert active is not None
        assert active.controller is not None
        context = active.controller._active.context  # type: ignore[union-attr]
        assert context.topics == set(self.cluster.zookeeper.tree.children("/brokers/topics") or ())
        assert context.recount() == (context.offline_partition_count, context.preferred_replica_imbalance_count)
        assert context.offline_partition_count == 0
        assert not context.topics_marked_for_deletion | context.topics_ineligible_for_deletion
        assert set(context.partition_states) == set(context.leaderships)


async def story(seed: int) -> None:
    life = Life(seed)
    try:
        await life.live()
    except BaseException as error:
        error.add_note(f"seed {seed}: {'; '.join(life.done)}")
        raise


@pytest.mark.rule("TD-9", "TD-15", "TD-28", "TP-12", "TP-21", "INV-9", "INV-10")
@pytest.mark.parametrize("seed", range(6))
def test_in_the_end_there_is_what_was_asked_for_and_nothing_else(seed: int) -> None:
    simulate(lambda: story(seed))
