"""Processes on this machine that outlive their parent: identification, signals, waiting.

A pid may be reused; together with its start time it identifies a process. So `klamm down` never ends a foreign process.
"""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from cluster.errors import StartupError

RUNNING: Final = "running"
PAUSED: Final = "paused"
GONE: Final = "stopped"

_POLL_S = 0.02
_LAST_PORT = 32_767
# Preferred range, and a lower one for systems whose ephemeral ports start lower.
_FIRST_PORTS = (20_000, 10_000)
_CHOICE_MIN = 1_000


class ProcessIdentity(Struct, frozen=True):
    """One process. `started`: the operating system's start time, only compared."""

    pid: int
    started: str


def identify(pid: int) -> ProcessIdentity | None:
    """The process that has this pid now, or None."""
    stat = _read_stat(pid)
    return None if stat is None else ProcessIdentity(pid, stat[1])


def state_of(process: ProcessIdentity | None) -> str:
    """RUNNING, PAUSED (stopped by SIGSTOP) or GONE; a zombie is gone."""
    if process is None:
        return GONE
    stat = _read_stat(process.pid)
    if stat is None or stat[1] != process.started or stat[0] in "ZX":
        return GONE
    return PAUSED if stat[0] in "Tt" else RUNNING


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
    unsuitable.
    """
    candidates = _candidates()
    excluded = set(taken)
    chosen: list[int] = []
    for port in random.sample(candidates, len(candidates)):
        if len(chosen) == count:
            break
        if port not in excluded and is_free(port):
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


def _read_stat(pid: int) -> tuple[str, str] | None:
    """State letter and start time of a process, or None when there is none."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            # The command in parentheses may hold anything; the fields after it are numbered from 3.
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        # The main thread may have ended before the others, which still hold ports and locks.
        others_live = fields[0] == "Z" and int(fields[17]) > 1
        return "R" if others_live else fields[0], fields[19]
    listed = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return (listed[0][0], listed[1].strip()) if len(listed) == 2 else None
