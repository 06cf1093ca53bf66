"""Faults of a simulated cluster: crashes, pauses and shutdowns of processes, session expiries, lost responses, broken
links, ZooKeeper restarts, power failures. And the supervisor, which restarts processes that ended.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Final

from broker_agent.registration.registration import IdTakenError
from cluster.model.errors import SessionExpiredError, ZooKeeperUnreachableError
from cluster.znodes.paths import broker_path
from simulator.actions import BackgroundRequests, Weights
from simulator.cluster import SimulatedCluster
from simulator.nodes import SimulatedAgent, SimulatedNode
from simulator.zookeeper_client import SimulatedZooKeeperClient

_STARTUP_FAILURE_S: Final = 30
"""Timeout after which a process that cannot start must have ended, without the time it was paused."""


class Supervisor:
    """Starts processes, and ends those that failed to start, as a real supervisor would."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._began: dict[SimulatedNode, float] = {}
        self._ended: dict[asyncio.Task[None], float] = {}

    def start(self, node: SimulatedNode) -> None:
        """Start a node, and remember when, so that a failed start can be told from a crash."""
        self._began[node] = _now()
        node.start()
        task = node.incarnations[-1].task
        assert task is not None, f"{node.name} was just started"
        task.add_done_callback(lambda ended: self._ended.update({ended: _now()}))

    def startable(self) -> list[SimulatedNode]:
        """Stopped nodes whose registration would succeed.

        While the session of a crashed agent is alive, a new process cannot register its id (ZK-13).
        """
        return [node for node in self._cluster.nodes if not node.is_running and not self._holds_registration(node)]

    def start_all(self) -> bool:
        """Start every startable node; returns whether all were running already."""
        self.end_failed_starts()
        is_complete = all(node.is_running for node in self._cluster.nodes)
        for node in self.startable():
            self.start(node)
        return is_complete

    def end_failed_starts(self) -> None:
        """End processes that may be restarted: ZooKeeper was unreachable, or a predecessor's registration came late."""
        for node, began in self._began.items():
            incarnation = node.incarnations[-1]
            task = incarnation.task
            if task is None or not node.is_running or not task.done():
                continue
            if self._ended[task] - began - incarnation.process.paused_s > _STARTUP_FAILURE_S:
                continue
            error = task.exception()
            while isinstance(error, BaseExceptionGroup):
                [error] = error.exceptions
            if isinstance(error, ZooKeeperUnreachableError | SessionExpiredError | IdTakenError):
                node.crash()

    def _holds_registration(self, node: SimulatedNode) -> bool:
        return isinstance(node, SimulatedAgent) and self._cluster.zookeeper.tree.get(broker_path(node.id)) is not None


class Faults:
    """Each method is one random fault, or the end of one."""

    def __init__(
        self, cluster: SimulatedCluster, random: Random, background: BackgroundRequests, supervisor: Supervisor
    ) -> None:
        self._cluster, self._random = cluster, random
        self._background, self._supervisor = background, supervisor

    def common(self) -> Weights:
        """The weights of the faults that may occur in every run."""
        return {
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

    def partitions(self) -> Weights:
        """Weights of network partitions: of the responses of one direction, or of both directions."""
        return {self.lose_answers: 3, self.cut_off: 2}

    def power_failures(self) -> Weights:
        """The weight of power failures, after which records may be lost."""
        return {self.lose_power: 4}

    async def crash_agent(self) -> None:
        """Kill an agent."""
        self._crash(list(self._cluster.agents.values()))

    async def crash_controller(self) -> None:
        """Kill the active controller; without one, any controller."""
        active = self._cluster.active_controller()
        self._crash(list(self._cluster.controllers.values()) if active is None else [active])

    async def lose_power(self) -> None:
        """Cut an agent's power: what it has not flushed is lost."""
        running = [agent for agent in self._cluster.agents.values() if agent.is_running]
        if running:
            self._random.choice(running).lose_power()

    async def stop_a_node(self) -> None:
        """Stop a node gracefully, in the background."""
        running = [node for node in self._cluster.nodes if node.is_running]
        if running:
            self._background.start(_stop(self._random.choice(running)))

    async def start_a_node(self) -> None:
        """Start a node that has ended."""
        startable = self._supervisor.startable()
        if startable:
            self._supervisor.start(self._random.choice(startable))

    async def expire(self) -> None:
        """Expire a node's ZooKeeper session."""
        self._any_client().expire()

    async def disconnect(self) -> None:
        """Cut a node off from ZooKeeper for a time shorter or longer than its session timeout."""
        self._any_client().disconnect(self._random.choice((0.05, 0.5, 3.0, 9.0)))

    async def lose_answer(self) -> None:
        """Apply the next write in ZooKeeper, mostly of the active controller, but lose its response."""
        active = self._cluster.active_controller()
        client = self._any_client() if active is None else active.incarnations[-1].zookeeper
        client.lose_answer_of_next_write()

    async def hang(self) -> None:
        """Pause a node for a time shorter or longer than its session timeout."""
        awake = self._cluster.awake()
        if awake:
            self._cluster.hang(self._random.choice(awake), self._random.choice((0.5, 4.0, 8.0, 40.0)))

    async def restart_zookeeper(self) -> None:
        """Make ZooKeeper unreachable for a while."""
        self._cluster.zookeeper.shut_down()
        await asyncio.sleep(self._random.choice((0.5, 5.0, 15.0)))
        self._cluster.zookeeper.start_up()

    async def cut(self) -> None:
        """Lose requests from one node to another."""
        source, target = self._random.sample(self._cluster.nodes, 2)
        self._cluster.network.cut(source_of(source), target.address)

    async def lose_answers(self) -> None:
        """Deliver requests, but lose their responses."""
        source, target = self._random.sample(self._cluster.nodes, 2)
        self._cluster.network.cut(target.address, source_of(source))

    async def cut_off(self) -> None:
        """Lose everything between two nodes in both directions."""
        one, other = self._random.sample(self._cluster.nodes, 2)
        for source, target in ((one, other), (other, one)):
            self._cluster.network.cut(source_of(source), target.address)
            self._cluster.network.cut(target.address, source_of(source))

    async def heal(self) -> None:
        """Repair every broken link."""
        self._cluster.network.heal_all()

    def end_all(self) -> None:
        """Repair every link and resume paused processes. The supervisor restarts ended ones."""
        self._cluster.network.heal_all()
        self._cluster.resume_all()

    def _crash(self, nodes: Sequence[SimulatedNode]) -> None:
        running = [node for node in nodes if node.is_running]
        if running:
            self._random.choice(running).crash()

    def _any_client(self) -> SimulatedZooKeeperClient:
        running = [node for node in self._cluster.nodes if node.is_running]
        node = self._random.choice(running if running else self._cluster.nodes)
        return node.incarnations[-1].zookeeper


async def _stop(node: SimulatedNode) -> None:
    """Stop a node; the supervisor or `raise_if_a_node_died` handles how it ends."""
    with suppress(ExceptionGroup):
        await node.stop()


def source_of(node: SimulatedNode) -> str:
    """The network address from which the node's current process sends requests."""
    return f"{node.name}/{len(node.incarnations) - 1}"


def _now() -> float:
    return asyncio.get_running_loop().time()
