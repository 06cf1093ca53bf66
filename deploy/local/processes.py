"""Processes on this machine that outlive their parent: their start, signals, waiting, free ports."""

import fcntl
import functools
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cluster.model.errors import StartupError
from cluster.process.identity import GONE, ProcessIdentity, state_of

_POLL_S = 0.02
_LAST_PORT = 32_767
# Preferred range, and a lower one for systems whose ephemeral ports start lower.
_FIRST_PORTS = (20_000, 10_000)
_CHOICE_MIN = 1_000


def spawn(
    command: Sequence[str], *, log: Path, folder: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, so that an interrupt at the terminal does not reach it."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
        )


def send_signal(process: ProcessIdentity | None, number: signal.Signals) -> bool:
    """Signal exactly this process; False when it is gone."""
    if process is None or state_of(process) == GONE:
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def end(processes: Iterable[ProcessIdentity | None], timeout_s: float) -> None:
    """Ask processes to stop (SIGTERM), wait for all of them, and kill those that take too long."""
    asked = [p for p in processes if send_signal(p, signal.SIGTERM)]
    for process in asked:
        # A paused process takes its signal only when it runs again.
        send_signal(process, signal.SIGCONT)
    if not wait_until_gone(asked, timeout_s):
        for process in asked:
            send_signal(process, signal.SIGKILL)
        wait_until_gone(asked, timeout_s)


def wait_until_gone(processes: Sequence[ProcessIdentity | None], timeout_s: float) -> bool:
    """Whether all of them have ended within the timeout."""
    deadline = time.monotonic() + timeout_s
    while any(state_of(p) != GONE for p in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def choose_free_ports(count: int, taken: Iterable[int] = ()) -> list[int]:
    """Ports on 127.0.0.1 that are free now, below the range of ephemeral ports.

    A restarted member must find its port free, so a port that may be assigned to an outgoing connection meanwhile is
    unsuitable. Until this process ends, no other process of the user chooses the same ports: a member listens seconds
    after its ports are chosen.
    """
    candidates = _candidates()
    excluded = set(taken)
    chosen: list[int] = []
    for port in random.sample(candidates, len(candidates)):
        if len(chosen) == count:
            break
        if port not in excluded and _reserve(port) and is_free(port):
            chosen.append(port)
    if len(chosen) < count:
        raise StartupError(
            f"found only {len(chosen)} of {count} free ports from {candidates.start} to {candidates.stop - 1}"
        )
    return chosen


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _reserve(port: int) -> bool:
    """Lock the byte of this port in a file of the user; False if another process holds it."""
    reservations = _reservations()
    try:
        fcntl.lockf(reservations, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


@functools.cache
def _reservations() -> int:
    """The open file whose locked bytes are chosen ports. It stays open: closing it would release every lock."""
    path = Path(tempfile.gettempdir(), f"klamm-ports-{os.getuid()}")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def wait_until_free(port: int, timeout_s: float) -> bool:
    """Whether a port is or becomes free; a process that was just killed may hold it a little longer."""
    deadline = time.monotonic() + timeout_s
    while not is_free(port):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _candidates() -> range:
    """Ports outside the ephemeral range; if they are too few, all ports."""
    stop = min(_first_ephemeral_port(), _LAST_PORT + 1)
    below = (range(first, stop) for first in _FIRST_PORTS)
    return next((ports for ports in below if len(ports) >= _CHOICE_MIN), range(_FIRST_PORTS[0], _LAST_PORT + 1))


def _first_ephemeral_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _LAST_PORT + 1
