"""Whole clusters under random faults: whatever happened, everything is as it should be once the faults end.

Each seed is one schedule of requests, deaths, hanging processes, expired sessions, lost answers, broken connections
and cut links (`simulator.cluster_simulation`).
"""

from typing import Final

import pytest

from simulator.cluster_simulation import ClusterSimulation
from tests.simulation.simulations import run_without_violation

SEEDS: Final = (*range(12), 42, 169, 208)
"""Some of any kind, and those that once found something."""


@pytest.mark.rule("INV-1", "INV-2", "INV-3", "INV-10", "ZC-2", "EL-5", "EL-20", "EL-24", "FN-2")
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_the_cluster_comes_to_rest_as_it_should(seed: int) -> None:
    run_without_violation(seed, lambda: ClusterSimulation(seed))
