"""A few rounds of the chaos suite, as part of the deep suite. Many more: `python -m tests.chaos` (README.md here).

KLAMM_CHAOS_ROUNDS, KLAMM_CHAOS_SEED and KLAMM_CHAOS_FAULTS choose them; after KLAMM_CHAOS_SECONDS no round begins.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.chaos.__main__ import ROOT

FAULTS: Final = (
    "kill-leader-and-controller,pause-leader-long,isolate-leader,disk-full,damaged-header,bit-rot-stopped,mix"
)
SECONDS: Final = float(os.environ.get("KLAMM_CHAOS_SECONDS", "600"))
_LAST_ROUND_S: Final = 900
"""What the last round and its audit may take when everything in it has to wait until its deadline."""

pytestmark = [pytest.mark.real, pytest.mark.deep, pytest.mark.timeout(SECONDS + _LAST_ROUND_S)]


def test_a_few_rounds_of_faults_lose_nothing_and_heal(tmp_path: Path) -> None:
    faults = os.environ.get("KLAMM_CHAOS_FAULTS", FAULTS)
    command = [sys.executable, "-m", "tests.chaos", "--spark", "--output", str(tmp_path), "--faults", faults]
    command += ["--rounds", os.environ.get("KLAMM_CHAOS_ROUNDS", str(len(FAULTS.split(","))))]
    command += ["--seed", os.environ.get("KLAMM_CHAOS_SEED", "1"), "--seconds", str(SECONDS)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
