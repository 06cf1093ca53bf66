"""Simulates topic creation, expansion and deletion during crashes; in the end exactly the requested topics exist."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Final

from cluster.model.broker import BrokerId
from cluster.model.partition import ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.model.protocol_version import NEWEST, ProtocolVersion
from cluster.znodes.configs import encode_config
from cluster.znodes.paths import (
    CONFIG_TOPICS,
    DELETE_TOPICS,
    LEFT_REPLICAS,
    broker_path,
    delete_topic_path,
    topic_config_path,
    topic_path,
)
from cluster.znodes.topics import decode_topic, encode_topic
from cluster.zookeeper.port import Create, SetData
from simulator.actions import Action
from simulator.cluster import DEFAULT_SETTINGS, SimulatedCluster
from simulator.convergence import check_context, check_gauges, check_state_change_logs
from simulator.faults import Supervisor
from simulator.nodes import LOG_DIRECTORY
from simulator.partition_znodes import assignments, partition_state, topics
from simulator.run import Simulation
from simulator.violations import CONVERGENCE, violated
from simulator.zookeeper_client import SimulatedZooKeeperClient

_TOPICS: Final = ("a", "b", "c", "d")
_BROKERS: Final = (1, 2, 3)
_SESSIONS_EXPIRED_S: Final = 10
_GRACES_MS: Final = (0, 1000, 600_000)


class TopicSimulation(Simulation):
    """A tool creates, expands and deletes the same few topics in ZooKeeper, over and over.

    `grace_ms`: how long deletions wait for brokers that are away; not given, it is drawn. `version`: below 2.8 requests
    say nothing of topic ids, so nothing but their order keeps a broker from deleting a newer topic of the same name.
    """

    workload = "topics"

    def __init__(self, seed: int, *, grace_ms: int | None = None, version: ProtocolVersion = NEWEST) -> None:
        chance = Random(f"{seed}/run")
        settings = DEFAULT_SETTINGS.model_copy(
            update={
                "klamm_delete_topic_absent_broker_grace_ms": (
                    chance.choice(_GRACES_MS) if grace_ms is None else grace_ms
                ),
                "inter_broker_protocol_version": version,
            }
        )
        super().__init__(SimulatedCluster(seed, controllers=2, brokers=len(_BROKERS), settings=settings), chance)
        self.zookeeper = SimulatedZooKeeperClient(self.cluster.zookeeper, session_timeout_ms=600_000)
        self.zookeeper.listen(lambda _: None)
        self.supervisor = Supervisor(self.cluster)

    async def prepare(self) -> None:
        """Start all nodes, and wait for an active controller."""
        await self.zookeeper.start_session()
        self.cluster.start_all()
        await self.cluster.until(lambda: self.cluster.active_controller() is not None, "an active controller")

    def choose(self) -> Action:
        """Draw an action, a topic and a broker."""
        topic, broker = self._random.choice(_TOPICS), BrokerId(self._random.choice(_BROKERS))
        topic_actions = [self.create, self.create, self.delete, self.delete, self.expand]
        faults = [self.crash_or_start_agent, self.crash_or_start_agent, self.crash_controller]
        act: Callable[[str, BrokerId], Awaitable[None]] = self._random.choice([*topic_actions, *faults])
        return Action(f"{act.__name__} {topic} {broker}", partial(act, topic, broker))

    async def pause(self) -> None:
        """Wait for a random time between two actions."""
        await asyncio.sleep(self._random.choice((0.0, 0.003, 0.02, 0.2, 3.0)))
        self.supervisor.end_failed_starts()

    async def create(self, topic: str, broker: BrokerId) -> None:
        """Create a topic; as tools do, check first whether one of the name is being deleted."""
        tree = self.cluster.zookeeper.tree
        if tree.get(delete_topic_path(topic)) is None and tree.get(topic_path(topic)) is None:
            partitions = {p: self._replicas(broker) for p in range(self._random.randint(1, 3))}
            config = encode_config({"file.delete.delay.ms": "10"})
            await self.zookeeper.multi([Create(topic_config_path(topic), config)])
            await self.zookeeper.multi([Create(topic_path(topic), encode_topic(TopicAssignment(partitions)))])

    async def delete(self, topic: str, _broker: BrokerId) -> None:
        """Mark a topic for deletion."""
        await self.zookeeper.multi([Create(delete_topic_path(topic))])

    async def expand(self, topic: str, broker: BrokerId) -> None:
        """Add a partition to the assignment of a topic."""
        znode = await self.zookeeper.get(topic_path(topic))
        if znode is not None:
            assignment = decode_topic(topic, znode.data)
            more = {len(assignment.partitions): self._replicas(broker)}
            expanded = TopicAssignment(assignment.partitions | more, assignment.topic_id)
            await self.zookeeper.multi([SetData(topic_path(topic), encode_topic(expanded), znode.stat.version)])

    async def crash_or_start_agent(self, _topic: str, broker: BrokerId) -> None:
        """Kill an agent, or start it once its old registration has expired."""
        agent = self.cluster.agents[broker]
        if agent.is_running:
            agent.crash()
        elif self.cluster.zookeeper.tree.get(broker_path(broker)) is None:
            self.supervisor.start(agent)

    async def crash_controller(self, _topic: str, _broker: BrokerId) -> None:
        """Kill the active controller, and start the ended ones."""
        for controller in self.cluster.controllers.values():
            if not controller.is_running:
                controller.start()
        active = self.cluster.active_controller()
        if active is not None:
            active.crash()

    async def converge(self) -> None:
        """Start all nodes, and wait until every topic is as it was asked for. Raises ViolationError."""
        # The sessions of crashed agents have expired by then; before that new processes could not register.
        await asyncio.sleep(_SESSIONS_EXPIRED_S)
        for node in self.cluster.nodes:
            if not node.is_running:
                self.supervisor.start(node)
        try:
            await self.cluster.until(self._has_converged, "everything as it was asked for", timeout_s=300)
        except TimeoutError as error:
            raise violated(CONVERGENCE, str(error)) from None
        await asyncio.sleep(1)

    def check(self) -> None:
        """Check that the cluster stays converged and that memory agrees with ZooKeeper. Raises ViolationError."""
        if not self._has_converged():
            raise violated(CONVERGENCE, "the cluster had converged, and a second later it has not")
        active = self.cluster.active_controller()
        if active is None:
            raise violated(CONVERGENCE, "there is no active controller")
        context = active.context
        check_context(context)
        if context.topics.names != set(topics(self.cluster.zookeeper.tree)):
            raise violated("INV-10", f"the controller knows topics {sorted(context.topics.names)}")
        if context.deletions.queued or context.deletions.ineligible:
            raise violated("INV-10", f"deletions wait for nothing: {sorted(context.deletions.queued)}")
        if set(context.leaderships.partition_states) != set(context.leaderships.known):
            raise violated("INV-10", "a partition has a state or a leadership, but not both")
        check_gauges(self.cluster)
        if self.cluster.settings.inter_broker_protocol_version.assigns_topic_ids:
            # Records of topics of the same name differ in nothing else.
            check_state_change_logs(self.cluster)

    def _replicas(self, first: BrokerId) -> ReplicaAssignment:
        others = [BrokerId(b) for b in _BROKERS if b != first]
        return ReplicaAssignment((first, *others[: self._random.randint(0, 2)]))

    def _has_converged(self) -> bool:
        tree = self.cluster.zookeeper.tree
        if tree.children(DELETE_TOPICS) or set(tree.children(CONFIG_TOPICS) or ()) - set(topics(tree)):
            return False
        if any(tree.children(f"{LEFT_REPLICAS}/{broker}") for broker in tree.children(LEFT_REPLICAS) or ()):
            return False
        expected: dict[int, set[str]] = {broker: set() for broker in _BROKERS}
        for tp, assignment in assignments(tree).items():
            if not self._is_replicated(tp, assignment):
                return False
            for broker in assignment.replicas:
                expected[broker].add(str(tp))
        return all(self._partition_folders(broker) == expected[broker] for broker in _BROKERS)

    def _is_replicated(self, tp: TopicPartition, assignment: ReplicaAssignment) -> bool:
        state = partition_state(self.cluster.zookeeper.tree, tp)
        return state is not None and state.leader >= 0 and set(state.isr) == set(assignment.replicas)

    def _partition_folders(self, broker: int) -> set[str]:
        disk = self.cluster.agents[BrokerId(broker)].disk
        names = (name for name in disk.list_directory(LOG_DIRECTORY) if disk.is_directory(f"{LOG_DIRECTORY}/{name}"))
        return {name for name in names if name[:1] in _TOPICS and "-" in name}
