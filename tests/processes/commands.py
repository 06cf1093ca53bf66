"""Runs `klamm` as a subprocess, for tests of the command line on a cluster."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from deploy.local.cluster import LocalCluster
from launcher.__main__ import app

LAUNCHER: Final = (sys.executable, "-P", "-m", "klamm")


def run_klamm(
    *arguments: str, stdin: str | None = None, folder: Path | None = None, timeout_s: float = 600
) -> subprocess.CompletedProcess[str]:
    """The command as it is typed, in `folder`; whatever comes of it, it is no traceback."""
    answer = subprocess.run(
        [*LAUNCHER, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=timeout_s,
        stdin=None if stdin is not None else subprocess.DEVNULL,
    )
    assert "Traceback" not in answer.stderr
    return answer


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
