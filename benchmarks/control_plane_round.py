"""One cluster of `klamm bench control-plane`, from the state that a case needs to what it has cost."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from benchmarks.processes import NOBODY, ControllerProcess, StubProcesses
from benchmarks.report import CaseRun, Requests
from benchmarks.stub_agents import Received
from benchmarks.synthetic_cluster import PartitionInZooKeeper, Shape, read_partitions
from cluster.model.broker import BrokerId
from cluster.model.listeners import ListenerNames
from cluster.model.partition import TopicPartition
from cluster.requests.request import RequestFor, Response
from cluster.rpc.client import RpcClient
from cluster.znodes.paths import CONTROLLER, broker_path
from cluster.zookeeper.port import Delete, Stat, ZooKeeper
from cluster.zookeeper.registrations import active_controller

TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.1
DEADLINE_S: Final = 300.0
DEADLINE_S_PER_PARTITION: Final = 0.003
REQUEST_TIMEOUT_MS: Final = 600_000

ROUND_TRIPS: Final = "klamm_zookeeper_client_roundtrips_total"
REQUESTS: Final = "klamm_zookeeper_client_requests_total"
_NAMES: Final = ListenerNames()
_T = TypeVar("_T")

Partitions = Mapping[TopicPartition, PartitionInZooKeeper]
Done = Callable[[Sequence[Received]], Awaitable[bool]]


class DifferenceError(Exception):
    """An agent received something that differs from ZooKeeper. The message has a line per difference."""


class Round:
    """One populated cluster with its agents; the controller processes are not started yet.

    A case brings the cluster into the state that it needs (`need_…`), and then calls `begin`: what came before is not
    counted.
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        controllers: tuple[ControllerProcess, ControllerProcess],
        stubs: StubProcesses,
        shape: Shape,
        *,
        idle_s: float,
        is_compared: bool,
    ) -> None:
        """`idle_s`: after how long without a request a case is looked at, whether it is over. `is_compared`: whether
        agents are compared with ZooKeeper.
        """
        self.zookeeper, self.stubs, self.shape = zookeeper, stubs, shape
        self.controller, self._standby = controllers
        self.victim = shape.brokers[len(shape.brokers) // 2]
        self.is_started = False
        self._client = RpcClient(client_id="klamm-bench")
        self._idle_s, self._is_compared = idle_s, is_compared
        self._deadline_s = DEADLINE_S + DEADLINE_S_PER_PARTITION * shape.partitions
        self._counted: dict[str, float] = {}
        self._cpu_ms = 0.0
        self._is_victim_dead = False

    async def close(self) -> None:
        await self._client.close()

    @property
    def live(self) -> tuple[BrokerId, ...]:
        """The brokers that are registered."""
        return tuple(b for b in self.shape.brokers if b != self.victim or not self._is_victim_dead)

    # The states that cases need.

    async def need_controller(self) -> None:
        """See to it that a controller is active, and has told the agents everything."""
        if not self.is_started:
            await self.start_controller()
            await self.elected_after(0)
            await self.until_idle(self.everyone_received)

    async def need_victim(self, *, alive: bool) -> None:
        """See to it that the victim is registered, or is not and leads nothing."""
        await self.need_controller()
        if self._is_victim_dead is alive:
            await self.register_victim() if alive else await self.drop_victim()
            await self.until_idle(self.it_was_received if alive else self.nothing_names_the_victim)

    async def need_whole_isrs(self) -> None:
        """See to it that every replica is live and in its ISR."""
        await self.need_victim(alive=True)
        if not await self._are_isrs_whole(()):
            await self.stubs.join(self.live)
            await self.until_idle(self._are_isrs_whole)
            await self.stubs.join(())
            await self.stubs.proposed()

    async def _are_isrs_whole(self, _: Sequence[Received]) -> bool:
        partitions = (await self.partitions()).values()
        return all(p.leadership is not None and set(p.leadership.isr) == set(p.replicas) for p in partitions)

    # What cases do.

    async def start_controller(self) -> None:
        """Start the first controller process."""
        self.controller.start()
        self.is_started = True

    async def kill_controller(self) -> None:
        """End the active controller as with SIGKILL; its session, which would last, gives `/controller` up now."""
        self.controller.kill()
        self.controller, self._standby = self._standby, self.controller
        await self.zookeeper.multi([Delete(CONTROLLER)])

    async def resign_controller(self) -> None:
        """Delete `/controller`; the same process is elected again."""
        await self.zookeeper.multi([Delete(CONTROLLER)])

    async def warm_standby(self) -> dict[str, float]:
        """Start the second controller and wait until it knows every partition; how long that took and cost."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        standby = self._standby
        standby.start()
        await standby.until_warm(self.shape.partitions, self._deadline_s)
        await self.begin(standby)
        return {"standby warm after": (loop.time() - since) * 1000, "its CPU": standby.cpu_ms()}

    async def drop_victim(self) -> float:
        """End the victim's session; returns the time just before, in ms since the Unix epoch."""
        self._is_victim_dead = True
        return await self.stubs.drop(self.victim)

    async def register_victim(self) -> Stat:
        """Register the victim again, under another broker epoch."""
        await self.stubs.register(self.victim)
        self._is_victim_dead = False
        return await self.registration_of_victim()

    async def registration_of_victim(self) -> Stat:
        """The stat of the victim's registration."""
        registered = await self.zookeeper.exists(broker_path(self.victim))
        assert registered is not None, "it is registered"
        return registered

    async def ask(self, request: RequestFor[Response], *, as_broker: bool = False) -> Response:
        """Send a request to the active controller; `as_broker`: where it answers brokers."""
        _, endpoints = await active_controller(self.zookeeper)
        endpoint = (_NAMES.control_endpoint if as_broker else _NAMES.client_endpoint)(endpoints)
        assert endpoint is not None, "a controller is active"
        return await self._client.call(endpoint.address, request, REQUEST_TIMEOUT_MS)

    async def partitions(self) -> dict[TopicPartition, PartitionInZooKeeper]:
        """Read every partition of every topic."""
        return await read_partitions(self.zookeeper)

    @staticmethod
    def now_ms() -> float:
        """The time in ms since the Unix epoch."""
        return time.time() * 1000

    # When a case is over.

    async def everyone_received(self, received: Sequence[Received]) -> bool:
        """Whether every live agent has had both requests of a failover."""
        kinds = {(r.broker, r.kind) for r in received}
        return all({(b, "LeaderAndIsr"), (b, "UpdateMetadata")} <= kinds for b in self.live)

    async def it_was_received(self, received: Sequence[Received]) -> bool:
        """Whether the victim, which is back, has had its partitions and the metadata."""
        return {"LeaderAndIsr", "UpdateMetadata"} <= {r.kind for r in received if r.broker == self.victim}

    async def nothing_names_the_victim(self, _: Sequence[Received]) -> bool:
        """Whether the victim leads nothing and is in no ISR that it can leave: the last member stays when it dies."""
        states = [p.leadership for p in (await self.partitions()).values()]
        return not any(
            s is not None and (s.leader == self.victim or (self.victim in s.isr and len(s.isr) > 1)) for s in states
        )

    async def elected_after(self, czxid: int) -> Stat:
        """Wait for a `/controller` that was created after this zxid."""
        async with asyncio.timeout(self._deadline_s):
            while True:
                znode = await self.zookeeper.get(CONTROLLER)
                if znode is not None and znode.stat.czxid > czxid:
                    return znode.stat
                self.controller.check_alive()
                await asyncio.sleep(0.01)

    async def until_idle(self, done: Done, *, without: BrokerId = NOBODY) -> list[Received]:
        """Collect all requests since the cause, once it is `done` and every agent has what ZooKeeper holds.

        Checks only while no requests arrive, so as not to slow down the controller. `without`: an agent that is not
        compared. Raises DifferenceError if an agent is still wrong after TIMEOUT_S without a request.
        """
        loop = asyncio.get_running_loop()
        received: list[Received] = []
        last_request = next_check = loop.time()
        deadline = last_request + self._deadline_s
        is_known_everywhere = False
        while True:
            self.controller.check_alive()
            fresh = await self.stubs.received()
            received.extend(fresh)
            now = loop.time()
            if fresh:
                last_request, next_check = now, now + self._idle_s
                is_known_everywhere = False
            elif is_known_everywhere:
                return received
            elif now > next_check:
                differences = await self._differences(without, received) if await done(received) else None
                # Requests that arrived during the check have to be counted first.
                is_known_everywhere = differences == []
                if differences and now - last_request > TIMEOUT_S:
                    raise DifferenceError("\n".join(differences))
                next_check = loop.time() + self._idle_s
            if now > deadline:
                raise TimeoutError(f"not done after {self._deadline_s:.0f} s: {_count(received)}")
            await asyncio.sleep(POLL_S)

    async def _differences(self, without: BrokerId, received: Sequence[Received]) -> list[str] | None:
        """Compare the agents with ZooKeeper; None if that is not wanted and nothing has been received yet."""
        if self._is_compared:
            return await self.stubs.differences(without)
        return [] if received else None

    # What a case has cost.

    async def begin(self, controller: ControllerProcess | None = None) -> float:
        """Count from now on what the controller does; returns the time, in ms since the Unix epoch."""
        if controller is not None or self.is_started:
            of = self.controller if controller is None else controller
            metrics = await of.metrics()
            self._counted = {name: metrics.get(name, 0.0) for name in (ROUND_TRIPS, REQUESTS)}
            self._cpu_ms = of.cpu_ms()
        return time.time() * 1000

    async def case(
        self,
        ms: float,
        phases: Mapping[str, float],
        received: Sequence[Received],
        figures: Mapping[str, float] | None = None,
    ) -> CaseRun:
        """Make the result of a case that took so long; `figures` are what is neither a time nor counted everywhere."""
        metrics, cpu_ms = await self.controller.metrics(), self.controller.cpu_ms()
        counted = {name: int(metrics.get(name, 0.0) - self._counted.get(name, 0.0)) for name in (ROUND_TRIPS, REQUESTS)}
        return CaseRun(
            ms=round(ms, 1),
            phases={name: round(value, 1) for name, value in phases.items()},
            zookeeper_round_trips=counted[ROUND_TRIPS],
            zookeeper_requests=counted[REQUESTS],
            requests=_count(received),
            peak_rss_bytes=self.controller.peak_rss_bytes(),
            cpu_ms=round(cpu_ms - self._cpu_ms, 1),
            figures={name: round(value, 1) for name, value in (figures or {}).items()},
        )


def last_written(partitions: Iterable[PartitionInZooKeeper]) -> float:
    """ZooKeeper's time of the last change of these states, in ms since the Unix epoch."""
    return max((p.stat.mtime for p in partitions if p.stat is not None), default=0)


def last_acknowledged(received: Sequence[Received]) -> float:
    """Find when the last of these requests was acknowledged, in ms since the Unix epoch."""
    return max(r.acknowledged_at_ms for r in received)


def _count(received: Sequence[Received]) -> dict[str, Requests]:
    kinds = sorted({r.kind for r in received})
    return {kind: _count_kind([r for r in received if r.kind == kind]) for kind in kinds}


def _count_kind(received: Sequence[Received]) -> Requests:
    per_agent = Counter(r.broker for r in received)
    return Requests(total=len(received), most_per_agent=max(per_agent.values()), bytes=sum(r.bytes for r in received))


def say(text: str) -> None:
    """Tell the progress on stderr."""
    sys.stderr.write(f"{text}\n")
