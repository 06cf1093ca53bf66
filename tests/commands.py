"""The command line as a subprocess, for tests that use a cluster as a person does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from deploy.local.cluster import LocalCluster
from launcher.__main__ import app


def klamm(
    cluster: LocalCluster | Path, *arguments: str, stdin: str | None = None, code: int = 0
) -> subprocess.CompletedProcess[str]:
    folder = cluster if isinstance(cluster, Path) else cluster.folder
    answer = subprocess.run(
        [sys.executable, "-P", "-m", "launcher", *arguments, "--data", str(folder)],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=None if stdin is not None else subprocess.DEVNULL,
    )
    assert answer.returncode == code, answer.stderr
    assert "Traceback" not in answer.stderr
    return answer


def as_json(cluster: LocalCluster, *arguments: str) -> Any:
    """What a command answers to a program. Runs in this process: tests poll with it, and starting one takes time."""
    answer = CliRunner().invoke(app, [*arguments, "-o", "json", "--data", str(cluster.folder)])
    assert answer.exit_code == 0, f"{arguments}: {answer.exception or answer.stderr}"
    return json.loads(answer.stdout)
