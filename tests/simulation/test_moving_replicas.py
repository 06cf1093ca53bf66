"""Replicas move between log directories under load, while processes crash or hang, power fails and leaderships move:
each is in one place, and nothing is lost.
"""

import pytest

from simulator.moving_replicas_simulation import MovingReplicasSimulation
from simulator.replication_simulation import TruncationMode
from tests.simulation.simulations import run_without_violation

SEEDS = (*range(4), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(4, 60)))


@pytest.mark.rule("P14", "R2.13", "R5.20", "R11.11", "R11.12", "R11.13", "P8", "P10", "P28", "P39")
@pytest.mark.parametrize("mode", ["fetch", "epoch-query"])
@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_move_whatever_fails(seed: int, mode: TruncationMode) -> None:
    simulation = run_without_violation(seed, lambda: MovingReplicasSimulation(seed, mode))
    assert len(simulation.checker.acknowledged) > 5, "the run has acknowledged next to nothing"
    assert simulation.directories.swaps > 0, "the run has moved nothing"
