"""Old tools drop topic ids again and again while controllers and brokers die; every topic keeps its id."""

import asyncio
from random import Random

import pytest

from cluster.model.broker import BrokerId, TopicId
from cluster.model.partition import ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.znodes.paths import state_path, topic_path
from cluster.znodes.topics import decode_state, decode_topic, encode_topic
from cluster.zookeeper.port import Create, SetData
from simulator.cluster import SimulatedCluster, simulate
from simulator.faults import Supervisor
from simulator.zookeeper_client import SimulatedZooKeeperClient
from state_log.invariants import check_all
from tests.controllers.contexts import ids
from tests.kafka.old_tools import body_of_old_tool, rewrite_as_old_tool

TOPICS = {"a": ids(1, 2, 3), "b": ids(2, 3, 1), "c": ids(3)}


class Story:
    """Three agents, two controllers, and a tool of Kafka before 2.8."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = SimulatedCluster(seed, controllers=2, brokers=3)
        self.supervisor = Supervisor(self.cluster)
        self.tool = SimulatedZooKeeperClient(self.cluster.zookeeper, session_timeout_ms=6_000_000)
        self.tool.listen(lambda _: None)
        self.known: dict[str, TopicId] = {}

    async def start(self) -> None:
        await self.tool.start_session()
        self.cluster.start_all()
        await self.cluster.until(lambda: len(self._registered()) == 3, "all agents")
        for topic, replicas in TOPICS.items():
            created = TopicAssignment({0: ReplicaAssignment(replicas)})
            await self.tool.multi([Create(topic_path(topic), encode_topic(created))])
        await self.cluster.until(self.is_whole, "every replica in sync")
        self.known = {topic: TopicId(str(self._topic(topic).topic_id)) for topic in TOPICS}

    def is_whole(self) -> bool:
        """Every topic has an id, and every replica is in sync, with its log under this id."""
        tree = self.cluster.zookeeper.tree
        for topic in TOPICS:
            found = self._topic(topic)
            if found.topic_id is None:
                return False
            for number, assignment in found.partitions.items():
                tp = TopicPartition(topic, number)
                znode = tree.get(state_path(tp))
                state = None if znode is None else decode_state(tp, znode.data, znode.stat.version)  # type: ignore[arg-type]
                if state is None or state.leader < 0 or set(state.isr) != set(assignment.replicas):
                    return False
                if any(self._id_of_log(broker, tp) != found.topic_id for broker in assignment.replicas):
                    return False
        return True

    async def old_tool(self) -> None:
        topic = self.random.choice(list(TOPICS))
        count = len(self._topic(topic).partitions)
        grows = self.random.random() < 0.3
        await rewrite_as_old_tool(self.tool, topic, {count: TOPICS[topic]} if grows else {})

    async def copy_of_an_id(self) -> None:
        """One topic gets the id of another."""
        topic, other = self.random.sample(list(TOPICS), 2)
        partitions = {number: a.replicas for number, a in self._topic(topic).partitions.items()}
        await self.tool.multi([_overwritten(topic, partitions, self.known[other])])

    async def crash_controller(self) -> None:
        active = self.cluster.active_controller()
        if active is not None:
            active.crash()

    async def crash_agent(self) -> None:
        running = [agent for agent in self.cluster.agents.values() if agent.is_running]
        if running:
            self.random.choice(running).crash()

    async def start_nodes(self) -> None:
        self.supervisor.start_all()

    async def come_to_rest(self) -> None:
        cluster = self.cluster

        def is_at_rest() -> bool:
            active = cluster.active_controller()
            knows = active is not None and active.context.topics.ids.keys() == TOPICS.keys()
            return self.supervisor.start_all() and knows and self.is_whole()

        await cluster.until(is_at_rest, "every topic has its id and all replicas", timeout_s=3000)
        assert {topic: self._topic(topic).topic_id for topic in TOPICS} == self.known
        active = cluster.active_controller()
        assert active is not None
        assert active.context.topics.ids == self.known
        await cluster.stop_all()
        assert check_all(cluster.records()) == []

    def _registered(self) -> tuple[str, ...]:
        return self.cluster.zookeeper.tree.children("/brokers/ids") or ()

    def _topic(self, topic: str) -> TopicAssignment:
        znode = self.cluster.zookeeper.tree.get(topic_path(topic))
        assert znode is not None
        return decode_topic(topic, znode.data)

    def _id_of_log(self, broker: BrokerId, tp: TopicPartition) -> TopicId | None:
        agent = self.cluster.agents[broker].agent
        hosted = None if agent is None else agent.manager.online(tp)
        return None if hosted is None or hosted.log is None else hosted.log.topic_id


@pytest.mark.rule("D-102", "TI-3")
@pytest.mark.parametrize("seed", range(12))
def test_topics_keep_their_ids_whatever_dies_meanwhile(seed: int) -> None:
    async def main() -> None:
        story = Story(seed)
        await story.start()
        acts = [story.old_tool, story.crash_controller, story.crash_agent, story.start_nodes]
        for _ in range(25):
            await story.random.choices(acts, (4, 2, 1, 4))[0]()
            await asyncio.sleep(story.random.choice((0, 0.002, 0.05, 1, 10)))
        await story.come_to_rest()

    simulate(main, max_steps=5_000_000)


@pytest.mark.rule("D-103", "TI-4")
@pytest.mark.parametrize("seed", range(6))
def test_a_topic_gets_its_own_id_back_from_its_brokers(seed: int) -> None:
    """Its znode was given that of another topic, and then controllers changed."""

    async def main() -> None:
        story = Story(seed)
        await story.start()
        await story.copy_of_an_id()
        await asyncio.sleep(1)
        await story.crash_controller()
        await asyncio.sleep(story.random.choice((0, 5, 20)))
        await story.come_to_rest()

    simulate(main, max_steps=5_000_000)


def _overwritten(topic: str, partitions: dict[int, tuple[BrokerId, ...]], topic_id: TopicId) -> SetData:
    return SetData(topic_path(topic), body_of_old_tool(partitions, topic_id))
