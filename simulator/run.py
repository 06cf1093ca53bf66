"""One run of a simulation: actions, checks and the result of a seed."""

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from random import Random
from typing import ClassVar, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from simulator.actions import Action, BackgroundRequests, Limit
from simulator.cluster import SimulatedCluster, simulate
from simulator.violations import Violation, violations_of
from simulator.virtual_time_loop import VirtualTimeLoop, virtual_loop
from simulator.write_checker import WriteChecker, Writer
from simulator.zookeeper import ServerSession

_STEPS_MAX: Final = 5_000_000
_STEPS_PER_SECOND_MAX: Final = 20_000
"""Limit of steps per virtual second. Runs take a few hundred; one with more is in a busy loop."""


class Simulation(ABC):
    """A cluster, the random actions on it, and the checks during the run and at its end."""

    workload: ClassVar[str]
    """Its name in results."""

    def __init__(self, cluster: SimulatedCluster, random: Random, *, request_timeout_s: float | None = None) -> None:
        self.cluster, self._random = cluster, random
        self.background = BackgroundRequests(request_timeout_s)
        self.writes = WriteChecker(cluster.zookeeper, self._writer_of)
        self.actions: list[str] = []
        """The actions made, each with its virtual time in seconds."""

    async def run(self, limit: Limit) -> None:
        """Act until the limit, end all faults, wait until the cluster has converged and check it.

        Raises ViolationError, and the error of any process that ended with one.
        """
        await self.prepare()
        began = _now()
        while not limit.is_reached(len(self.actions), _now() - began):
            action = self.choose()
            self.actions.append(f"{_now():.3f} {action.name}")
            await action.act()
            await self.pause()
            self.cluster.raise_if_a_node_died()
            self.raise_first_error()
        await self.converge()
        self.raise_first_error()
        self.check()

    def raise_first_error(self) -> None:
        """Raise what was found where raising it would have changed the run."""
        self.background.raise_first_error()
        self.writes.raise_first_error()

    def _writer_of(self, session: ServerSession) -> Writer | None:
        for controller in self.cluster.controllers.values():
            if controller.is_active and session.client is controller.incarnations[-1].zookeeper:
                version = self.cluster.settings.inter_broker_protocol_version
                return Writer(controller.context, version.has_leader_recovery_state)
        return None

    @abstractmethod
    async def prepare(self) -> None:
        """Start the cluster."""

    @abstractmethod
    def choose(self) -> Action:
        """Choose the next action."""

    @abstractmethod
    async def pause(self) -> None:
        """Wait for a random time before the next action."""

    @abstractmethod
    async def converge(self) -> None:
        """End all faults and wait until the cluster has converged. Raises ViolationError after a timeout."""

    @abstractmethod
    def check(self) -> None:
        """Check a converged cluster. Raises ViolationError."""


class RunResult(Struct, frozen=True):
    """The result of one seed. `steps`: number of callbacks; equal digests mean equal runs."""

    seed: int
    workload: str
    trace_hash: str
    steps: int
    virtual_ms: int
    violations: tuple[Violation, ...]


class NodeLog(NamedTuple):
    """The state-change log of one run of one process: lines without their newlines."""

    node: str
    incarnation: str
    lines: Sequence[bytes]


class SimulationRun(NamedTuple):
    """A result with its logs and actions."""

    result: RunResult
    actions: Sequence[str]
    logs: Sequence[NodeLog]

    @property
    def report(self) -> str:
        """Write for people: the violations, then all actions."""
        return "\n".join([*(f"{v.rule}: {v.message}" for v in self.result.violations), *self.actions])


def run_simulation(seed: int, make: Callable[[], Simulation], limit: Limit) -> SimulationRun:
    """Run the simulation that `make` returns, on its own loop. Never raises for errors of the run itself."""
    started: list[tuple[Simulation, VirtualTimeLoop]] = []
    ended: list[SimulationRun] = []
    violations: tuple[Violation, ...] = ()

    async def main() -> None:
        started.append((make(), virtual_loop()))
        await started[0][0].run(limit)

    def at_end() -> None:
        # Before the loop is cleared: what unwinds then is not part of the run.
        simulation, loop = started[0]
        ended.append(_describe(seed, simulation, loop))

    try:
        simulate(main, max_steps=_STEPS_MAX + round(_STEPS_PER_SECOND_MAX * (limit.seconds or 0)), at_end=at_end)
    except Exception as error:
        if not ended:
            raise  # The simulation was not even created.
        violations = violations_of(error)
    return ended[0]._replace(result=replace(ended[0].result, violations=violations))


def _describe(seed: int, simulation: Simulation, loop: VirtualTimeLoop) -> SimulationRun:
    digest = hashlib.sha256(f"{loop.steps} {loop.time():.6f} {simulation.cluster.trace_hash()}\n".encode())
    digest.update("\n".join(simulation.actions).encode())
    result = RunResult(
        seed, simulation.workload, digest.hexdigest(), loop.steps, round(loop.time() * 1000), violations=()
    )
    logs = [
        NodeLog(incarnation.log.node, incarnation.log.incarnation, tuple(incarnation.log.lines))
        for node in simulation.cluster.nodes
        for incarnation in node.incarnations
    ]
    return SimulationRun(result, tuple(simulation.actions), logs)


def _now() -> float:
    return asyncio.get_running_loop().time()
