"""Disks fill, fail and return under load, while processes crash or hang, power fails and leaderships move: nothing is
lost, and everything recovers without a restart.
"""

import pytest

from simulator.full_disks_simulation import FullDisksSimulation
from simulator.replication_simulation import TruncationMode
from tests.simulation.simulations import run_without_violation

SEEDS = (*range(2), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(2, 60)))


@pytest.mark.rule("FD-9", "FD-10", "FD-11", "R11.3", "P8", "P10", "P14", "P25", "P28", "P39")
@pytest.mark.parametrize("mode", ["fetch", "epoch-query"])
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_whatever_disk_is_full_or_sick(seed: int, mode: TruncationMode) -> None:
    simulation = run_without_violation(seed, lambda: FullDisksSimulation(seed, mode))
    assert len(simulation.checker.acknowledged) > 5, "the run has acknowledged next to nothing"
    assert simulation.fills > 0, "the run has filled nothing"
