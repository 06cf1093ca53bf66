"""Benchmarks the controller: failover, failure and return of an agent, creation of a large topic.

A real ZooKeeper, a real controller process, and stub agents in separate processes. The clock starts at ZooKeeper's time
of the cause and stops at the last acknowledgement of an agent. After each case every agent's table is compared with
ZooKeeper; a difference fails the run.
"""

import asyncio
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace
from rich.console import Console

from benchmarks.children import ProcessFailedError
from benchmarks.embedded_zookeeper import EmbeddedZooKeeper, client_tls, connect_to, make_certificates
from benchmarks.processes import ControllerProcess, StubProcesses, failover_phases
from benchmarks.report import CaseRun, Report, Requests, describe_machine, print_table, summarise
from benchmarks.stub_agents import Received
from benchmarks.synthetic_cluster import PartitionInZooKeeper, Shape, populate, read_partitions
from cluster.model.broker import BrokerId
from cluster.tls.authority import node
from cluster.tls.settings import AUTHORITY
from cluster.znodes.paths import CONTROLLER, broker_path, topic_path
from cluster.znodes.topics import encode_topic
from cluster.zookeeper.port import Create, Delete, Stat, ZooKeeper
from deploy.local.zookeeper import ServerSettings

CONTROLLER_ID = 1001
STANDBY_ID = 1002
BROKERS = tuple(BrokerId(broker) for broker in range(1, 6))
VICTIM = BROKERS[2]
REPLICATION_FACTOR = 3
PARTITIONS_PER_TOPIC = 50
STUB_PROCESSES = 2
# With 100,000 partitions in the default heap, Java's garbage collector would be measured.
ZOOKEEPER = ServerSettings(heap_mb=2048, warms_up=True)
IDLE_S = 1.0
TIMEOUT_S = 15.0
POLL_S = 0.1
DEADLINE_S = 300.0

ROUND_TRIPS = "klamm_zookeeper_client_roundtrips_total"
REQUESTS = "klamm_zookeeper_client_requests_total"
KNOWN_PARTITIONS = "klamm_controller_standby_knownpartitions"
UNREAD_ZNODES = "klamm_controller_standby_unreadznodes"


class DifferenceError(Exception):
    """An agent received something that differs from ZooKeeper. The message has a line per difference."""


def run(partitions: int = 10_000, runs: int = 3, output_json: bool = False, *, is_secured: bool = False) -> int:
    """Measure and print; returns 0, or 1 if an agent's table differed from ZooKeeper or a process failed.

    `is_secured`: all connections to ZooKeeper have TLS, with certificates of both sides.

    Progress goes to stderr. Raises StartupError if ZooKeeper does not start.
    """
    with tempfile.TemporaryDirectory(prefix="klamm-bench-") as folder:
        try:
            report = asyncio.run(measure(partitions, runs, Path(folder), is_secured=is_secured))
        except asyncio.CancelledError:
            return 128 + signal.SIGTERM
        except (DifferenceError, ProcessFailedError, TimeoutError) as error:
            sys.stderr.write(f"the measurement failed:\n{error}\n")
            return 1
    if output_json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        print_table(report, Console())
    return 0


async def measure(partitions: int, runs: int, folder: Path, *, is_secured: bool = False) -> Report:
    """Run every case `runs` times, each round with its own chroot, controller and agents."""
    topics = max(1, partitions // PARTITIONS_PER_TOPIC)
    shape = Shape(topics, min(partitions, PARTITIONS_PER_TOPIC), REPLICATION_FACTOR, BROKERS)
    found: dict[str, list[CaseRun]] = {}
    program = asyncio.current_task()
    assert program is not None, "coroutines run in tasks"
    # Child processes are ended in `finally` blocks, which a plain SIGTERM would skip.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, program.cancel)
    certificates = folder / "certificates" if is_secured else None
    tls = None if certificates is None else make_certificates(certificates, CONTROLLER_ID)
    with EmbeddedZooKeeper(folder / "zookeeper", settings=replace(ZOOKEEPER, tls=tls)) as server:
        for number in range(1, runs + 1):
            _say(f"round {number} of {runs}")
            directory = folder / f"round-{number}"
            directory.mkdir()
            cases_of_round = await measure_round(f"{server.address}/round-{number}", shape, directory, certificates)
            for name, case_run in cases_of_round.items():
                found.setdefault(name, []).append(case_run)
    cases = tuple(summarise(name, shape.partitions, each) for name, each in found.items())
    return Report(describe_machine(), cases)


async def measure_round(
    connect: str, shape: Shape, directory: Path, certificates: Path | None = None
) -> dict[str, CaseRun]:
    """Run all cases once, on an empty chroot, in the order in which they depend on each other.

    Raises DifferenceError, TimeoutError if a case does not complete, and ProcessFailedError.
    """
    tls = None if certificates is None else client_tls(certificates)
    zookeeper = connect_to(connect, tls)
    zookeeper.listen(lambda event: None)
    # Both have the certificate of the first one: to ZooKeeper all nodes are one identity.
    settings = _zookeeper_tls(certificates)
    controller = ControllerProcess(CONTROLLER_ID, connect, directory, settings)
    standby = ControllerProcess(STANDBY_ID, connect, directory, settings)
    stubs = StubProcesses(connect, shape.brokers, STUB_PROCESSES, certificates)
    try:
        await zookeeper.start_session()
        await populate(zookeeper, shape)
        await stubs.start()
        return await Round(zookeeper, (controller, standby), stubs, shape).measure()
    finally:
        controller.kill()
        standby.kill()
        await stubs.stop()
        await zookeeper.close()


def _zookeeper_tls(certificates: Path | None) -> dict[str, Any]:
    """The settings with which the controllers connect to ZooKeeper."""
    if certificates is None:
        return {}
    return {
        "zookeeper.ssl.client.enable": True,
        "zookeeper.ssl.keystore.location": str(certificates / node("controller", CONTROLLER_ID).file),
        "zookeeper.ssl.truststore.location": str(certificates / AUTHORITY),
    }


class Round:
    """One populated cluster with its agents; the controller processes are not started yet."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        controllers: tuple[ControllerProcess, ControllerProcess],
        stubs: StubProcesses,
        shape: Shape,
    ) -> None:
        self._zookeeper, self._stubs, self._shape = zookeeper, stubs, shape
        self._controller, self._standby = controllers
        self._counted: dict[str, float] = {}

    async def measure(self) -> dict[str, CaseRun]:
        found = {"failover": await self._failover(self._start_controller)}
        standby = await self._warm_standby()
        found["failover-standby"] = await self._failover(self._kill_controller)
        found["failover-standby"] = replace(
            found["failover-standby"], phases=found["failover-standby"].phases | standby
        )
        found["failover-warm"] = await self._failover(self._resign_controller)
        moved, shrunk = await self._agent_death()
        found["agent-death-leaders-moved"] = moved
        found["agent-death-isr-shrunk"] = shrunk
        found["agent-return"] = await self._agent_return()
        found["topic-creation"] = await self._topic_creation()
        for name, case_run in found.items():
            _say(f"  {name}: {case_run.ms:,.0f} ms")
        return found

    async def _start_controller(self) -> None:
        self._controller.start()

    async def _warm_standby(self) -> dict[str, float]:
        """Start the second controller and wait until it knows every partition; how long that took and cost."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        self._standby.start()
        async with asyncio.timeout(DEADLINE_S):
            while True:
                self._standby.check_alive()
                try:
                    metrics = await self._standby.metrics()
                except OSError:
                    metrics = {}
                if metrics.get(KNOWN_PARTITIONS) == self._shape.partitions and not metrics.get(UNREAD_ZNODES):
                    break
                await asyncio.sleep(POLL_S)
        self._counted = {name: metrics.get(name, 0.0) for name in (ROUND_TRIPS, REQUESTS)}
        return {"standby warm after": (loop.time() - since) * 1000, "its CPU": self._standby.cpu_ms()}

    async def _kill_controller(self) -> None:
        """End the active controller as with SIGKILL; its session, which would last, gives `/controller` up now."""
        self._controller.kill()
        self._controller, self._standby = self._standby, self._controller
        await self._zookeeper.multi([Delete(CONTROLLER)])

    async def _resign_controller(self) -> None:
        await self._zookeeper.multi([Delete(CONTROLLER)])

    async def _failover(self, provoke: Callable[[], Awaitable[None]]) -> CaseRun:
        """Measure from the creation of /controller until every agent has acknowledged all of its partitions."""
        before = await self._zookeeper.get(CONTROLLER)
        await provoke()
        elected = await self._elected_after(0 if before is None else before.stat.czxid)

        async def everyone_received(received: Sequence[Received]) -> bool:
            received_kinds = {(r.broker, r.kind) for r in received}
            return all({(b, "LeaderAndIsr"), (b, "UpdateMetadata")} <= received_kinds for b in self._shape.brokers)

        received = await self._until_idle(everyone_received)
        phases = failover_phases(await self._controller.metrics())
        return await self._case(_last_acknowledged(received) - elected.ctime, phases, received)

    async def _elected_after(self, czxid: int) -> Stat:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                znode = await self._zookeeper.get(CONTROLLER)
                if znode is not None and znode.stat.czxid > czxid:
                    return znode.stat
                self._controller.check_alive()
                await asyncio.sleep(0.01)

    async def _agent_death(self) -> tuple[CaseRun, CaseRun]:
        """Measure until every partition that it led has another leader; until no ISR of more than one contains it."""
        before = await read_partitions(self._zookeeper)
        led = {tp for tp, p in before.items() if p.leadership is not None and p.leadership.leader == VICTIM}
        since_ms = await self._stubs.drop(VICTIM)

        async def nothing_names_it(_: Sequence[Received]) -> bool:
            return not any(_names_the_victim(p) for p in (await read_partitions(self._zookeeper)).values())

        received = await self._until_idle(nothing_names_it)
        after = await read_partitions(self._zookeeper)
        acknowledged_at_ms = await self._stubs.new_leaders_at_ms()
        moved = {
            "elections written": _last_written(after[tp] for tp in led) - since_ms,
            "new leaders acknowledged": max((acknowledged_at_ms[str(tp)] for tp in led), default=since_ms) - since_ms,
        }
        shrunk = {
            "shrinks written": _last_written(after[tp] for tp in after if after[tp] != before[tp]) - since_ms,
            "shrinks acknowledged": _last_acknowledged(received) - since_ms,
        }
        # Both figures have one cause, so both include all of its costs.
        second = await self._case(max(shrunk.values()), shrunk, received)
        return replace(second, ms=max(moved.values()), phases=moved), second

    async def _agent_return(self) -> CaseRun:
        """Measure from its registration until all brokers have its metadata and it has all of its partitions."""
        await self._stubs.register(VICTIM)
        registered = await self._zookeeper.exists(broker_path(VICTIM))
        assert registered is not None, "it just registered"

        async def it_was_received(received: Sequence[Received]) -> bool:
            return {"LeaderAndIsr", "UpdateMetadata"} <= {r.kind for r in received if r.broker == VICTIM}

        received = await self._until_idle(it_was_received)
        return await self._case(_last_acknowledged(received) - registered.ctime, {}, received)

    async def _topic_creation(self) -> CaseRun:
        """Measure one topic with as many partitions as all others together: from its znode to the last
        acknowledgement.
        """
        shape = replace(self._shape, topics=1, partitions_per_topic=self._shape.partitions, prefix="created")
        topic, assignment = shape.topic(0), shape.assignment(0)
        await self._zookeeper.multi([Create(topic_path(topic), encode_topic(assignment))])
        created = await self._zookeeper.exists(topic_path(topic))
        assert created is not None, "it was just created"

        async def every_partition_has_a_leader(_: Sequence[Received]) -> bool:
            partitions = await read_partitions(self._zookeeper)
            return all(p.leadership is not None for p in partitions.values())

        received = await self._until_idle(every_partition_has_a_leader)
        partitions = await read_partitions(self._zookeeper)
        phases = {"states written": _last_written(p for tp, p in partitions.items() if tp.topic == topic)}
        since_ms = created.ctime
        phases = {name: at_ms - since_ms for name, at_ms in phases.items()}
        return await self._case(_last_acknowledged(received) - since_ms, phases, received)

    async def _until_idle(self, done: Callable[[Sequence[Received]], Awaitable[bool]]) -> list[Received]:
        """Collect all requests since the cause, once it is `done` and every agent has what ZooKeeper holds.

        Checks only while no requests arrive, so as not to slow down the controller. Raises DifferenceError if an agent
        is still wrong after TIMEOUT_S without a request.
        """
        loop = asyncio.get_running_loop()
        received: list[Received] = []
        last_request = next_check = loop.time()
        deadline = last_request + DEADLINE_S
        is_known_everywhere = False
        while True:
            self._controller.check_alive()
            fresh = await self._stubs.received()
            received.extend(fresh)
            now = loop.time()
            if fresh:
                last_request, next_check = now, now + IDLE_S
                is_known_everywhere = False
            elif is_known_everywhere:
                return received
            elif now > next_check:
                differences = await self._stubs.differences() if await done(received) else None
                # Requests that arrived during the check have to be counted first.
                is_known_everywhere = differences == []
                if differences and now - last_request > TIMEOUT_S:
                    raise DifferenceError("\n".join(differences))
                next_check = loop.time() + IDLE_S
            if now > deadline:
                raise TimeoutError(f"not done after {DEADLINE_S:.0f} s: {_count(received)}")
            await asyncio.sleep(POLL_S)

    async def _case(self, ms: float, phases: Mapping[str, float], received: Sequence[Received]) -> CaseRun:
        metrics = await self._controller.metrics()
        counted = {name: metrics.get(name, 0.0) for name in (ROUND_TRIPS, REQUESTS)}
        more = {name: int(value - self._counted.get(name, 0.0)) for name, value in counted.items()}
        self._counted = counted
        return CaseRun(
            ms=round(ms, 1),
            phases={name: round(value, 1) for name, value in phases.items()},
            zookeeper_round_trips=more[ROUND_TRIPS],
            zookeeper_requests=more[REQUESTS],
            requests=_count(received),
            peak_rss_bytes=self._controller.peak_rss_bytes(),
        )


def _names_the_victim(partition: PartitionInZooKeeper) -> bool:
    """Whether the victim leads, or is in an ISR that it can leave: the last member stays when it dies."""
    state = partition.leadership
    return state is not None and (state.leader == VICTIM or (VICTIM in state.isr and len(state.isr) > 1))


def _last_written(partitions: Iterable[PartitionInZooKeeper]) -> float:
    """ZooKeeper's time of the last change of these states, in ms since the Unix epoch."""
    return max((p.stat.mtime for p in partitions if p.stat is not None), default=0)


def _last_acknowledged(received: Sequence[Received]) -> float:
    return max(r.acknowledged_at_ms for r in received)


def _count(received: Sequence[Received]) -> dict[str, Requests]:
    kinds = sorted({r.kind for r in received})
    return {kind: _count_kind([r for r in received if r.kind == kind]) for kind in kinds}


def _count_kind(received: Sequence[Received]) -> Requests:
    per_agent = Counter(r.broker for r in received)
    return Requests(total=len(received), most_per_agent=max(per_agent.values()), bytes=sum(r.bytes for r in received))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
