"""Benchmarks a cluster of real agents: what a user waits for, and what its processes cost while nothing happens.

Three controllers, three agents and a ZooKeeper, started as `klamm up` starts them; ten topics with three replicas, and
one more of twenty partitions to which a producer sends at a steady pace all the time. Metadata is watched by a process
of its own (`cluster_watch`).
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from admin.connecting.client import AdminClient
from benchmarks.children import Child
from benchmarks.cluster_load import LoadCommand, LoadMeasures
from benchmarks.cluster_watch import WatchCommand, Watched
from benchmarks.data_path import cpu_seconds
from cluster.model.broker import NO_LEADER, BrokerId
from cluster.model.errors import ErrorCode
from cluster.process.identity import GONE
from cluster.process.local_cluster import BROKER, CONTROLLER, ZOOKEEPER, Member
from cluster.requests.elections import PREFERRED
from cluster.requests.topics import NewTopic
from cluster.znodes.paths import CONTROLLER as CONTROLLER_ZNODE
from cluster.znodes.paths import broker_path
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from deploy.local.cluster import LocalCluster

TOPICS: Final = 10
TOPICS_PER_REQUEST: Final = 5
REPLICAS: Final = 3
LOADED: Final = "loaded"
LOADED_PARTITIONS: Final = 20
RECORDS_PER_SECOND: Final = 50
_VICTIM: Final = BrokerId(2)
_POLL_S: Final = 0.02
_DEADLINE_S: Final = 600
_SESSION_MS: Final = 30_000
_GRACE_S: Final = 0.5


class Plan(Struct, frozen=True):
    """What to measure: so many partitions, and what an idle cluster costs in this many seconds."""

    partitions: int
    idle_s: float


class Measurement(Struct, frozen=True):
    """One case of one run. `figures`: seconds by what they end with, or the cost of processes by its unit; `load`: what
    the producer waited meanwhile.
    """

    run: int
    case: str
    figures: dict[str, float]
    load: LoadMeasures | None = None


class Round:
    """One round of all cases on one cluster."""

    def __init__(self, cluster: LocalCluster, plan: Plan, say: Callable[[Measurement], None], run: int) -> None:
        self._cluster, self._plan, self._say, self._run = cluster, plan, say, run
        count = plan.partitions
        self._sizes = {f"t{i}": count // TOPICS + (i < count % TOPICS) for i in range(TOPICS)}
        self._sizes = {name: size for name, size in self._sizes.items() if size}
        self._zookeeper = KazooZooKeeper(
            cluster.state.zookeeper, session_timeout_ms=_SESSION_MS, connection_timeout_ms=_SESSION_MS
        )
        self.measured: list[Measurement] = []

    async def measure(self) -> None:
        """Measure each case. Raises TimeoutError if one does not end."""
        self._zookeeper.listen(lambda event: None)
        await self._zookeeper.start_session()
        self._watcher = await Child.start("benchmarks.cluster_watch")
        self._load: Child | None = None
        try:
            async with AdminClient(self._cluster.bootstrap) as self._admin, asyncio.timeout(_DEADLINE_S * 5):
                await self._measure_all()
        finally:
            for child in (self._watcher, self._load):
                if child is not None:
                    await child.stop()
            await self._zookeeper.close()

    async def _measure_all(self) -> None:
        await self._case("idle, empty", self._idle)
        await self._case("create", self._create)
        await self._rest()
        await self._case("idle", self._idle)
        await self._start_load()
        victim = f"{BROKER}-{_VICTIM}"
        await self._case("shutdown", lambda: self._shut_down(victim))
        await self._case("restart after shutdown", lambda: self._restart(victim))
        await self._rest()
        await self._case("preferred", self._prefer)
        await self._rest()
        await self._case("kill", lambda: self._kill(victim))
        await self._case("restart after kill", lambda: self._restart(victim))
        await self._rest()
        await self._case("controller kill", self._kill_controller)

    async def _case(self, name: str, measure: Callable[[], Awaitable[dict[str, float]]]) -> None:
        if self._load is not None:
            await self._load.ask(LoadCommand(), LoadMeasures)
        figures = {what: round(value, 3) for what, value in (await measure()).items()}
        # Records that were sent before the end of the case are acknowledged soon after it.
        await asyncio.sleep(_GRACE_S)
        load = None if self._load is None else await self._load.ask(LoadCommand(), LoadMeasures)
        self.measured.append(Measurement(self._run, name, figures, load))
        self._say(self.measured[-1])

    async def _idle(self) -> dict[str, float]:
        """CPU in per cent of a core and resident memory, of each agent, of the active controller, of ZooKeeper."""
        active = await self._active()
        roles = {
            "agent": self._cluster.members(BROKER),
            "active controller": [self._cluster.member(f"{CONTROLLER}-{active}")],
            "ZooKeeper": self._cluster.members(ZOOKEEPER),
        }
        pids = {role: [_pid(member) for member in members] for role, members in roles.items()}
        before, began = {role: sum(map(cpu_seconds, some)) for role, some in pids.items()}, time.perf_counter()
        await asyncio.sleep(self._plan.idle_s)
        took = time.perf_counter() - began
        figures = {}
        for role, some in pids.items():
            used = sum(map(cpu_seconds, some)) - before[role]
            figures[f"CPU % of each {role}" if role == "agent" else f"CPU % of {role}"] = used / took / len(some) * 100
            figures[f"MiB of {role}"] = max(map(_resident_mib, some))
        return figures

    async def _create(self) -> dict[str, float]:
        names, began = list(self._sizes), time.time()
        watching = self._watch("whole")
        requests = [names[first : first + TOPICS_PER_REQUEST] for first in range(0, len(names), TOPICS_PER_REQUEST)]

        async def create(some: list[str]) -> float:
            answer = await self._admin.create_topics([NewTopic(name, self._sizes[name], REPLICAS) for name in some])
            assert all(topic.error_code is ErrorCode.NONE for topic in answer.topics), answer
            return time.time()

        answered = max(await asyncio.gather(*map(create, requests)))
        return {"answered": answered - began, "all agents know": (await watching).last - began}

    async def _start_load(self) -> None:
        created = await self._admin.create_topics([NewTopic(LOADED, LOADED_PARTITIONS, REPLICAS)])
        assert created.topics[0].error_code is ErrorCode.NONE, created
        bootstrap = ",".join(member.address for member in self._cluster.members(BROKER))
        given = ("--bootstrap", bootstrap, "--topic", LOADED, "--per-second", str(RECORDS_PER_SECOND))
        self._load = await Child.start("benchmarks.cluster_load", *given)
        await self._load.ask(LoadCommand(), LoadMeasures)

    async def _shut_down(self, victim: str) -> dict[str, float]:
        watching, began = self._watch("others", _VICTIM), time.time()
        os.kill(_pid(self._cluster.member(victim)), signal.SIGTERM)
        gone = asyncio.create_task(self._until_ended(victim))
        return {"leaders moved": (await watching).last - began, "process gone": await gone - began}

    async def _restart(self, name: str) -> dict[str, float]:
        began = time.time()
        self._cluster.start(name)
        restarting = asyncio.create_task(self._keep_starting())
        # Metadata that it had before its end are not meant: it must have been registered since.
        await self._until(lambda: self._zookeeper.exists(broker_path(_VICTIM)))
        seen = await self._watch("whole")
        restarting.cancel()
        return {"in every ISR": seen.last - began}

    async def _keep_starting(self) -> None:
        """Start it again while its former registration makes it end."""
        while True:
            await asyncio.to_thread(self._cluster.restart_exited)
            await asyncio.sleep(_POLL_S)

    async def _prefer(self) -> dict[str, float]:
        watching, began = self._watch("preferred"), time.time()
        # As `klamm elect` does; who knows of it is watched here.
        await self._admin.elect_leaders(PREFERRED, None, awaits_leaders=False)
        answered = time.time()
        return {"answered": answered - began, "all agents know": (await watching).last - began}

    async def _kill(self, victim: str) -> dict[str, float]:
        watching, began = self._watch("others", _VICTIM), time.time()
        await asyncio.to_thread(self._cluster.kill, victim)
        detected = asyncio.create_task(self._until(lambda: self._is_gone(broker_path(_VICTIM))))
        seen = await watching
        return {
            "detected": await detected - began,
            "all moved since detection": seen.last - await detected,
            "all moved since the first": seen.last - seen.first,
        }

    async def _kill_controller(self) -> dict[str, float]:
        active, began = await self._active(), time.time()
        others = [m.address for m in self._cluster.members(CONTROLLER) if m.id != active]
        await asyncio.to_thread(self._cluster.kill, f"{CONTROLLER}-{active}")
        command = WatchCommand(do="probe", addresses=self._agents(), controllers=others, name=f"probe-{self._run}")
        probing = asyncio.create_task(self._watcher.ask(command, Watched))
        await self._until(lambda: self._is_led_by_other(active))
        znode = await self._zookeeper.get(CONTROLLER_ZNODE)
        assert znode is not None, "a controller was elected"
        elected, seen = znode.stat.ctime / 1000, await probing
        return {
            "elected": elected - began,
            "topic created since": seen.created - elected,
            "topic known since": seen.last - elected,
        }

    def _watch(self, wanted: str, without: int = NO_LEADER) -> "asyncio.Task[Watched]":
        command = WatchCommand(
            do="watch",
            addresses=self._agents(without),
            topics=self._sizes,
            wanted=wanted,  # type: ignore[arg-type]  # One of its literals.
            broker=without,
        )
        return asyncio.create_task(self._watcher.ask(command, Watched))

    def _agents(self, without: int = NO_LEADER) -> list[str]:
        return [member.address for member in self._cluster.members(BROKER) if member.id != without]

    async def _active(self) -> int:
        znode = await self._zookeeper.get(CONTROLLER_ZNODE)
        assert znode is not None, "no controller is active"
        return int(json.loads(znode.data)["brokerid"])

    async def _is_led_by_other(self, former: int) -> bool:
        znode = await self._zookeeper.get(CONTROLLER_ZNODE)
        return znode is not None and int(json.loads(znode.data)["brokerid"]) != former

    async def _is_gone(self, path: str) -> bool:
        return await self._zookeeper.exists(path) is None

    async def _until(self, holds: Callable[[], Awaitable[object]]) -> float:
        async with asyncio.timeout(_DEADLINE_S):
            while not await holds():  # noqa: ASYNC110 (another process's)
                await asyncio.sleep(_POLL_S)
        return time.time()

    async def _until_ended(self, name: str) -> float:
        async def is_ended() -> bool:
            return self._cluster.state_of(name) == GONE

        return await self._until(is_ended)

    async def _rest(self) -> None:
        """Wait until what the last case left behind is done."""
        await asyncio.sleep(3 + self._plan.partitions / 2000)


def _pid(member: Member) -> int:
    assert member.process is not None, f"{member.name} was never started"
    return member.process.pid


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:"))) / 1024


async def measure(cluster: LocalCluster, plan: Plan, run: int, say: Callable[[Measurement], None]) -> list[Measurement]:
    """Measure all cases once, on a cluster that serves and has no topics."""
    measuring = Round(cluster, plan, say, run)
    await measuring.measure()
    return measuring.measured
