"""What is known in which order when packets of one direction are lost; `tests.chaos.one_way_cuts` says when."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.chaos.one_way_cuts import CUTS, DEADLINE_S, ROOT

pytestmark = [pytest.mark.real, pytest.mark.deep, pytest.mark.timeout(len(CUTS) * 2 * DEADLINE_S)]

SETTINGS: Final = ("zookeeper.session.timeout.ms=18000", "replica.lag.time.max.ms=30000")
"""Kafka's defaults: what is known before a session or that time has ended is so on a busy machine, too."""


def test_a_cut_is_named_by_health_before_the_cluster_acts_or_although_it_does_not(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.chaos.one_way_cuts", "--samples", "1", "--output", str(tmp_path / "cuts")]
    command += [word for setting in SETTINGS for word in ("--set", setting)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    samples = json.loads((tmp_path / "cuts" / "samples.json").read_text())
    assert samples.keys() == CUTS.keys()
    for name, (seen,) in samples.items():
        assert seen.keys() == set(CUTS[name].signals())
        if "acts" in seen:
            assert seen["health"] < seen["acts"], (name, seen)
            assert seen["log"] < seen["acts"], (name, seen)
