"""Chooses the simulation of a seed; everything random in a run is derived from the seed."""

from collections.abc import Callable
from random import Random
from typing import Final

from simulator.actions import Limit
from simulator.cluster_simulation import ClusterSimulation, LoadedClusterSimulation
from simulator.replication_simulation import ReplicationSimulation
from simulator.run import Run, Simulation, run_simulation
from simulator.topic_simulation import TopicSimulation

_SIMULATIONS: Final[dict[Callable[[int], Simulation], int]] = {
    ClusterSimulation: 1,
    LoadedClusterSimulation: 4,
    lambda seed: ReplicationSimulation(seed, "fetch"): 2,
    lambda seed: ReplicationSimulation(seed, "epoch-query"): 2,
    TopicSimulation: 1,
}
"""Simulation -> its relative frequency."""


def draw_simulation(seed: int) -> Simulation:
    [make] = Random(f"simulation/{seed}").choices(list(_SIMULATIONS), list(_SIMULATIONS.values()))
    return make(seed)


def run_seed(seed: int, minutes: float) -> Run:
    """Inject requests and faults for so many virtual minutes; then the cluster must converge."""
    return run_simulation(seed, lambda: draw_simulation(seed), Limit(seconds=minutes * 60))
