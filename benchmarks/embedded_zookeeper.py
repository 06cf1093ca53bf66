"""A ZooKeeper server of one's own, for benchmarks and tests; `klamm up` starts its server as a member."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

from cluster.model.errors import StartupError
from cluster.tls.authority import client, node, write_certificates, zookeeper
from cluster.tls.live import LiveMaterial
from cluster.tls.settings import AUTHORITY, TlsSettings
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from deploy.local.zookeeper import ServerSettings, ServerTls, is_serving, log_tail, prepare

_CLIENT = "bench"
_SESSION_MS = 120_000


class EmbeddedZooKeeper:
    """A ZooKeeper server as a child process. All methods block; the server is up within about a second."""

    def __init__(self, data: Path, port: int | None = None, settings: ServerSettings | None = None) -> None:
        self._data, self._port, self._settings = data, port, settings
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, timeout_seconds: float = 60) -> Self:
        """Start and wait until requests are served; after `stop` or `kill` on the same port and data.

        Raises StartupError with the end of the server's log when it does not come up.
        """
        assert self._process is None, "already started"
        command = prepare(self._port, self._data, self._settings)
        self._port = command.port
        with (command.folder / "console.log").open("ab") as console:
            self._process = subprocess.Popen(
                command.arguments,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                # An interrupt typed at the terminal is for the parent, which then stops us in order. To a session of
                # its own Linux would give as much of the machine as to all others (sched_autogroup_enabled).
                process_group=0,
            )
        deadline = time.monotonic() + timeout_seconds
        tls = None if self._settings is None or self._settings.tls is None else self._settings.tls.probe()
        while not is_serving("127.0.0.1", command.port, tls=tls):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise StartupError(f"ZooKeeper did not start on port {command.port}: {log_tail(command.folder)}")
            time.sleep(0.02)
        return self

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        assert self._port, "not started"
        return self._port

    @property
    def pid(self) -> int:
        return self._running().pid

    def stop(self, timeout_seconds: float = 10) -> None:
        """End the server in order, by force when it takes longer than the timeout. Safe when not running."""
        if self._process is None:
            return
        self._process.terminate()
        # A paused process gets its signal only when it runs again.
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """End the server as a crash would. Safe when not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Stop the server from running while its connections stay open (SIGSTOP)."""
        server = self._running()
        server.send_signal(signal.SIGSTOP)
        # Its threads stop one by one, and one that still runs would answer what comes after this call.
        os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not running"
        return self._process


def make_certificates(folder: Path, controller: int) -> ServerTls:
    """Write certificates of a server, of a controller and of `client_tls`; returns what the server is started with."""
    server = zookeeper(["127.0.0.1"])
    write_certificates(folder, [server, node("controller", controller), client(_CLIENT)], days=1)
    return ServerTls(folder / server.file, folder / AUTHORITY)


def client_tls(folder: Path) -> TlsSettings:
    """The certificate that a client of a server with such certificates shows, and what it trusts."""
    own = folder / client(_CLIENT).file
    return TlsSettings(keystore_location=str(own), truststore_location=str(folder / AUTHORITY))


def connect_to(address: str, tls: TlsSettings | None = None) -> KazooZooKeeper:
    """Make a client of a server, under TLS if it is given; its session has not begun yet."""
    material = None if tls is None else LiveMaterial(tls, "zookeeper")
    return KazooZooKeeper(address, session_timeout_ms=_SESSION_MS, connection_timeout_ms=_SESSION_MS, tls=material)
