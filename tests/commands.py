"""The command line as a subprocess, for tests that use a cluster as a person does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from deploy.local.cluster import LocalCluster


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
    return json.loads(klamm(cluster, *arguments, "-o", "json").stdout)
