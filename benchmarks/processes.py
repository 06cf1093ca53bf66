"""The processes of a benchmark: one controller, and stub agents controlled through a pipe."""

import asyncio
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.children import Child, ProcessFailedError
from benchmarks.stub_agents import Command, Received
from benchmarks.stub_proposals import Proposed, add_up
from cluster.model.broker import BrokerId
from deploy.local.processes import choose_free_ports

FAILOVER_PHASES = {
    "load": "klamm_controller_failover_loadms",
    "replica machine": "klamm_controller_failover_replicamachinems",
    "partition machine": "klamm_controller_failover_partitionmachinems",
    "sent": "klamm_controller_failover_sentms",
    "first acknowledgement": "klamm_controller_failover_firstacknowledgementms",
    "last acknowledgement": "klamm_controller_failover_lastacknowledgementms",
}
_KNOWN_PARTITIONS: Final = "klamm_controller_standby_knownpartitions"
_UNREAD_ZNODES: Final = "klamm_controller_standby_unreadznodes"
_STANDBY_POLL_S: Final = 0.1
NOBODY: Final = BrokerId(-1)
# Ignores proxies in the environment: these processes are on this machine.
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ControllerProcess:
    """`klamm controller` as a child, with its metrics endpoint."""

    def __init__(
        self, controller: int, zookeeper: str, directory: Path, settings: Mapping[str, Any] | None = None
    ) -> None:
        self._config = directory / f"controller-{controller}.toml"
        self._log = directory / f"controller-{controller}.log"
        self._metrics = f"127.0.0.1:{choose_free_ports(1)[0]}"
        lines = [
            f"id = {controller}",
            f'zookeeper = "{zookeeper}"',
            'listen = "127.0.0.1:0"',
            f'metrics_listen = "{self._metrics}"',
            f'data = "{directory / f"controller-{controller}"}"',
            "[settings]",
            # Written by a timer, whatever the controller does: its requests would be counted with those of a case.
            '"klamm.state.change.log.head.interval.ms" = 3600000',
            *(
                f"{json.dumps(key)} = {json.dumps(value)}"
                for key, value in ({} if settings is None else settings).items()
            ),
        ]
        self._config.write_text("\n".join(lines))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "klamm", "controller", "--config", str(self._config)],
                stdout=log,
                stderr=log,
            )

    def check_alive(self) -> None:
        """Raise ProcessFailedError with the end of its log if the controller has ended."""
        assert self._process is not None, "not started"
        if self._process.poll() is not None:
            raise ProcessFailedError(f"the controller ended: {self._log.read_text(errors='replace')[-2000:]}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def peak_rss_bytes(self) -> int | None:
        """Peak of its resident memory; None if /proc does not have it."""
        assert self._process is not None, "not started"
        status = Path(f"/proc/{self._process.pid}/status")
        if not status.exists():
            return None
        kilobytes = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(kilobytes) * 1024

    def cpu_ms(self) -> float:
        """CPU time that the process has used, in ms; 0 if /proc does not have it."""
        assert self._process is not None, "not started"
        stat = Path(f"/proc/{self._process.pid}/stat")
        if not stat.exists():
            return 0.0
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) * 1000 / os.sysconf("SC_CLK_TCK")

    async def until_warm(self, partitions: int, timeout_s: float) -> None:
        """Wait until this standby knows so many partitions, and nothing is left to read.

        Raises ProcessFailedError if it ends, TimeoutError.
        """
        async with asyncio.timeout(timeout_s):
            while True:
                self.check_alive()
                try:
                    metrics = await self.metrics()
                except OSError:
                    # It has not opened its port yet.
                    metrics = {}
                if metrics.get(_KNOWN_PARTITIONS) == partitions and not metrics.get(_UNREAD_ZNODES):
                    return
                await asyncio.sleep(_STANDBY_POLL_S)

    async def metrics(self) -> dict[str, float]:
        """Every sample without labels, by metric name."""
        text = await asyncio.to_thread(_fetch, f"http://{self._metrics}/metrics")
        families = text_string_to_metric_families(text)
        return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}


def failover_phases(metrics: Mapping[str, float]) -> dict[str, float]:
    """Read of the last failover how long loading and both state machines took, then when everything was sent and
    acknowledged, counted from the election. In ms, by phase, in this order.
    """
    return {phase: metrics[name] for phase, name in FAILOVER_PHASES.items() if name in metrics}


class StubProcesses:
    """Stub agents, spread over several processes so that they do not share one interpreter."""

    def __init__(
        self, zookeeper: str, brokers: Sequence[BrokerId], processes: int, certificates: Path | None = None
    ) -> None:
        """`certificates`: the folder of those with which they connect to ZooKeeper; None: they do without TLS."""
        self._arguments = ["--zookeeper", zookeeper]
        self._arguments += [] if certificates is None else ["--certificates", str(certificates)]
        self._brokers, self._count = brokers, processes
        self._processes: list[Child] = []

    async def start(self) -> None:
        """Start; returns once all agents are registered."""
        for _ in range(self._count):
            self._processes.append(await Child.start("benchmarks.stub_agents", *self._arguments))
        for broker in self._brokers:
            await self.register(broker)

    async def register(self, broker: BrokerId) -> None:
        await self._host(broker).ask(Command("register", broker), type(None))

    async def drop(self, broker: BrokerId) -> float:
        """End its session; returns the time just before, in ms since the Unix epoch."""
        return await self._host(broker).ask(Command("drop", broker), float)

    async def received(self) -> list[Received]:
        """Requests that arrived since the last call."""
        return [r for p in self._processes for r in await p.ask(Command("received"), list[Received])]

    async def differences(self, without: BrokerId = NOBODY) -> list[str]:
        """The differences between any agent's table and ZooKeeper; empty if there are none. `without`: not compared."""
        command = Command("compare", without)
        return [line for p in self._processes for line in await p.ask(command, list[str])]

    async def join(self, brokers: Sequence[BrokerId]) -> None:
        """Let these brokers, and no others, join the ISRs of all partitions, as if they had caught up at once."""
        for process in self._processes:
            await process.ask(Command("join", brokers=tuple(brokers)), type(None))

    async def proposed(self) -> Proposed:
        """Take what was proposed since the last call."""
        return add_up([await process.ask(Command("proposed"), Proposed) for process in self._processes])

    async def new_leaders_at_ms(self) -> dict[str, float]:
        """Per partition, when the last agent acknowledged its current leader."""
        latest: dict[str, float] = {}
        for process in self._processes:
            for partition, at_ms in (await process.ask(Command("leaders"), dict[str, float])).items():
                latest[partition] = max(at_ms, latest.get(partition, 0.0))
        return latest

    async def stop(self) -> None:
        for process in self._processes:
            await process.stop()

    def _host(self, broker: BrokerId) -> Child:
        return self._processes[self._brokers.index(broker) % self._count]


def _fetch(url: str) -> str:
    with _DIRECTLY.open(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text
