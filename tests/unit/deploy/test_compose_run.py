"""`tests/compose/run` in a clone in which nothing has been installed yet, or no more than a cluster needs."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.processes.installations import ROOT, Environment, NoIndexError


def write_script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


def test_it_installs_first_and_then_runs(tmp_path: Path) -> None:
    run = tmp_path / "tests" / "compose" / "run"
    run.parent.mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "compose" / "run", run)
    write_script(tmp_path / "python", 'echo "$@"')
    write_script(tmp_path / "klamm", 'mkdir -p .venv/bin && cp python .venv/bin/python && echo "klamm $*"')
    answer = subprocess.run([run, "an argument"], capture_output=True, text=True, check=False, cwd="/")
    assert (answer.returncode, answer.stdout) == (0, "-P -m tests.compose an argument\n"), answer.stderr


def test_what_a_cluster_needs_is_enough(tmp_path: Path) -> None:
    try:
        environment = Environment(tmp_path / "venv", extras=["embedded"])
    except NoIndexError as reason:
        pytest.skip(f"pip cannot choose what the extra embedded needs: {reason}")
    environment.install_editable(ROOT)
    imported = environment.run("-P", "-c", "import tests.compose.__main__", folder=tmp_path)
    assert imported.returncode == 0, imported.stderr
