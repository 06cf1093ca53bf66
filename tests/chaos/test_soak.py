"""The soak of 20 minutes, as part of the deep suite; KLAMM_SOAK_MINUTES and KLAMM_SOAK_SEED choose another one."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.chaos.__main__ import ROOT

MINUTES: Final = float(os.environ.get("KLAMM_SOAK_MINUTES", "20"))
_REST_S: Final = 1800
"""What the last step, the checks and the audit may take when everything in them has to wait until its deadline."""

pytestmark = [pytest.mark.real, pytest.mark.deep, pytest.mark.timeout(MINUTES * 60 + _REST_S)]


def test_faults_and_moves_without_a_pause_lose_nothing_and_heal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.chaos.soak", "--minutes", str(MINUTES), "--output", str(tmp_path)]
    command += ["--seed", os.environ.get("KLAMM_SOAK_SEED", "1")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
