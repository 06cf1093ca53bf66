"""One partition under load while processes crash or hang, power fails, links break and leaderships move: nothing is
lost.

After every callback of the event loop a checker observes all replicas (`simulator.replication_checker`).
"""

import pytest

from cluster.model.protocol_version import NEWEST
from simulator.cluster import LEADERS_WRITE_ISRS
from simulator.replication_simulation import ReplicationSimulation, TruncationMode
from tests.simulation.simulations import run_without_violation

SEEDS = (*range(4), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(4, 40)))


@pytest.mark.rule(
    *(f"P{number}" for number in (*range(1, 13), 16, 17, 19, 20, 22, 23, 24, *range(28, 33), 38, 39)),
)
@pytest.mark.parametrize("mode", ["fetch", "epoch-query"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_safety_properties_hold_whatever_fails(seed: int, mode: TruncationMode) -> None:
    simulation = run_without_violation(seed, lambda: ReplicationSimulation(seed, mode, NEWEST))
    assert len(simulation.checker.acknowledged) > 5, "the run has acknowledged next to nothing"


@pytest.mark.rule(
    *(f"P{number}" for number in (*range(4, 12), 16, 17, 18, 22, 23, 28, 38, 39, 41)), "IS-1", "R8.21", "R8.22"
)
@pytest.mark.parametrize("mode", ["fetch", "epoch-query"])
@pytest.mark.parametrize("seed", SEEDS)
def test_they_hold_where_leaders_write_isrs_themselves_which_are_announced_in_time(
    seed: int, mode: TruncationMode
) -> None:
    simulation = run_without_violation(seed, lambda: ReplicationSimulation(seed, mode, LEADERS_WRITE_ISRS))
    assert len(simulation.checker.acknowledged) > 5, "the run has acknowledged next to nothing"
    assert simulation.isr_writes.written > 2
