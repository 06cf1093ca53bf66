"""The versions of Spark that the audit is said to work with, the oldest and the newest."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from deploy.local.java import find_java, spark_environment
from tests.audits.state_change_histories import draw, write_logs
from tests.processes.installations import declared

ROOT = Path(__file__).resolve().parents[2]
STATED = re.compile(r"tried with pyspark (\S+) and (\S+)\.")


def stated() -> tuple[str, str]:
    """The oldest and the newest version that the document names."""
    found = STATED.search((ROOT / "docs" / "audit-on-spark.md").read_text())
    assert found is not None
    return found[1], found[2].rstrip(".")


def test_the_versions_that_are_stated_are_those_that_may_be_installed() -> None:
    """The newest is the one that the other tests run with."""
    oldest, newest = stated()
    (wanted,) = [each for each in declared("audit") if each.name == "pyspark"]
    assert f">={oldest.rpartition('.')[0]}" in str(wanted.specifier).split(",")
    assert oldest.endswith(".0")
    assert newest == version("pyspark")


@pytest.mark.deep
def test_an_audit_runs_with_the_oldest_version(tmp_path: Path) -> None:
    """In place of the installed one; pip fetches 400 MB."""
    oldest, _ = stated()
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tmp_path / "spark"), f"pyspark=={oldest}"]
    fetched = subprocess.run(command, capture_output=True, text=True, check=False)
    if fetched.returncode != 0:
        pytest.skip(f"no package index: {fetched.stderr[-200:]}")
    write_logs(draw(11, steps=60, partitions=3, unclean=False).logs, tmp_path / "logs")
    path = os.pathsep.join(map(str, (tmp_path / "spark", ROOT, ROOT / "proto")))
    environment = {**os.environ, **spark_environment(find_java(), tmp_path), "PYTHONPATH": path}
    program = "import pyspark; from audit.cli import app; print(pyspark.__version__, flush=True); app()"
    options = ["run", "--once", "--log-dir", str(tmp_path / "logs"), "--output", str(tmp_path / "output")]
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-P", "-c", program, *options],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stdout.splitlines()[0]) == (0, oldest), ran.stderr
