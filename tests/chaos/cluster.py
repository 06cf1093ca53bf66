"""The cluster of a run: ZooKeeper, three controllers and four brokers as real processes, supervised as by `klamm up`.

Each process is a host of its own where the machine allows it (`tests.chaos.network`), each log directory a file system
of its own, and each process is preloaded with the library that makes disks and clocks fail (`tests.chaos.shim`).
"""

import asyncio
import contextlib
import itertools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from cluster.process.local_cluster import BROKER, CONTROLLER, ZOOKEEPER
from cluster.tls.settings import TlsSettings
from deploy.local.processes import choose_free_ports
from deploy.local.zookeeper import ServerSettings, is_serving, prepare
from tests.chaos import shim
from tests.chaos.isolation import Capability
from tests.chaos.network import Network
from tests.chaos.security import ClusterSecurity

CONTROLLERS: Final = ("controller-1001", "controller-1002", "controller-1003")
BROKERS: Final = ("broker-1", "broker-2", "broker-3", "broker-4")
SESSION_S: Final = 6
DISK_BYTES: Final = 256 * 1024 * 1024
SETTINGS: Final[Mapping[str, Any]] = {
    "zookeeper.session.timeout.ms": SESSION_S * 1000,
    "controlled.shutdown.retry.backoff.ms": 500,
    # Shorter than by default, so that a round is: a follower that is cut off, and leaders moving back.
    "replica.lag.time.max.ms": 6000,
    "leader.imbalance.check.interval.seconds": 5,
}
_START_S: Final = 120.0
_STOP_S: Final = 30.0
_RESTART_PAUSE_S: Final = 1.0


class Shape(NamedTuple):
    """The brokers of a cluster, the log directories of each, and settings in addition to those of all clusters.

    `is_secured`: whether everything is under TLS, ZooKeeper too.
    """

    brokers: tuple[str, ...] = BROKERS
    log_dirs: int = 1
    settings: Mapping[str, Any] = {}
    is_secured: bool = False


class Exit:
    """A process that ended although nobody ended it: its name, exit code and last line."""

    def __init__(self, name: str, code: int, line: str) -> None:
        self.name, self.code, self.line = name, code, line

    def __str__(self) -> str:
        return f"{self.name} exited with {self.code}: {self.line}"


class Process:
    """One member of the cluster. `wanted`: whether it is to run, and started again when it exits by itself.

    `settings`: of its own, from its next start on until the round is over.
    """

    def __init__(self, name: str, host: str, port: int, metrics_port: int) -> None:
        self.name, self.host, self.port, self.metrics_port = name, host, port, metrics_port
        self.child: subprocess.Popen[bytes] | None = None
        self.wanted = False
        self.settings: Mapping[str, Any] = {}
        self.control: shim.Control | None = None

    @property
    def role(self) -> str:
        return self.name.partition("-")[0]

    @property
    def id(self) -> int:
        return int(self.name.partition("-")[2])

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def runs(self) -> bool:
        return self.child is not None and self.child.poll() is None

    @property
    def pid(self) -> int:
        assert self.child is not None, f"{self.name} was never started"
        return self.child.pid


class ChaosCluster:
    """The processes and their folder. Methods that wait for a process are coroutines."""

    def __init__(
        self, folder: Path, missing: Mapping[Capability, str], network: Network | None, shape: Shape = Shape()
    ) -> None:
        self.folder = folder
        self.network = network
        self.brokers, self._shape = shape.brokers, shape
        names = (ZOOKEEPER, *CONTROLLERS, *self.brokers)
        ports = itertools.cycle((19092, 19192)) if network else iter(choose_free_ports(2 * len(names)))
        self.processes = {
            name: Process(name, network.address(name) if network else "127.0.0.1", next(ports), next(ports))
            for name in names
        }
        hosts = {name: process.host for name, process in self.processes.items()}
        self.security = ClusterSecurity(folder / "certs", hosts) if shape.is_secured else None
        self.exits: list[Exit] = []
        self._restart_at: dict[str, float] = {}
        for sub in ("config", "logs", "data", "state-changes", "control"):
            (folder / sub).mkdir(parents=True, exist_ok=True)
        self.missing = missing
        self.has_disks = Capability.MOUNTS not in missing
        library = None if Capability.SHIM in missing else shim.build(folder / "control")
        self._library = library
        for process in self.processes.values():
            (folder / "state-changes" / process.name).mkdir(exist_ok=True)
            if library is not None:
                process.control = shim.Control(folder / "control" / process.name)
        for disk in self._all_disks():
            disk.mkdir(exist_ok=True)
            if self.has_disks:
                _run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", disk.name, str(disk))

    # What and where.

    @property
    def client_tls(self) -> TlsSettings | None:
        """How clients connect; None: without TLS."""
        return None if self.security is None else self.security.client

    @property
    def bootstrap(self) -> list[str]:
        return [p.address for p in self.processes.values() if p.role != ZOOKEEPER]

    @property
    def state_changes(self) -> list[Path]:
        return [self.folder / "state-changes" / p.name for p in self.processes.values() if p.role != ZOOKEEPER]

    def disk(self, name: str) -> Path:
        """The first log directory of a broker, or the data of ZooKeeper."""
        return self.folder / "data" / name

    def disks(self, broker: str) -> list[Path]:
        """All log directories of a broker. Where there are several, the preloaded library makes the last one fail."""
        first = self.disk(broker)
        return [first, *(first.with_name(f"{broker}-dir-{n}") for n in range(2, self._shape.log_dirs + 1))]

    def _all_disks(self) -> list[Path]:
        return [disk for broker in self.brokers for disk in self.disks(broker)]

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def control(self, name: str) -> Any:
        """The faults of one process, as attributes; see `shim.Control`."""
        control = self.processes[name].control
        assert control is not None, "a capability that was checked"
        return control.fields

    # Start and end.

    async def start_all(self) -> None:
        """Start what does not run, ZooKeeper first; returns when ZooKeeper serves."""
        await self.start(ZOOKEEPER)
        server = self.processes[ZOOKEEPER]
        deadline = time.monotonic() + _START_S
        tls = None if self.security is None else self.security.server.probe()
        while not await asyncio.to_thread(is_serving, server.host, server.port, tls=tls):
            assert time.monotonic() < deadline, f"ZooKeeper does not serve: {self.last_line(ZOOKEEPER)}"
            await asyncio.sleep(0.1)
        for name in (*CONTROLLERS, *self.brokers):
            await self.start(name)

    async def start(self, name: str) -> None:
        """Start one process unless it runs."""
        process = self.processes[name]
        process.wanted = True
        if process.runs:
            return
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KLAMM_")}
        if process.control is not None and self._library is not None:
            # A controller's disk is that of its state-change log, which is all that it writes.
            failing = self.folder / "state-changes" / name if process.role == CONTROLLER else self.disks(name)[-1]
            environment |= process.control.environment(self._library, failing)
        command = [*(self.network.prefix(name) if self.network else []), *self._command(process)]
        with self.log(name).open("ab") as output:
            process.child = subprocess.Popen(  # noqa: ASYNC220 - It is waited for elsewhere.
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=environment,
                start_new_session=True,
            )

    async def kill(self, name: str) -> None:
        """SIGKILL, and no restart."""
        await self._end(name, signal.SIGKILL)

    async def stop(self, name: str) -> None:
        """SIGTERM, with SIGKILL after half a minute; no restart."""
        await self._end(name, signal.SIGTERM)

    def pause(self, name: str) -> None:
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    def limit(self, name: str, kind: int, limit: int | None) -> None:
        """Lower a soft limit (`resource.RLIMIT_…`) of a running process; None: raise it to the hard one again."""
        process = self.processes[name]
        if process.runs:
            _, hard = resource.prlimit(process.pid, kind)
            resource.prlimit(process.pid, kind, (hard if limit is None else limit, hard))

    async def heal(self) -> None:
        """Everything runs and nothing fails any more."""
        if self.network is not None:
            self.network.clear()
        for name, process in self.processes.items():
            process.settings = {}
            if process.control is not None:
                process.control.clear()
            if process.runs:
                self.resume(name)
                self.limit(name, resource.RLIMIT_NOFILE, None)
                self.limit(name, resource.RLIMIT_FSIZE, None)
        for disk in self._all_disks():
            for filler in disk.glob("filler*"):
                filler.unlink()
        await self.start_all()

    async def supervise(self) -> None:
        """Start again what exits by itself, as a supervisor would. Runs until cancelled."""
        while True:
            for name, process in self.processes.items():
                if not process.wanted or process.runs or process.child is None:
                    continue
                due = self._restart_at.get(name)
                if due is None:
                    self.exits.append(Exit(name, process.child.returncode, self.last_line(name)))
                    self._restart_at[name] = time.monotonic() + _RESTART_PAUSE_S
                elif time.monotonic() >= due:
                    del self._restart_at[name]
                    await self.start(name)
            await asyncio.sleep(0.2)

    async def end(self) -> None:
        """Kill everything, and let go of the disks."""
        for name in reversed(self.processes):
            await self.kill(name)
        if self.has_disks:
            for disk in self._all_disks():
                _run("umount", "-l", str(disk))

    def keep_evidence(self, name: str) -> Path:
        """Copy logs, disks and state-change logs of a round that failed."""
        target = self.folder / "evidence" / name
        for sub in ("logs", "data", "state-changes"):
            # Processes go on while this copies.
            with contextlib.suppress(shutil.Error, OSError):
                shutil.copytree(self.folder / sub, target / sub, dirs_exist_ok=True)
        return target

    def last_line(self, name: str) -> str:
        """The last line of a process's log that is no traceback's."""
        try:
            with self.log(name).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 16384))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError:
            return "(no log)"
        return next((line for line in reversed(lines) if re.match(r"\S", line)), "(nothing logged)")

    async def _end(self, name: str, number: signal.Signals) -> None:
        process = self.processes[name]
        process.wanted = False
        if process.child is None:
            return
        self._signal(name, number)
        self._signal(name, signal.SIGCONT)
        try:
            await asyncio.to_thread(process.child.wait, _STOP_S)
        except subprocess.TimeoutExpired:
            process.child.kill()
            await asyncio.to_thread(process.child.wait)

    def _signal(self, name: str, number: signal.Signals) -> None:
        process = self.processes[name]
        if process.runs:
            process.child.send_signal(number)  # type: ignore[union-attr]

    def _command(self, process: Process) -> list[str]:
        if process.role == ZOOKEEPER:
            tls = None if self.security is None else self.security.server
            settings = ServerSettings(host=process.host, tls=tls)
            return list(prepare(process.port, self.disk(ZOOKEEPER), settings).arguments)
        configuration = self.folder / "config" / f"{process.name}.toml"
        configuration.write_text(self._configuration(process))
        return [sys.executable, "-P", "-m", "klamm", process.role, "--config", str(configuration)]

    def _configuration(self, process: Process) -> str:
        fields = {
            "id": process.id,
            "zookeeper": self.processes[ZOOKEEPER].address,
            "listen": process.address,
            "metrics_listen": f"{process.host}:{process.metrics_port}",
            "data": [
                str(disk)
                for disk in (self.disks(process.name) if process.role == BROKER else [self.disk(process.name)])
            ],
        }
        logs = str(self.folder / "state-changes" / process.name)
        security = {} if self.security is None else self.security.settings(process.name)
        common = {"klamm.state.change.log.dir": logs, **SETTINGS, **security}
        settings = {**common, **self._shape.settings, **process.settings}
        lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
        lines += ["[settings]", *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in settings.items())]
        return "\n".join(lines) + "\n"


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
