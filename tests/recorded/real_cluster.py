"""A cluster of real processes that a scenario can be replayed on: controllers and brokers under one ZooKeeper chroot.

Controllers and brokers are children with their own process groups, ended by SIGKILL, SIGTERM and SIGSTOP, as an
operator's worst day would. Processes keep their ports when they are started again.
"""

import asyncio
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Set
from contextlib import asynccontextmanager, suppress
from typing import Any

from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.port import Delete, ZooKeeper
from deploy.local.processes import choose_free_ports
from tests.recorded.scenario import CONTROLLER_SESSION_MS, Scenario
from tests.recorded.snapshot import active_controller

CONTROLLERS = frozenset({1001, 1002})
DEADLINE_S = 90.0
TICK_S = 2.0
"""Of the recordings' ZooKeeper, which ends sessions at its ticks only; they are counted on the monotonic clock."""
PRODUCE_S = 30.0


@asynccontextmanager
async def real_cluster(scenario: Scenario, zookeeper: str, directory: pathlib.Path) -> AsyncIterator["RealCluster"]:
    """Both controllers run and one is active; `zookeeper` is `host:port/chroot`, empty. Ends what it started."""
    async with session(zookeeper) as client:
        cluster = RealCluster(scenario.settings, zookeeper, client, directory)
        async with cluster.running():
            yield cluster


@asynccontextmanager
async def session(zookeeper: str) -> AsyncIterator[ZooKeeper]:
    client = KazooZooKeeper(zookeeper, session_timeout_ms=30_000, connection_timeout_ms=30_000)
    client.listen(lambda event: None)
    await client.start_session()
    try:
        yield client
    finally:
        await client.close()


class RealCluster:
    """Implements `tests.recorded.engine.ClusterDriver`."""

    def __init__(self, settings: Mapping[str, Any], zookeeper: str, client: ZooKeeper, directory: pathlib.Path) -> None:
        self._settings, self._connect, self._client, self._directory = settings, zookeeper, client, directory
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._paused: set[int] = set()
        self._ports: dict[int, int] = {}
        self._racks: dict[int, str | None] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Within it both controllers run, and one is active at its begin. Ends all processes."""
        try:
            # One after the other, so that it is always the same one that is active first.
            for controller in sorted(CONTROLLERS):
                self.start(controller)
                await self.until_active()
                await self._until_registered(controller)
            yield
        finally:
            self.end_all()

    @property
    def zookeeper(self) -> ZooKeeper:
        return self._client

    @property
    def controllers(self) -> Set[int]:
        return CONTROLLERS

    def registration(self, controller: int) -> str:
        """The ephemeral node beside /controller that a controller has while it lives."""
        return f"/controllers/ids/{controller}"

    def start(self, node: int) -> None:
        command = self.command(node)
        with self.log(node).open("ab") as log:
            self._processes[node] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._paused.discard(node)

    def is_running(self, node: int) -> bool:
        """Whether its process has not ended, hanging or not."""
        return node in self._processes and self._processes[node].poll() is None

    def log(self, node: int) -> pathlib.Path:
        return self._directory / f"node-{node}.log"

    def command(self, node: int) -> list[str]:
        """Writes the configuration."""
        config = self._directory / f"node-{node}.toml"
        config.write_text(self._config(node))
        role = "controller" if node in CONTROLLERS else "broker"
        return [sys.executable, "-P", "-m", "klamm", role, "--config", str(config)]

    def settings_of(self, node: int) -> dict[str, Any]:
        longer = {"zookeeper.session.timeout.ms": CONTROLLER_SESSION_MS} if node in CONTROLLERS else {}
        return {**self._settings, **longer}

    def port(self, node: int) -> int:
        """Where it serves clients: the same after each start."""
        if node not in self._ports:
            self._ports[node] = choose_free_ports(1, self._ports.values())[0]
        return self._ports[node]

    def _config(self, node: int) -> str:
        settings = self.settings_of(node)
        rack = self._racks.get(node)
        return "\n".join(
            [
                f"id = {node}",
                f'zookeeper = "{self._connect}"',
                f'listen = "127.0.0.1:{self.port(node)}"',
                f'data = "{self._data(node)}"',
                f'rack = "{"" if rack is None else rack}"',
                f"settings = '''{json.dumps(settings)}'''",
            ]
        )

    def _data(self, node: int) -> pathlib.Path:
        return self._directory / f"data-{node}"

    def _signal(self, node: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._processes[node].pid, number)

    async def _end(self, node: int, number: signal.Signals) -> None:
        self._signal(node, number)
        process = self._processes.pop(node)
        self._paused.discard(node)
        await until(lambda: _has_ended(process))

    def end_all(self) -> None:
        for node in sorted(self._processes):
            self._signal(node, signal.SIGKILL)
            self._processes.pop(node).wait()

    async def until_active(self) -> None:
        async def someone() -> bool:
            return await active_controller(self._client) is not None

        await until(someone)

    async def _until_registered(self, controller: int) -> None:
        await until(lambda: self._client.exists(self.registration(controller)))

    async def restart_exited(self) -> None:
        for node in sorted(self._processes):
            if node not in CONTROLLERS and not self.is_running(node):
                self.start(node)

    async def start_brokers(self, racks: Mapping[int, str | None]) -> None:
        self._racks.update(racks)
        for broker in sorted(racks):
            self.start(broker)

    async def start_broker(self, broker: int, *, wipe: bool) -> None:
        if wipe:
            shutil.rmtree(self._data(broker))
        self.start(broker)

    async def stop_broker(self, broker: int) -> None:
        await self._end(broker, signal.SIGTERM)

    async def kill_broker(self, broker: int) -> None:
        """Kill it late in a tick of ZooKeeper's.

        A session's time counts from the last ping, which is up to a second old, and is rounded up to a tick. Brokers
        that are killed one right after the other, as all of them were heard of in the same tick, are gone together;
        otherwise it would be chance whose session is the last one.
        """
        await until(_is_late_in_a_tick)
        await self._end(broker, signal.SIGKILL)

    async def pause_broker(self, broker: int) -> None:
        self._signal(broker, signal.SIGSTOP)
        self._paused.add(broker)

    async def resume_broker(self, broker: int) -> None:
        self._signal(broker, signal.SIGCONT)
        self._paused.discard(broker)

    async def kill_controller(self) -> None:
        active = await self._active()
        await self._end(active, signal.SIGKILL)
        async with self.election():
            for path in (self.registration(active), "/controller"):
                await self._client.multi([Delete(path)])

    @asynccontextmanager
    async def election(self) -> AsyncIterator[None]:
        yield
        await self.until_active()

    async def restart_controllers(self) -> None:
        killed = sorted(CONTROLLERS - self._processes.keys())
        for controller in killed:
            self.start(controller)
        for controller in killed:
            # Else the next step might kill the only one that can be elected.
            await self._until_registered(controller)

    async def pause_controller(self, *, expire: bool) -> None:
        active = await self._active()
        self._signal(active, signal.SIGSTOP)
        self._paused.add(active)
        if not expire:
            return
        async with self.election():
            await self._client.multi([Delete("/controller")])

        async def session_is_gone() -> bool:
            return await self._client.exists(self.registration(active)) is None

        await until(session_is_gone)

    async def resume_controllers(self) -> None:
        for controller in sorted(self._paused & CONTROLLERS):
            await self.resume_broker(controller)

    async def produce(self, topic: str, partition: int, count: int, acks: str) -> int:
        running = sorted(self._processes.keys() - self._paused)
        bootstrap = ",".join(f"127.0.0.1:{self.port(node)}" for node in running)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "klamm", "produce", topic, "--bootstrap", bootstrap,
            "--partition", str(partition), "--count", str(count), "--acks", acks,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(PRODUCE_S):
                printed, complaints = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return 0
        with (self._directory / "produce.log").open("ab") as log:
            log.write(complaints)
        numbers = [int(word) for word in printed.split() if word.isdigit()]
        return numbers[-1] if numbers else 0

    async def _active(self) -> int:
        active = await active_controller(self._client)
        assert active in CONTROLLERS, f"{active} is active"
        return active


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    """Poll until `holds` returns something true. Raises TimeoutError after DEADLINE_S."""
    async with asyncio.timeout(DEADLINE_S):
        while not await holds():  # noqa: ASYNC110 (processes and ZooKeeper set no event of ours)
            await asyncio.sleep(0.02)


async def _is_late_in_a_tick() -> bool:
    return 1.1 < asyncio.get_running_loop().time() % TICK_S < 1.7


async def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None
