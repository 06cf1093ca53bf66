"""A Docker engine for one test: one of its own if this user may run `dockerd`, else the one that answers already."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

PACKAGES: Final = ("docker.io", "docker-compose", "debootstrap", "iptables")
_COMMANDS: Final = ("dockerd", "docker", "docker-compose", "debootstrap", "iptables")
_START_TIMEOUT_S: Final = 120


class NoEngineError(Exception):
    """There is no engine, or no images for it; the message says why, and the test is skipped."""


class CommandError(Exception):
    """A command failed; the message has it, and the end of what it printed."""


class Engine:
    """A running engine. `folder`: for whatever the test needs on disk; removed at its end."""

    def __init__(self, folder: Path, host: str) -> None:
        self.folder = folder
        self.environment = {**os.environ, **({"DOCKER_HOST": host} if host else {})}

    def docker(self, *arguments: str, check: bool = True, **variables: str) -> str:
        """stdout of the command; raises CommandError."""
        return run(["docker", *arguments], check=check, env={**self.environment, **variables}).stdout.strip()

    def inspect(self, container: str) -> dict[str, Any]:
        (found,) = json.loads(self.docker("inspect", container))
        assert isinstance(found, dict)
        return found


def run(command: Sequence[str], *, check: bool = True, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command. Raises CommandError."""
    answer = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if check and answer.returncode != 0:
        raise CommandError(
            f"{' '.join(command)}: exit code {answer.returncode}\n{(answer.stdout + answer.stderr)[-4000:]}"
        )
    return answer


@contextmanager
def engine() -> Iterator[Engine]:
    """Start or find an engine. Raises NoEngineError."""
    folder = Path(tempfile.mkdtemp(prefix="klamm-docker-", dir="/var/tmp"))
    try:
        if os.geteuid() == 0:
            install()
        if os.geteuid() == 0 and shutil.which("dockerd") is not None:
            with _own_engine(folder) as own:
                yield own
        elif run(["docker", "info"], check=False).returncode == 0 if shutil.which("docker") else False:
            yield Engine(folder, "")
        else:
            raise NoEngineError("no Docker engine answers, and only root could start one")
    finally:
        # Holds gigabytes.
        shutil.rmtree(folder, ignore_errors=True)


def install() -> None:
    """Install Debian's packages where a command is missing."""
    missing = [command for command in _COMMANDS if shutil.which(command) is None]
    if not missing or shutil.which("apt-get") is None:
        return
    print(f"installing {', '.join(PACKAGES)}, because {', '.join(missing)} is missing", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-qq"], check=False, env=environment)
    run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES], check=False, env=environment)


@contextmanager
def _own_engine(folder: Path) -> Iterator[Engine]:
    """`dockerd` beside any other, with everything that it writes in `folder`."""
    socket, pid = folder / "socket", folder / "pid"
    with (folder / "dockerd.log").open("wb") as log:
        daemon = subprocess.Popen(
            [
                "dockerd",
                f"--data-root={folder / 'data'}",
                f"--exec-root={folder / 'exec'}",
                f"--host=unix://{socket}",
                f"--pidfile={pid}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        own = Engine(folder, f"unix://{socket}")
        deadline = time.monotonic() + _START_TIMEOUT_S
        while run(["docker", "info"], check=False, env=own.environment).returncode != 0:
            if daemon.poll() is not None or time.monotonic() > deadline:
                last = (folder / "dockerd.log").read_text().splitlines()[-1:]
                raise NoEngineError(f"dockerd does not start here: {' '.join(last)}")
            time.sleep(0.5)
        yield own
    finally:
        daemon.terminate()
        daemon.wait()
