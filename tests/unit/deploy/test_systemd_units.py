"""The units of deploy/systemd: systemd's own checks, and what klamm promises in them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.model.exit_codes import ExitCode
from tests.processes.installations import ROOT

FOLDER = ROOT / "deploy" / "systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
EXPOSURE_MAX = 20
"""In tenths; a unit without any restriction has 96."""


def values(unit: str, key: str) -> list[str]:
    lines = (FOLDER / unit).read_text().replace("\\\n", "").splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(f"{key}=")]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units with a command that is on this machine; systemd refuses others."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    command = str(Path(sys.prefix) / "bin" / "klamm")
    for unit in UNITS:
        (tmp_path / unit).write_text((FOLDER / unit).read_text().replace("/opt/klamm/bin/klamm", command))
    return tmp_path


def test_there_is_a_unit_for_each_program() -> None:
    assert UNITS == ["klamm-audit.service", "klamm-broker.service", "klamm-controller.service"]


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_the_unit(installed: Path, unit: str) -> None:
    answer = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(installed / unit)], capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS)
def test_the_unit_is_restricted(installed: Path, unit: str) -> None:
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", str(installed / unit)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout


@pytest.mark.parametrize("unit", ["klamm-broker.service", "klamm-controller.service"])
def test_what_a_restart_cannot_mend_is_not_restarted(unit: str) -> None:
    assert values(unit, "Type") == ["notify"]
    assert values(unit, "RestartPreventExitStatus") == [f"{ExitCode.USAGE:d} {ExitCode.DISK:d}"]


def test_findings_of_the_audit_are_no_failure() -> None:
    assert values("klamm-audit.service", "SuccessExitStatus") == [f"{ExitCode.FINDINGS:d} {ExitCode.INCOMPLETE:d}"]


def test_the_audit_reads_the_heads_of_the_logs_from_the_zookeeper_of_its_file() -> None:
    [file] = values("klamm-audit.service", "EnvironmentFile")
    settings = dict(
        line.split("=", 1)
        for line in (FOLDER.parent / "config" / Path(file).name).read_text().splitlines()
        if not line.startswith("#")
    )
    [command] = values("klamm-audit.service", "ExecStart")
    assert "--zookeeper ${KLAMM_ZOOKEEPER}" in command
    assert list(settings) == ["KLAMM_ZOOKEEPER"]
