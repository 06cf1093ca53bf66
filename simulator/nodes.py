"""Controllers and agents of a simulated cluster: the real code on simulated ports.

A crash does not cancel a node's tasks, because that would run their `finally` blocks: its process is paused and never
resumed.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final, Protocol, TypeVar

from broker_agent.agent import Agent, AgentDependencies
from broker_agent.log.checkpoints import MetaProperties
from broker_agent.log.opening import LoadOptions, open_log_directories
from broker_agent.log.segments import LogDependencies
from broker_agent.node import AgentNode
from broker_agent.registration.identity import agree_on_cluster_id, create_persistent_paths
from broker_agent.registration.in_sync_partitions import read_in_sync_partitions
from broker_agent.replication.hosted_partition import HostedPartition
from broker_agent.requests.topic_configs import TopicConfigs, default_log_config
from cluster.aio.clock import WallClock
from cluster.aio.tasks import TaskSet
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import Broker, BrokerId, ControllerId, Endpoint
from cluster.model.partition import TopicPartition
from cluster.process.log_level import LogLevel
from cluster.requests.context import RequestHandler
from cluster.requests.control import StateLogHead
from cluster.znodes.paths import broker_path, controller_registration_path
from cluster.zookeeper.port import SessionEvent, WatchEvent
from controller.config import ControllerConfig
from controller.context.controller_context import ControllerContext
from controller.controller import Controller
from controller.controller_state import ControllerState
from controller.node import ControllerNode
from simulator.disk import SimulatedDisk
from simulator.kafka_competitor import KafkaCompetitor
from simulator.memory_state_log import MemoryStateChangeLog
from simulator.network import SimulatedBrokerClient, SimulatedClusterClient, SimulatedNetwork
from simulator.virtual_time_loop import Process
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient
from state_log.record import Boot, Kind, LoggedStateChange, StateChange, Witness, incarnation_id

_T = TypeVar("_T")
_PORT: Final = 9092
_CONTROL_PORT: Final = 9093
LOG_DIRECTORY: Final = "/data"


class World(Protocol):
    """State shared by all nodes of a cluster."""

    zookeeper: SimulatedZooKeeper
    network: SimulatedNetwork
    clock: WallClock
    settings: Settings
    log_directories: Sequence[str]
    """Of each agent."""

    @property
    def has_kafka_brokers(self) -> bool:
        """Whether controllers of Apache Kafka's brokers compete with those of klamm."""

    def random_of(self, name: str) -> Random:
        """A random generator of the node's own, derived from the seed of the run."""


class SimulatedWorkers:
    """The Workers of a simulated agent: no threads, but the work takes virtual time, in which other things happen.

    Pieces of work end in any order. `latency_s`: the shortest and longest time of one.
    """

    def __init__(self, random: Random, *, latency_s: tuple[float, float]) -> None:
        self._random, self._latency_s = random, latency_s

    async def run(self, work: Callable[[], _T]) -> _T:
        """Do the work after a random time, and return its result."""
        await asyncio.sleep(self._random.uniform(*self._latency_s))
        return work()


class Machine:
    """The machine of a node, which restarts after each power failure."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._boots = 1
        self._began_at = 0.0
        self._log: MemoryStateChangeLog | None = None

    def open_log(self, world: World, number: int) -> MemoryStateChangeLog:
        """Open the log of a new run. Its first record is the end of the former run's log, as on files."""
        former = None if self._log is None else self._log.flushed_head
        self._log = MemoryStateChangeLog(
            self._node, incarnation_id(world.clock.now_ms(), number), world.clock, self.boot
        )
        if former is not None:
            witness = Witness(former.node, former.incarnation, former.seq, former.digest)
            self._log.append([StateChange(kind=Kind.WITNESS, witness=witness)])
        return self._log

    def start_anew(self) -> None:
        """Count another boot."""
        self._boots += 1
        self._began_at = _now()

    def boot(self) -> Boot:
        """The id of the present boot, and the time since then, in ms."""
        return Boot(round((_now() - self._began_at) * 1000), f"{self._node}-boot-{self._boots}")


class Incarnation:
    """One process of a node, from start to end: its ports and its task."""

    def __init__(self, world: World, machine: Machine, node: str, number: int) -> None:
        self._world = world
        names = world.settings.listener_names
        self.endpoints = (Endpoint(node, _PORT, names.client), Endpoint(node, _CONTROL_PORT, names.control))
        # A network partition affects this process; its successor opens its own connections.
        self.source = f"{node}/{number}"
        self.log = machine.open_log(world, number)
        self.process = Process()
        self.zookeeper = SimulatedZooKeeperClient(
            world.zookeeper,
            session_timeout_ms=world.settings.zookeeper_session_timeout_ms,
            connection_timeout_ms=world.settings.zookeeper_connection_timeout_ms,
            process=self.process,
        )
        self.stop = asyncio.Event()
        self.is_alive = True
        self.task: asyncio.Task[None] | None = None
        self.ended = asyncio.Event()
        """Set when the process has ended by itself or crashed; the task of a crashed one is never done."""

    def append(self, changes: Sequence[StateChange]) -> None:
        """Implements StateChangeLog."""
        self.log.append(changes)

    @property
    def flushed_head(self) -> StateLogHead | None:
        """Implements StateChangeLog."""
        return self.log.flushed_head

    def serve(self, handler: RequestHandler) -> None:
        """Answer at both ports of the process."""
        for endpoint in self.endpoints:
            self._world.network.attach(endpoint, handler, self.process)

    def close_ports(self) -> None:
        """Answer no more."""
        for endpoint in self.endpoints:
            self._world.network.detach(endpoint)

    def crash(self) -> None:
        """End as with SIGKILL."""
        self.is_alive = False
        if not self.process.is_paused:
            self.zookeeper.pause()
        self.zookeeper.crash()
        self.close_ports()
        self.ended.set()


class SimulatedNode:
    """A controller or an agent over all its incarnations."""

    def __init__(self, world: World, name: str, registration: str) -> None:
        self._world = world
        self.settings = world.settings
        """Those of its next process."""
        self.name = name
        self._registration = registration
        self.random = world.random_of(name)
        self.machine = Machine(name)
        self.incarnations: list[Incarnation] = []

    @property
    def address(self) -> str:
        """The address where clients find it."""
        return f"{self.name}:{_PORT}"

    @property
    def is_running(self) -> bool:
        """Whether its last process has started and not ended."""
        return bool(self.incarnations) and self.incarnations[-1].is_alive

    def start(self) -> None:
        """Start a new process of the node."""
        assert not self.is_running, f"{self.name} runs already"
        incarnation = Incarnation(self._world, self.machine, self.name, len(self.incarnations))
        self.incarnations.append(incarnation)
        incarnation.task = asyncio.get_running_loop().create_task(
            self._live(incarnation), name=incarnation.source, context=incarnation.process.context.copy()
        )

    def crash(self) -> None:
        """End as with SIGKILL."""
        assert self.is_running, f"{self.name} does not run"
        self.incarnations[-1].crash()

    @property
    def is_registered(self) -> bool:
        """Whether ZooKeeper has a registration of it, possibly of an earlier incarnation."""
        return self._world.zookeeper.tree.get(self._registration) is not None

    @property
    def is_paused(self) -> bool:
        """Whether its process is stopped as by SIGSTOP."""
        return self.is_running and self.incarnations[-1].process.is_paused

    def pause(self) -> None:
        """Pause as with SIGSTOP: requests wait, timers do not fire, and the session expires after its timeout."""
        assert self.is_running, f"{self.name} does not run"
        self.incarnations[-1].zookeeper.pause()

    def resume(self) -> None:
        """Resume as with SIGCONT, with everything that arrived or became due meanwhile."""
        assert self.is_paused, f"{self.name} does not hang"
        self.incarnations[-1].zookeeper.resume()

    async def stop(self) -> None:
        """Stop gracefully as with SIGTERM, and wait for the end, or for a crash. Raises the error it ended with."""
        assert self.is_running, f"{self.name} does not run"
        incarnation = self.incarnations[-1]
        incarnation.stop.set()
        await incarnation.ended.wait()
        if incarnation.task is not None and incarnation.task.done():
            incarnation.task.result()

    async def _live(self, incarnation: Incarnation) -> None:
        try:
            await self.run(incarnation)
        finally:
            incarnation.ended.set()
        # Nothing remains of a process that has ended gracefully by itself.
        incarnation.crash()

    async def run(self, incarnation: Incarnation) -> None:
        """The process itself: `program.py` on simulated adapters."""
        raise NotImplementedError


class SimulatedController(SimulatedNode):
    """A controller candidate."""

    def __init__(self, world: World, controller: ControllerId) -> None:
        super().__init__(world, f"controller-{controller}", controller_registration_path(controller))
        self.id = controller
        self.takeover = world.settings.klamm_takeover
        self.controller: Controller | None = None

    async def run(self, incarnation: Incarnation) -> None:
        protocol = "kafka" if self._world.has_kafka_brokers else "klamm"
        own = self.settings.model_copy(update={"klamm_takeover": self.takeover, "klamm_broker_protocol": protocol})
        self.controller = Controller(
            config=ControllerConfig(self.id, incarnation.endpoints, own),
            zookeeper=incarnation.zookeeper,
            broker_client=SimulatedBrokerClient(self._world.network, incarnation.source, own.listener_names),
            sink=incarnation,
            registry=Metrics(),
            clock=self._world.clock,
            random=self.random,
            log_level=LogLevel(),
        )
        node = ControllerNode(self.controller, incarnation.zookeeper, ())
        incarnation.serve(node)
        await self.controller.run(incarnation.stop)

    @property
    def is_active(self) -> bool:
        """Whether it runs and believes to be the active controller."""
        return self.is_running and self.controller is not None and self.controller.is_active

    @property
    def is_idle(self) -> bool:
        """Whether it processes no event: then its gauges show its context."""
        assert self.controller is not None, f"{self.name} has not started"
        state = self.controller.metrics.registry.gauge("kafka.controller", "KafkaController", "ControllerState")
        return state.value == ControllerState.IDLE

    @property
    def context(self) -> ControllerContext:
        """The active controller's context, for checkers."""
        assert self.controller is not None, f"{self.name} has not started"
        assert self.controller._active is not None, f"{self.name} is not the active controller"
        return self.controller._active.context


class SimulatedKafkaBroker(SimulatedNode):
    """The controller of an Apache Kafka broker; it hosts no partitions and is not registered as a broker."""

    def __init__(self, world: World, broker: BrokerId) -> None:
        super().__init__(world, f"kafka-{broker}", broker_path(broker))
        self.id = broker
        self.competitor: KafkaCompetitor | None = None

    @property
    def is_registered(self) -> bool:
        """Whether it runs and has a session, so that it can be paused."""
        return self.is_running and self.incarnations[-1].zookeeper.session_id != 0

    async def run(self, incarnation: Incarnation) -> None:
        self.competitor = KafkaCompetitor(incarnation.zookeeper, self.id, self.random, self._world.clock)
        async with TaskSet() as tasks:
            tasks.start(self.competitor.run(), name="competitor")
            await incarnation.stop.wait()
        await incarnation.zookeeper.close()


class SimulatedAgent(SimulatedNode):
    """A broker agent with a disk that outlives its crashes."""

    def __init__(self, world: World, broker: BrokerId) -> None:
        super().__init__(world, f"broker-{broker}", broker_path(broker))
        self.id = broker
        self.disk = self._empty_disk()
        self.rack: str | None = None
        self.agent: Agent | None = None

    def hosted(self, tp: TopicPartition) -> HostedPartition | None:
        """The partition as hosted by its current process; None if it is absent or offline."""
        return None if self.agent is None else self.agent.manager.online(tp)

    def crash(self) -> None:
        super().crash()
        self.disk.kill_process()

    def replace_disk(self) -> None:
        """Start with an empty disk the next time."""
        assert not self.is_running, f"{self.name} runs"
        self.disk = self._empty_disk()

    def _empty_disk(self) -> SimulatedDisk:
        return SimulatedDisk(self._world.clock, self.random, latency_s=(0.0001, 0.003))

    def lose_power(self) -> None:
        """Crash, and lose unflushed data."""
        super().crash()
        self.disk.lose_power()
        self.machine.start_anew()

    async def _recorded_roles(self) -> list[LoggedStateChange]:
        return [record for i in self.incarnations for record in i.log.records() if record.kind is Kind.ROLE]

    async def run(self, incarnation: Incarnation) -> None:
        events: asyncio.Queue[WatchEvent | SessionEvent] = asyncio.Queue()
        zookeeper, settings = incarnation.zookeeper, self.settings
        zookeeper.listen(events.put_nowait)
        await zookeeper.start_session()
        await create_persistent_paths(zookeeper)
        cluster_id = await agree_on_cluster_id(zookeeper, self.random)
        failed: asyncio.Queue[str] = asyncio.Queue()
        configs = TopicConfigs(zookeeper, default_log_config(settings), settings.request_timeout_ms)
        logs = await open_log_directories(
            LogDependencies(self.disk, self._world.clock, self.random),
            self._world.log_directories,
            MetaProperties(self.id, cluster_id),
            lambda directory, _error: failed.put_nowait(directory),
            options=LoadOptions(
                default_config=configs.defaults,
                topic_configs=await configs.read_all(),
                boot_id=self.machine.boot().boot_id,
                min_free_bytes=settings.klamm_log_dir_min_free_bytes,
                read_in_sync=partial(read_in_sync_partitions, zookeeper, self.id),
            ),
        )
        dependencies = AgentDependencies(
            settings=settings,
            cluster_id=cluster_id,
            zookeeper=zookeeper,
            zookeeper_events=events,
            logs=logs,
            failed_directories=failed,
            client=SimulatedClusterClient(self._world.network, incarnation.source),
            workers=SimulatedWorkers(self.random, latency_s=(0.0001, 0.003)),
            clock=self._world.clock,
            sink=incarnation,
            apis=(),
            metrics=Metrics(),
            configs=configs,
            request_stop=incarnation.stop.set,
            recorded_roles=self._recorded_roles,
            log_level=LogLevel(),
            stopwatch=asyncio.get_running_loop().time,
            random=self.random,
        )
        async with TaskSet() as tasks:
            # Beside controllers of Kafka's brokers the agents stand for such brokers, without their controllers.
            version = "" if self._world.has_kafka_brokers else "simulated"
            self.agent = Agent(Broker(self.id, (), self.rack, klamm_version=version), dependencies, tasks)
            incarnation.serve(AgentNode(self.agent, dependencies))
            await self.agent.start(incarnation.endpoints)
            await incarnation.stop.wait()
            await self.agent.leave()
            incarnation.close_ports()
            await self.agent.stop()


def _now() -> float:
    return asyncio.get_running_loop().time()
