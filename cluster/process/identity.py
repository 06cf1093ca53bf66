"""Identifies a process of this machine, and tells whether it runs.

A pid may be reused; together with its start time it identifies a process. So `klamm down` never ends a foreign process.
"""

import subprocess
from pathlib import Path
from typing import Final

from msgspec import Struct

RUNNING: Final = "running"
PAUSED: Final = "paused"
GONE: Final = "stopped"


class ProcessIdentity(Struct, frozen=True):
    """Identifies one process. `started`: the operating system's start time, which is only compared."""

    pid: int
    started: str


def identify(pid: int) -> ProcessIdentity | None:
    """Find the process that has this pid now, or None."""
    stat = _read_stat(pid)
    return None if stat is None else ProcessIdentity(pid, stat[1])


def state_of(process: ProcessIdentity | None) -> str:
    """Find out whether it is RUNNING, PAUSED (stopped by SIGSTOP) or GONE; a zombie is gone."""
    if process is None:
        return GONE
    stat = _read_stat(process.pid)
    if stat is None or stat[1] != process.started or stat[0] in "ZX":
        return GONE
    return PAUSED if stat[0] in "Tt" else RUNNING


def _read_stat(pid: int) -> tuple[str, str] | None:
    """Read the state letter and start time of a process; None if there is none."""
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
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],  # noqa: S607 - PATH says which.
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split(maxsplit=1)
    return (listed[0][0], listed[1].strip()) if len(listed) == 2 else None
