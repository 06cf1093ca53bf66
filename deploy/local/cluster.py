"""A whole cluster on this machine: ZooKeeper, controllers and agents as separate processes.

All its files are in one directory (`cluster_folder`). Ports are chosen once and kept, so a restarted cluster has the
same addresses. Used by `klamm up`, the demo and the end-to-end tests.
"""

import contextlib
import itertools
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cluster.model.errors import StartupError
from cluster.model.exit_codes import ExitCode
from cluster.process import identity
from cluster.process.identity import GONE, RUNNING
from cluster.process.local_cluster import (
    BROKER,
    CERTIFICATES,
    CLIENT,
    CONTROLLER,
    STATE_VERSION,
    USER,
    ZOOKEEPER,
    LocalClusterState,
    Member,
    client_tls_of,
)
from cluster.tls.authority import CLIENT_SUFFIX
from cluster.tls.contexts import client_context
from cluster.tls.settings import TlsSettings
from deploy.local import ports, processes
from deploy.local.cluster_folder import ClusterFolder
from deploy.local.kafka_settings import WITHOUT_PEM
from deploy.local.ports import Ports
from deploy.local.zookeeper import is_serving

FIRST_CONTROLLER_ID: Final = 1001
STOP_TIMEOUT_S: Final = 30.0
_PORT_TIMEOUT_S = 3.0
_RESTART_PAUSE_S = 1.0
_STOPPED_JVM = 128 + signal.SIGTERM
# Restarts for more than a session timeout in total: an old registration has expired by then.
_MAX_RESTARTS = 12


class LocalCluster:
    """One cluster and its directory. Methods block; those that change members hold the directory's lock."""

    def __init__(self, folder: Path, state: LocalClusterState) -> None:
        self.folder = folder.resolve()
        self.state = state
        self._files = ClusterFolder(self.folder)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._restart_at: dict[str, float] = {}
        self._restarts: dict[str, int] = {}

    @classmethod
    def open(cls, folder: Path) -> "LocalCluster":
        """The cluster of a directory. Raises StartupError if there is none."""
        return cls(folder, ClusterFolder(folder).read())

    @classmethod
    def runs_zookeeper(cls, folder: Path, zookeeper: str | None) -> bool:
        """Whether the cluster of a directory, or the one that would be created there, has a ZooKeeper of its own."""
        if ClusterFolder(folder).has_cluster:
            return bool(cls.open(folder).members(ZOOKEEPER))
        return zookeeper is None

    @classmethod
    def create_or_open(
        cls,
        folder: Path,
        *,
        controllers: int | None = None,
        brokers: int | None = None,
        zookeeper: str | None = None,
        settings: Mapping[str, Any] | None = None,
        owns_nodes: bool = False,
        racks: Sequence[str] = (),
        first_port: int = 0,
        kafka: str | None = None,
        log_dirs: int | None = None,
        is_secured: bool = False,
    ) -> "LocalCluster":
        """A directory's cluster, created or extended to these counts (None: unchanged; 3 of each in a new one).

        `zookeeper`: an already running server. `settings` (Kafka keys) are kept for all members. `owns_nodes`: znodes
        created from now on get ACLs of this cluster. `racks`: brokers are spread over them, in order, from their next
        start. `first_port`: see `deploy.local.ports`; 0: as before, or free ones. `kafka`: the version of Apache Kafka
        whose brokers a new cluster gets; None: klamm's own. `log_dirs`: of each broker, from its next start; None:
        unchanged, 1 in a new cluster. `is_secured`: a new cluster has TLS at every port. Raises
        StartupError for counts that would drop members or directories, for a
        different ZooKeeper, other ports and another kind of brokers.
        """
        for count, what in ((controllers, "controllers"), (brokers, "brokers")):
            if count is not None and not 1 <= count <= ports.MAX_MEMBERS:
                raise StartupError(f"--{what} {count}: must be 1 to {ports.MAX_MEMBERS}")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StartupError(f"{folder}: cannot be made or used: {error.strerror}") from error
        if ClusterFolder(folder).has_cluster:
            cluster = cls.open(folder)
            _require_same(cluster.state, folder, zookeeper, kafka, first_port=first_port, is_secured=is_secured)
        else:
            if is_secured and zookeeper is not None:
                raise StartupError("--secure is for a ZooKeeper that 'klamm up' starts")
            if is_secured and kafka in WITHOUT_PEM:
                raise StartupError(f"--secure: Kafka {kafka} reads no certificates in PEM form: take a newer one")
            owns = owns_nodes or is_secured
            cluster = cls(folder, _new_state(zookeeper, owns, first_port, kafka or "", is_secured=is_secured))
            if is_secured:
                cluster._files.make_certificates()
                cluster._files.make_owner_file()
                if cluster.state.kafka:
                    cluster._files.make_user_file()
        cluster._grow(CONTROLLER, controllers)
        cluster._grow(BROKER, brokers)
        for member, rack in zip(cluster.members(BROKER), itertools.cycle(racks or ("",)), strict=False):
            member.rack = rack if racks else member.rack
        cluster._add_log_dirs(log_dirs)
        cluster.state.settings |= (settings_of_owner(folder) if owns_nodes else {}) | dict(settings or {})
        cluster._save()
        return cluster

    def _add_log_dirs(self, wanted: int | None) -> None:
        present = self.state.log_dirs
        if wanted is not None and wanted < present:
            raise StartupError(
                f"the brokers of the cluster in {self.folder} have {present} log directories each: {wanted} would"
                " abandon what is in the others"
            )
        if wanted is not None and wanted > 1 and self.state.kafka:
            raise StartupError("--log-dirs is for klamm's own brokers, not for Kafka's")
        self.state.log_dirs = present if wanted is None else wanted

    def log_dirs(self, member: Member) -> list[Path]:
        """The log directories of a broker."""
        return self._files.log_dirs(member, self.state)

    def member(self, name: str) -> Member:
        """A member by its name, e.g. `broker-1`, `controller-1001`, `zookeeper`."""
        return next(m for m in self.state.members if m.name == name)

    def members(self, role: str) -> list[Member]:
        return [m for m in self.state.members if m.role == role]

    @property
    def bootstrap(self) -> list[str]:
        """Addresses of all controllers and agents, running or not."""
        return [m.address for m in self.state.nodes]

    @property
    def client_tls(self) -> TlsSettings | None:
        """The TLS with which clients call it, and its ZooKeeper is asked; None: without it."""
        return client_tls_of(self.folder, self.state)

    @property
    def client_properties(self) -> Path | None:
        """The file for `--command-config` of a secured cluster."""
        return self.folder / CERTIFICATES / f"{CLIENT}{CLIENT_SUFFIX}" if self.state.is_secured else None

    @property
    def user_properties(self) -> Path | None:
        """The file of a user with a password, for Kafka's clients and tools; None where brokers are klamm's."""
        return self._files.client_file(USER) if self.state.kafka else None

    @property
    def state_change_logs(self) -> list[Path]:
        return [self._files.state_changes(m.name) for m in self.state.members if m.role != ZOOKEEPER]

    def log_tail(self, name: str, lines: int = 5) -> str:
        """The end of a member's log."""
        return self._files.log_tail(name, lines)

    def listens(self, name: str) -> bool:
        """Whether a member runs, with all its ports open."""
        return self.state_of(name) == RUNNING and not any(map(processes.is_free, self.member(name).ports))

    def state_of(self, name: str) -> str:
        """The state of a process: `running`, `paused` or `stopped`."""
        child = self._children.get(name)
        if child is not None:
            child.poll()
        return identity.state_of(self.member(name).process)

    def start_all(self, timeout_s: float = 60.0) -> None:
        """Start what is not running: ZooKeeper first, and once it serves requests, the rest."""
        with self._locked():
            for member in self.members(ZOOKEEPER):
                self._start(member)
            self._wait_for_zookeeper(timeout_s)
            self._secure_zookeeper(timeout_s)
            for member in (*self.state.nodes, *self.state.kafka_brokers):
                self._start(member)

    def start(self, name: str) -> None:
        """Start one member unless it is running. Agents may exit while an old registration exists: see
        `restart_exited`.
        """
        with self._locked():
            self._start(self.member(name))

    def stop(self, name: str) -> None:
        """Stop one member gracefully (SIGTERM), with SIGKILL after half a minute."""
        processes.end([self.member(name).process], STOP_TIMEOUT_S)
        self.state_of(name)

    def stop_all(self) -> None:
        """Stop agents, then controllers, then ZooKeeper, so that each can deregister."""
        supervisor = self.state.supervisor
        if supervisor is not None and supervisor.pid != os.getpid():
            # The supervisor stops the members itself, and needs the lock for that.
            processes.end([supervisor], STOP_TIMEOUT_S * 2)
        with self._locked():
            for role in (BROKER, CONTROLLER, ZOOKEEPER):
                processes.end([m.process for m in self.members(role)], STOP_TIMEOUT_S)
            for member in self.state.members:
                self.state_of(member.name)
                member.process = None
            self.state.supervisor = None
            self._save()

    def kill(self, name: str) -> None:
        """End one member as in a crash (SIGKILL)."""
        member = self.member(name)
        processes.send_signal(member.process, signal.SIGKILL)
        processes.wait_until_gone([member.process], STOP_TIMEOUT_S)
        self.state_of(name)

    def pause(self, name: str) -> None:
        """Pause one member with its connections open (SIGSTOP)."""
        processes.send_signal(self.member(name).process, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        processes.send_signal(self.member(name).process, signal.SIGCONT)

    def restart_exited(self) -> list[str]:
        """Restart members that exited by themselves; call it periodically. Returns the names of those started.

        An agent that finds its predecessor's registration exits and must be restarted until that has expired, as by a
        supervisor. A killed member is not restarted; see `given_up` for the others.
        """
        started = []
        given_up = self.given_up()
        for name in self._gave_up_by_themselves():
            if name in given_up:
                continue
            due = self._restart_at.setdefault(name, time.monotonic() + _RESTART_PAUSE_S)
            if time.monotonic() >= due:
                del self._restart_at[name]
                self._restarts[name] = self._restarts.get(name, 0) + 1
                self.start(name)
                started.append(name)
        return started

    def given_up(self) -> list[str]:
        """Members that exited by themselves and that a restart would not help."""
        return [
            name
            for name in self._gave_up_by_themselves()
            if self._children[name].returncode == ExitCode.USAGE or self._restarts.get(name, 0) >= _MAX_RESTARTS
        ]

    def failures(self) -> list[str]:
        """Members that exited by themselves, each with the last line of its log."""
        return [
            f"{name} exited with code {self._children[name].returncode}: {self._files.reason(name)}"
            for name in self._gave_up_by_themselves()
        ]

    def _gave_up_by_themselves(self) -> list[str]:
        exited = {name: child.poll() for name, child in sorted(self._children.items())}
        # A JVM that is asked to stop ends with a code of its own.
        return [name for name, code in exited.items() if code is not None and code > 0 and code != _STOPPED_JVM]

    def claim_supervision(self) -> None:
        """Record this process as the supervisor, so that `stop_all` in another process ends it, too."""
        self.state.supervisor = identity.identify(os.getpid())
        self._save()

    def _start(self, member: Member) -> None:
        if self.state_of(member.name) != GONE:
            return
        for port in member.ports:
            if not processes.wait_until_free(port, _PORT_TIMEOUT_S):
                raise StartupError(
                    f"port {port} of {member.name} is in use by another program; free it, or use another --data folder"
                )
        child = processes.spawn(
            self._command(member), log=self._files.log(member.name), folder=self.folder, environment=_environment()
        )
        self._children[member.name] = child
        member.process = identity.identify(child.pid)
        self._save()

    def _command(self, member: Member) -> list[str]:
        if member in self.state.kafka_brokers:
            return self._files.make_kafka_ready(member, self.state)
        return [sys.executable, "-P", "-m", "klamm", *self._files.make_ready(member, self.state)]

    def _secure_zookeeper(self, timeout_s: float) -> None:
        if self.state.is_secured:
            from deploy.local.zookeeper_root import add_user, secure_roots  # noqa: PLC0415 - kazoo loads slowly.

            node = self._files.node_tls(self.members(CONTROLLER)[0])
            for member in self.members(ZOOKEEPER):
                secure_roots(member.address, node, timeout_s)
            if self.user_properties is not None:
                add_user(self.state.zookeeper, node, self.user_properties, timeout_s)

    def _wait_for_zookeeper(self, timeout_s: float) -> None:
        for member in self.members(ZOOKEEPER):
            deadline = time.monotonic() + timeout_s
            tls = self.client_tls
            context = None if tls is None else client_context(tls)
            while not is_serving(member.host, member.port, tls=context):
                if self.state_of(member.name) == GONE or time.monotonic() > deadline:
                    log = self._files.log(member.name)
                    raise StartupError(f"ZooKeeper did not start: {self._files.reason(member.name)}; its log is {log}")
                time.sleep(0.05)

    def _grow(self, role: str, count: int | None) -> None:
        present = self.members(role)
        wanted = count if count is not None else (len(present) if present else 3)
        if wanted < len(present):
            raise StartupError(
                f"the cluster in {self.folder} has {len(present)} {role}s: {wanted} would abandon the others' data"
            )
        numbers = range(len(present) + 1, wanted + 1)
        first = FIRST_CONTROLLER_ID if role == CONTROLLER else 1
        taken = [port for member in self.state.members for port in member.ports]
        chosen = ports.ports_of_members(self.state.first_port, role, numbers, taken)
        for number, ports_of_it in zip(numbers, chosen, strict=True):
            self.state.members.append(_member(role, first + number - 1, ports_of_it, self.state))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the directory's lock, and load what other commands wrote."""
        with self._files.locked():
            self.state = self._files.read()
            yield

    def _save(self) -> None:
        self._files.write(self.state)


def _require_same(
    state: LocalClusterState,
    folder: Path,
    zookeeper: str | None,
    kafka: str | None,
    *,
    first_port: int,
    is_secured: bool,
) -> None:
    """Raise StartupError if the cluster of a folder is of another kind than the one that is asked for."""
    if zookeeper is not None and state.zookeeper != zookeeper:
        raise StartupError(
            f"the cluster in {folder} lives in ZooKeeper {state.zookeeper}, not {zookeeper}:"
            " a cluster there needs a folder of its own"
        )
    if kafka not in {None, state.kafka}:
        brokers_there = f"of Kafka {state.kafka}" if state.kafka else "klamm's own"
        raise StartupError(
            f"the brokers of the cluster in {folder} are {brokers_there}, not of Kafka {kafka}: a cluster of"
            " these needs a folder of its own"
        )
    if is_secured and not state.is_secured:
        raise StartupError(
            f"the cluster in {folder} was made without --secure: a secured one needs a folder of its own"
        )
    if first_port not in {0, state.first_port}:
        raise StartupError(f"the cluster in {folder} has its ports already: they stay as they are")


def _environment() -> dict[str, str]:
    """Our environment without variables that configure a node: they are not meant for these members."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KLAMM_")}


def _member(role: str, identifier: int, of_it: Ports, state: LocalClusterState) -> Member:
    sasl_port = of_it.sasl if state.kafka and state.is_secured else 0
    if state.kafka and role == BROKER:
        return Member(role, identifier, of_it.client, 0, sasl_port=sasl_port)
    kafka_port = of_it.kafka if state.kafka else 0
    return Member(
        role,
        identifier,
        of_it.client,
        of_it.metrics,
        control_port=of_it.control,
        kafka_port=kafka_port,
        sasl_port=sasl_port,
    )


def _new_state(
    zookeeper: str | None, owns_nodes: bool, first_port: int, kafka: str, *, is_secured: bool
) -> LocalClusterState:
    # On shutdown of the whole cluster the last agents cannot hand their partitions over, so their retries are short.
    settings: dict[str, Any] = {
        "zookeeper.session.timeout.ms": 6000,
        "controlled.shutdown.retry.backoff.ms": 500,
        "klamm.failover.elect.first": True,
    }
    if zookeeper is not None:
        return LocalClusterState(STATE_VERSION, zookeeper, [], settings, first_port=first_port, kafka=kafka)
    port = first_port or processes.choose_free_ports(1)[0]
    # Write permission on a znode includes deletion of its children, and the root is open to everyone.
    chroot = "/klamm" if owns_nodes else ""
    connect, server = f"127.0.0.1:{port}{chroot}", Member(ZOOKEEPER, 0, port, 0)
    return LocalClusterState(
        STATE_VERSION, connect, [server], settings, first_port=first_port, kafka=kafka, is_secured=is_secured
    )


LOGIN_FILE: Final = "zookeeper-login.jaas"
_LOGIN: Final = """\
Client {{
  org.apache.zookeeper.server.auth.DigestLoginModule required
  username="klamm"
  password="{password}";
}};
"""


def settings_of_owner(folder: Path) -> dict[str, Any]:
    """Settings with which znodes belong to the user of this directory, who is created if missing.

    So the znodes that this cluster creates belong to it. ZooKeeper's `digest` scheme needs no server configuration, so
    any server will do. Raises StartupError.
    """
    login = folder.resolve() / LOGIN_FILE
    try:
        # Readable by its owner only, from its creation on.
        with os.fdopen(os.open(login, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(_LOGIN.format(password=secrets.token_urlsafe(24)))
    except FileExistsError:
        pass
    except OSError as error:
        raise StartupError(f"{login}: cannot be written: {error.strerror}") from error
    return {
        "java.security.auth.login.config": str(login),
        "klamm.zookeeper.auth.scheme": "digest",
        "zookeeper.set.acl": True,
    }
