"""Whole clusters under random faults: whatever happened, everything is as it should be once the faults end.

Each seed is one schedule of requests, deaths, hanging processes, expired sessions, lost answers, broken connections
and cut links.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

import pytest

from cluster.broker import PartitionEpoch
from cluster.errors import ClusterError, SessionExpiredError, ZooKeeperUnreachableError
from cluster.invariants import check_all
from cluster.partition import Leadership, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.process.settings import Settings
from cluster.requests import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewTopic,
    ReassignablePartition,
    ReassignableTopic,
    TopicToDelete,
)
from cluster.znodes import (
    BROKERS_TOPICS,
    DELETE_TOPICS,
    REASSIGN_PARTITIONS,
    broker_path,
    decode_state,
    decode_topic,
    encode_topic,
    state_path,
    topic_path,
)
from cluster.zookeeper.port import Create
from simulator.cluster import DEFAULT_SETTINGS, SimulatedCluster, simulate
from simulator.nodes import SimulatedAgent, SimulatedNode
from simulator.zookeeper_client import SimulatedZooKeeperClient

CONTROLLERS: Final = 3
BROKERS: Final = 4
STEPS: Final = 40
SETTLING_S: Final = 240
REFUSAL_S: Final = 30
"""How long a process may take to find out that it cannot start."""
SEEDS: Final = (*range(12), 42, 169, 208)
"""Some of any kind, and those that once found something."""
Step = Callable[[], Awaitable[None]]


class Drill:
    """One run: a cluster, what is done to it, and what must hold at its end."""

    def __init__(self, seed: int, settings: Settings = DEFAULT_SETTINGS) -> None:
        self.random = Random(seed)
        self.cluster = SimulatedCluster(seed, controllers=CONTROLLERS, brokers=BROKERS, settings=settings)
        self.tool = SimulatedZooKeeperClient(self.cluster.zookeeper, session_timeout_ms=600_000)
        self.tool.listen(lambda _: None)
        self.topics_asked_for = 0
        self.done: list[str] = []
        self._began: dict[SimulatedNode, float] = {}
        self._ended: dict[asyncio.Task[None], float] = {}
        self._requests: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        await self.tool.start_session()
        for node in self.cluster.nodes:
            self._start(node)
        await self.cluster.until(lambda: self.cluster.active_controller() is not None, "a controller in office")
        steps = self.steps()
        for _ in range(STEPS):
            [step] = self.random.choices(list(steps), list(steps.values()))
            self.done.append(f"{self._now():.3f} {step.__name__}")
            await step()
            await asyncio.sleep(self.random.choice((0.0, 0.002, 0.02, 0.3, 2.0)))
            self.bury_refused_nodes()
            self.cluster.raise_if_a_node_died()
        await self.settle()
        self.check()

    def steps(self) -> dict[Step, int]:
        """What may be done, and how often in proportion."""
        return {
            self.create_topic: 6,
            self.create_topic_in_zookeeper: 3,
            self.expand_topic: 2,
            self.delete_topic: 2,
            self.reassign: 3,
            self.crash_agent: 4,
            self.crash_controller: 3,
            self.stop_a_node: 2,
            self.start_a_node: 9,
            self.expire: 3,
            self.disconnect: 4,
            self.lose_answer: 6,
            self.hang: 4,
            self.restart_zookeeper: 1,
            self.cut: 3,
            self.heal: 4,
        }

    # What is done to the cluster

    async def create_topic(self) -> None:
        self.topics_asked_for += 1
        factor = self.random.randint(1, 3)
        self._ask(CreateTopicsRequest((NewTopic(f"t{self.topics_asked_for}", self.random.randint(1, 4), factor),)))

    async def create_topic_in_zookeeper(self) -> None:
        self.topics_asked_for += 1
        brokers = list(self.cluster.agents)
        partitions = {
            p: ReplicaAssignment(tuple(self.random.sample(brokers, self.random.randint(1, 3))))
            for p in range(self.random.randint(1, 3))
        }
        path = topic_path(f"t{self.topics_asked_for}")
        if self.cluster.zookeeper.is_reachable:
            await self.tool.multi([Create(path, encode_topic(TopicAssignment(partitions, None)))])

    async def expand_topic(self) -> None:
        topic = self._any_topic()
        if topic is not None:
            count = len(self.assignments(topic)) + self.random.randint(1, 2)
            self._ask(CreatePartitionsRequest((NewPartitions(topic, count),)))

    async def delete_topic(self) -> None:
        topic = self._any_topic()
        if topic is not None:
            self._ask(DeleteTopicsRequest((TopicToDelete(topic),)))

    async def reassign(self) -> None:
        topic = self._any_topic()
        if topic is None or not self.assignments(topic):
            return
        partition = self.random.choice(sorted(self.assignments(topic)))
        target = tuple(self.random.sample(list(self.cluster.agents), self.random.randint(1, 3)))
        move = ReassignablePartition(partition, self.random.choice((target, target, target, None)))
        self._ask(AlterPartitionReassignmentsRequest((ReassignableTopic(topic, (move,)),)))

    async def crash_agent(self) -> None:
        self._crash(list(self.cluster.agents.values()))

    async def crash_controller(self) -> None:
        active = self.cluster.active_controller()
        self._crash(list(self.cluster.controllers.values()) if active is None else [active])

    def _crash(self, nodes: "list[SimulatedNode]") -> None:
        running = [node for node in nodes if node.is_running]
        if running:
            self.random.choice(running).crash()

    async def stop_a_node(self) -> None:
        running = [node for node in self.cluster.nodes if node.is_running]
        if running:
            self._run(self.random.choice(running).stop())

    async def start_a_node(self) -> None:
        away = [node for node in self.cluster.nodes if not node.is_running and not self._is_registered(node)]
        if away:
            self._start(self.random.choice(away))

    def _is_registered(self, node: SimulatedNode) -> bool:
        """Whether the session of an agent that died lives on; another one is refused until it has expired (ZK-13)."""
        return isinstance(node, SimulatedAgent) and self.cluster.zookeeper.tree.get(broker_path(node.id)) is not None

    async def expire(self) -> None:
        self._any_client().expire()

    async def disconnect(self) -> None:
        self._any_client().disconnect(self.random.choice((0.05, 0.5, 3.0, 9.0)))

    async def lose_answer(self) -> None:
        active = self.cluster.active_controller()
        client = self._any_client() if active is None else active.incarnations[-1].zookeeper
        client.lose_answer_of_next_write()

    async def hang(self) -> None:
        awake = self.cluster.awake()
        if awake:
            self.cluster.hang(self.random.choice(awake), self.random.choice((0.5, 4.0, 8.0, 40.0)))

    async def restart_zookeeper(self) -> None:
        self.cluster.zookeeper.shut_down()
        await asyncio.sleep(self.random.choice((0.5, 5.0, 15.0)))
        self.cluster.zookeeper.start_up()

    async def cut(self) -> None:
        source, target = self.random.sample(self.cluster.nodes, 2)
        number = len(source.incarnations) - 1
        self.cluster.network.cut(f"{source.name}/{number}", target.address)

    async def heal(self) -> None:
        self.cluster.network.heal_all()

    def _ask(self, request: object) -> None:
        """Send it to whoever is in office, and take whatever comes of it."""

        async def ask() -> None:
            active = self.cluster.active_controller()
            if active is not None:
                await self.cluster.network.call("client", active.address, request)

        self._run(ask())

    def _run(self, work: Awaitable[object]) -> None:
        async def run() -> None:
            try:
                async with asyncio.timeout(60):
                    await work
            except (ClusterError, TimeoutError):
                # Requests may fail while nodes do; what was done of them shows at the end.
                return

        task = asyncio.get_running_loop().create_task(run())
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    def bury_refused_nodes(self) -> None:
        """A process ends when ZooKeeper cannot be reached while it starts; whoever supervises it starts another."""
        for node, began in self._began.items():
            task = node.incarnations[-1].task
            if not node.is_running or task is None or not task.done() or self._ended[task] - began > REFUSAL_S:
                continue
            error = task.exception()
            while isinstance(error, BaseExceptionGroup):
                [error] = error.exceptions
            if isinstance(error, ZooKeeperUnreachableError | SessionExpiredError):
                node.crash()

    def _start(self, node: SimulatedNode) -> None:
        self._began[node] = self._now()
        node.start()
        task = node.incarnations[-1].task
        assert task is not None
        task.add_done_callback(lambda ended: self._ended.update({ended: self._now()}))

    def _any_client(self) -> SimulatedZooKeeperClient:
        running = [node for node in self.cluster.nodes if node.is_running]
        node = self.random.choice(running if running else self.cluster.nodes)
        return node.incarnations[-1].zookeeper

    def _any_topic(self) -> str | None:
        topics = self.cluster.zookeeper.tree.children(BROKERS_TOPICS) or ()
        return self.random.choice(topics) if topics else None

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # What must hold at the end

    async def settle(self) -> None:
        """End all faults and wait until nothing is left to do."""
        self.cluster.network.heal_all()
        self.cluster.resume_all()
        if self._requests:
            await asyncio.wait(self._requests)
        await self.cluster.until(self.is_settled, "everything as it should be", SETTLING_S)

    def is_settled(self) -> bool:
        """Supervises, too: whatever does not run is started as soon as it may."""
        self.bury_refused_nodes()
        away = [node for node in self.cluster.nodes if not node.is_running]
        for node in away:
            if not self._is_registered(node):
                self._start(node)
        return not away and not self.missing()

    def missing(self) -> list[str]:
        """What is not as it should be yet."""
        tree = self.cluster.zookeeper.tree
        active = self.cluster.active_controller()
        if active is None:
            return ["nobody is in office"]
        found: list[str] = []
        if len(tree.children("/brokers/ids") or ()) < BROKERS:
            found.append("an agent is not registered")
        if tree.children(DELETE_TOPICS):
            found.append(f"deletions {tree.children(DELETE_TOPICS)}")
        if tree.get(REASSIGN_PARTITIONS) is not None:
            found.append("a reassignment is asked for")
        states = self.states()
        for tp, assignment in self.all_assignments().items():
            state = states.get(tp)
            if assignment.is_being_reassigned:
                found.append(f"{tp} is being reassigned: {assignment}")
            if state is None or state.leader < 0 or set(state.isr) != set(assignment.replicas):
                found.append(f"{tp} {assignment.replicas} {state}")
        found += self._differences_in_memory(states)
        return found

    def _differences_in_memory(self, states: dict[TopicPartition, Leadership]) -> list[str]:
        active = self.cluster.active_controller()
        assert active is not None
        assert active.controller is not None
        reign = active.controller._active
        assert reign is not None
        context = reign.context
        found: list[str] = []
        if context.partitions_being_reassigned:
            found.append(f"the controller moves {sorted(context.partitions_being_reassigned)}")
        if context.leaderships != states:
            known = {tp: s for tp, s in context.leaderships.items() if s != states.get(tp)}
            found.append(f"the controller believes {known} of {states.keys() ^ context.leaderships.keys()}")
        assignments = self.all_assignments()
        known_assignments = {TopicPartition(t, p): a for t, of in context.assignments.items() for p, a in of.items()}
        if known_assignments != assignments:
            found.append(f"the controller believes in assignments {known_assignments} instead of {assignments}")
        for broker, agent in self.cluster.agents.items():
            assert agent.agent is not None
            cached = agent.agent.metadata.snapshot
            if set(cached.brokers) != set(self.cluster.agents):
                found.append(f"agent {broker} knows brokers {sorted(cached.brokers)}")
            told = {TopicPartition(t, p): s for t, of in cached.topics.items() for p, s in of.items()}
            # Of topics that went while it could not be told it may know more, as in Kafka.
            if states.keys() - told.keys():
                found.append(f"agent {broker} does not know {sorted(states.keys() - told.keys())}")
            for tp, state in states.items():
                got = told.get(tp)
                if got is not None and (got.leader, got.leader_epoch, got.isr, got.zk_version) != (
                    state.leader,
                    state.leader_epoch,
                    state.isr,
                    state.partition_epoch,
                ):
                    found.append(f"agent {broker} knows {got} instead of {state}")
                # What it hosts beyond that is left behind by a move: nobody verifies those deletions (D-10).
                hosted = agent.agent.manager.online(tp) if broker in assignments[tp].replicas else None
                role = None if hosted is None else (hosted.leader_epoch, hosted.is_leader)
                if broker in assignments[tp].replicas and role != (state.leader_epoch, state.leader == broker):
                    found.append(f"agent {broker} has {tp} as {role}, {state}")
        return found

    def check(self) -> None:
        active = self.cluster.active_controller()
        assert active is not None
        assert active.controller is not None
        assert active.controller._active is not None
        context = active.controller._active.context
        assert (context.offline_partition_count, context.preferred_replica_imbalance_count) == context.recount()
        assert context.offline_partition_count == 0
        assert not context.partitions_being_reassigned
        assert not context.topics_to_be_deleted
        assert check_all(self.cluster.records()) == []

    def assignments(self, topic: str) -> dict[int, ReplicaAssignment]:
        node = self.cluster.zookeeper.tree.get(topic_path(topic))
        return {} if node is None else decode_topic(topic, node.data).partitions

    def all_assignments(self) -> dict[TopicPartition, ReplicaAssignment]:
        topics = self.cluster.zookeeper.tree.children(BROKERS_TOPICS) or ()
        return {TopicPartition(t, p): a for t in topics for p, a in self.assignments(t).items()}

    def states(self) -> dict[TopicPartition, Leadership]:
        """Every partition state in ZooKeeper."""
        found: dict[TopicPartition, Leadership] = {}
        for tp in self.all_assignments():
            node = self.cluster.zookeeper.tree.get(state_path(tp))
            state = None if node is None else decode_state(tp, node.data, PartitionEpoch(node.stat.version))
            if state is not None:
                found[tp] = state
        return found


async def drill(seed: int) -> None:
    run = Drill(seed)
    try:
        await run.run()
    except TimeoutError as error:
        error.add_note("\n".join([*run.done, "missing:", *run.missing()]))
        raise


@pytest.mark.rule("INV-1", "INV-2", "INV-3", "INV-10", "ZC-2", "EL-5", "EL-20", "EL-24", "FN-2")
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_the_cluster_comes_to_rest_as_it_should(seed: int) -> None:
    simulate(lambda: drill(seed))
