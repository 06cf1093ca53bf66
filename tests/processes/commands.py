"""Runs `klamm` as a process of its own, for tests of the command line on a cluster."""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Lock
from typing import Any, Final

from typer.testing import CliRunner

from deploy.local.cluster import LocalCluster
from klamm.entry import main
from launcher.__main__ import app

LAUNCHER: Final = (sys.executable, "-P", "-m", "klamm")
_FORKED: Final = frozenset(
    (
        "watch",
        "top",
        "produce",
        "consume",
        "perf",
        "verify",
        "story",
        "topics",
        "cluster",
        "brokers",
        "clients",
        "acls",
        "users",
        "reassign",
        "elect",
        "features",
        "contexts",
        "adopt",
        "leave",
        "down",
        "status",
        "doctor",
        "bundle",
        "monitoring",
        "certs",
        "health",
        "completion",
        "--help",
        "--version",
    )
)
"""Commands that run in a child of multiprocessing. Others start processes of their own, or become one."""

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.processes.loaded_commands"])
_TURNS: Final = Lock()
"""Whoever starts a process also looks which have ended: two threads that read one exit code at once get 255."""


def run_klamm(
    *arguments: str, stdin: str | None = None, folder: Path | None = None, timeout_s: float = 600
) -> subprocess.CompletedProcess[str]:
    """The command as it is typed, in `folder`; whatever comes of it, it is no traceback.

    Its process is forked from one that has imported the modules of the commands, which takes most of the time of a
    short command. Where the start itself is tested, `LAUNCHER` is run.
    """
    if not _FORKED.intersection(arguments[:1]):
        return _started(arguments, stdin, folder, timeout_s)
    (read_input, write_input), (output, write_output), (errors, write_errors) = (
        _FORKS.Pipe(duplex=False) for _ in range(3)
    )
    inside = read_input, write_output, write_errors
    process = _FORKS.Process(target=_run_here, args=(arguments, folder or Path.cwd(), dict(os.environ), inside))
    with _TURNS:
        process.start()
    for end in inside:
        end.close()
    with ThreadPoolExecutor(3) as pool:
        pool.submit(_write, write_input, (stdin or "").encode())
        shown = pool.submit(_read, output), pool.submit(_read, errors)
        late = not wait([process.sentinel], timeout_s)
        if late:
            process.kill()
            wait([process.sentinel])
        with _TURNS:
            process.join()
        stdout, stderr = (text.result().decode() for text in shown)
    command = ["klamm", *arguments]
    if late:
        raise subprocess.TimeoutExpired(command, timeout_s, stdout, stderr)
    assert process.exitcode is not None
    assert "Traceback" not in stderr
    return subprocess.CompletedProcess(command, process.exitcode, stdout, stderr)


def _started(
    arguments: Sequence[str], stdin: str | None, folder: Path | None, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run(
        [*LAUNCHER, *arguments],
        input=stdin or "",
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=timeout_s,
    )
    assert "Traceback" not in answer.stderr
    return answer


def _run_here(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], streams: Sequence[Connection]
) -> None:
    """Become the command."""
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - it is open as long as the process runs.
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["klamm", *arguments]
    main()


def _write(end: Connection, content: bytes) -> None:
    """Write the standard input, as far as the command reads it."""
    with end, open(end.fileno(), "wb", closefd=False) as stream, suppress(BrokenPipeError):
        stream.write(content)


def _read(end: Connection) -> bytes:
    with end, open(end.fileno(), "rb", closefd=False) as stream:
        return stream.read()


def klamm(
    cluster: LocalCluster | Path, *arguments: str, stdin: str | None = None, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """The command on an embedded cluster, which must end with this exit code."""
    folder = cluster if isinstance(cluster, Path) else cluster.folder
    answer = run_klamm(*arguments, "--data", str(folder), stdin=stdin)
    assert answer.returncode == code, answer.stdout + answer.stderr
    return answer


def as_json(cluster: LocalCluster, *arguments: str, codes: tuple[int, ...] = (0,)) -> Any:
    """What a command answers to a program. Runs in this process: tests poll with it, and starting one takes time."""
    answer = CliRunner().invoke(app, [*arguments, "-o", "json", "--data", str(cluster.folder)])
    assert answer.exit_code in codes, f"{arguments}: {answer.exception or answer.stderr}"
    return json.loads(answer.stdout)
