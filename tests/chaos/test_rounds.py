"""A few rounds of the chaos suite, as part of the deep suite. Many more: `python -m tests.chaos` (README.md here)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.__main__ import ROOT

pytestmark = [pytest.mark.real, pytest.mark.deep, pytest.mark.timeout(1800)]

FAULTS = "kill-leader-and-controller,pause-leader-long,isolate-leader,disk-full,damaged-header,mix"


def test_a_few_rounds_of_faults_lose_nothing_and_heal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.chaos", "--faults", FAULTS, "--rounds", "6", "--output", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
