"""A whole cluster in one process on virtual time, built from a seed."""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, Final, TypeVar

from cluster.aio.clock import WallClock
from cluster.config.settings import Settings
from cluster.model.broker import BrokerId, ControllerId
from simulator.network import SimulatedNetwork
from simulator.nodes import LOG_DIRECTORY, SimulatedAgent, SimulatedController, SimulatedKafkaBroker, SimulatedNode
from simulator.virtual_time_loop import START_MS, VirtualTimeLoop
from simulator.zookeeper import SimulatedZooKeeper
from state_log.record import LoggedStateChange

T = TypeVar("T")

_POLL_S: Final = 0.05
FIRST_CONTROLLER_ID: Final = 1001
DEFAULT_SETTINGS: Final = Settings(zookeeper_session_timeout_ms=6000, replica_lag_time_max_ms=4000)


class VirtualClock:
    """A WallClock that follows the loop's virtual time."""

    def now_ms(self) -> int:
        """The virtual time in ms since the Unix epoch."""
        return START_MS + round(asyncio.get_running_loop().time() * 1000)


class SimulatedCluster:
    """ZooKeeper, network, controllers and agents. Nodes are created stopped; `start_all` starts them."""

    def __init__(
        self,
        seed: int,
        *,
        controllers: int,
        brokers: int,
        kafka_brokers: int = 0,
        settings: Settings = DEFAULT_SETTINGS,
        log_directories: Sequence[str] = (LOG_DIRECTORY,),
    ) -> None:
        self._seed = seed
        self.settings = settings
        self.log_directories = log_directories
        self.clock: WallClock = VirtualClock()
        self.zookeeper = SimulatedZooKeeper(self.random_of("zookeeper"))
        self.network = SimulatedNetwork(self.random_of("network"))
        self.controllers = {
            id_: SimulatedController(self, id_)
            for id_ in (ControllerId(FIRST_CONTROLLER_ID + i) for i in range(controllers))
        }
        self.kafka_brokers = [SimulatedKafkaBroker(self, BrokerId(501 + i)) for i in range(kafka_brokers)]
        self.agents = {id_: SimulatedAgent(self, id_) for id_ in (BrokerId(1 + i) for i in range(brokers))}

    def random_of(self, name: str) -> Random:
        """Make the random generator of one part, so that another draw there does not change the rest."""
        return Random(f"{self._seed}/{name}")

    @property
    def nodes(self) -> list[SimulatedNode]:
        """The nodes: controllers, agents, then the controllers of Kafka's brokers."""
        return [*self.controllers.values(), *self.agents.values(), *self.kafka_brokers]

    @property
    def has_kafka_brokers(self) -> bool:
        return bool(self.kafka_brokers)

    def start_all(self) -> None:
        """Start every node."""
        for node in self.nodes:
            node.start()

    def awake(self) -> list[SimulatedNode]:
        """Running nodes that may be paused; one paused during its startup could fail, for example with ZooKeeper's
        timeout.
        """
        return [node for node in self.nodes if node.is_running and node.is_registered and not node.is_paused]

    def hang(self, node: SimulatedNode, seconds: float) -> None:
        """Pause a node, and resume it after `seconds` unless it has crashed or was resumed by then."""
        node.pause()
        incarnation = node.incarnations[-1]

        def go_on() -> None:
            if node.is_paused and node.incarnations[-1] is incarnation:
                node.resume()

        asyncio.get_running_loop().call_later(seconds, go_on)

    def resume_all(self) -> None:
        """Resume every paused node."""
        for node in self.nodes:
            if node.is_paused:
                node.resume()

    def active_controller(self) -> SimulatedController | None:
        """The node that believes to be the active controller; the first one of several, None if there is none."""
        return next((c for c in self.controllers.values() if c.is_active), None)

    async def until(self, condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
        """Wait until the condition holds. Raises TimeoutError naming `what` after `timeout_s` virtual seconds."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self.raise_if_a_node_died()
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise TimeoutError(f"not within {timeout_s} virtual seconds: {what}") from None

    def raise_if_a_node_died(self) -> None:
        """Raise the error of any process that ended with one."""
        for node in self.nodes:
            task = node.incarnations[-1].task if node.is_running else None
            if task is not None and task.done() and not task.cancelled():
                task.result()

    async def stop_all(self) -> None:
        """Stop every running node gracefully and wait for it."""
        running = [node.incarnations[-1] for node in self.nodes if node.is_running]
        for incarnation in running:
            incarnation.stop.set()
        await asyncio.gather(*(i.task for i in running if i.task is not None))

    def records(self) -> list[LoggedStateChange]:
        """The state-change logs of all incarnations, node by node."""
        return [record for node in self.nodes for i in node.incarnations for record in i.log.records()]

    def trace_hash(self) -> str:
        """A digest of everything the nodes recorded, with times: equal for equal runs."""
        digest = hashlib.sha256()
        for node in self.nodes:
            for incarnation in node.incarnations:
                for line in incarnation.log.lines:
                    digest.update(line)
        return digest.hexdigest()


def simulate(
    main: Callable[[], Coroutine[Any, Any, T]],
    *,
    max_steps: int = 5_000_000,
    at_end: Callable[[], None] = lambda: None,
) -> T:
    """Run a coroutine on a new virtual-time loop; `at_end` is called when it has ended, also with an error."""
    # Typeshed calls methods abstract that the base class has, raising NotImplementedError: there is no I/O here.
    loop = VirtualTimeLoop(max_steps=max_steps)  # type: ignore[abstract]
    try:
        return loop.run_until_complete(main())
    finally:
        loop.after_step = None
        at_end()
        # Only now may the tasks of crashed processes unwind: nothing is observed any more.
        loop.resume_all()
        left_over = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
        for task in left_over:
            task.cancel()
        loop.run_until_complete(_all_done(left_over))


async def _all_done(tasks: Sequence[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
