"""The lowest versions that klamm takes are those of a checked-in list; the deep suite installs them."""

import subprocess
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.processes.installations import ROOT, declared

LIST = ROOT / "deploy" / "minimum-versions.txt"
EXTRAS = ("embedded", "audit", "audit-delta", "audit-kafka", "kerberos")
PINNED_BY_OTHERS = {"pydantic-core", "py4j"}
PROGRAM = """
import asyncio, sys
import admin.connecting.client, broker_agent.program, cluster.kafka_wire.codec, controller.program
from cluster.tls.authority import node, write_certificates
from pathlib import Path
write_certificates(Path(sys.argv[1]), [node("broker", 1)], 1)
from launcher.__main__ import app
from typer.testing import CliRunner
answer = CliRunner().invoke(app, ["simulate", "--seeds", "1..2"])
assert answer.exit_code == 0, answer.output
"""


def lowest() -> dict[str, Requirement]:
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return {canonicalize_name(found.name): found for found in map(Requirement, lines)}


def test_the_list_has_the_lower_bound_of_every_requirement() -> None:
    bounds: dict[str, str] = {}
    for wanted in declared(*EXTRAS):
        low = [one.version for one in wanted.specifier if one.operator == ">="]
        if canonicalize_name(wanted.name) not in PINNED_BY_OTHERS:
            assert len(low) == 1, f"{wanted} has no lower bound"
            bounds[canonicalize_name(wanted.name)] = low[0]
    listed = {name: next(iter(found.specifier)).version for name, found in lowest().items()}
    assert listed == bounds


@pytest.mark.parametrize(("name", "least"), [("cryptography", "44.0.1"), ("grpcio", "1.85.1"), ("pyyaml", "6")])
def test_no_bound_falls_below_what_an_advisory_asks_for(name: str, least: str) -> None:
    assert Version(next(iter(lowest()[name].specifier)).version) >= Version(least)


@pytest.mark.deep
def test_klamm_runs_with_the_lowest_versions(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    wanted = [f"{one.name}{one.specifier}" for one in declared()]
    installed = subprocess.run(
        [python, "-m", "pip", "install", "-q", "-c", str(LIST), *wanted], capture_output=True, text=True, check=False
    )
    if "No matching distribution" in installed.stderr and "Could not find a version" in installed.stderr:
        pytest.skip(f"the lowest versions cannot be had: {installed.stderr[-300:]}")
    assert installed.returncode == 0, installed.stderr
    paths = {"PYTHONPATH": f"{ROOT}:{ROOT / 'proto'}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    ran = subprocess.run(
        [python, "-c", PROGRAM, str(tmp_path / "certs")], env=paths, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
