"""Whole clusters under random faults while clients produce, move partitions and elect leaders: no acknowledged record
is lost, and in the end all replicas hold the same.

Beyond the faults of `test_random_faults`: power that fails, answers that never arrive, networks so slow that requests
overtake each other, and segments so small that every log has many.
"""

from typing import Final

import pytest

from simulator.cluster_simulation import LoadedClusterSimulation
from tests.simulation.simulations import run_without_violation

SEEDS: Final = (*range(8), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(8, 60)))


@pytest.mark.rule("P28", "P39", "RA-16", "RA-25", "INV-8")
@pytest.mark.parametrize("seed", SEEDS)
def test_no_acknowledged_record_is_lost_and_all_replicas_end_alike(seed: int) -> None:
    run_without_violation(seed, lambda: LoadedClusterSimulation(seed))
