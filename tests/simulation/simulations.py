"""Runs of the simulator's own simulations, for the tests that hold what they must find."""

from collections.abc import Callable
from typing import Final, TypeVar

from simulator.actions import Limit
from simulator.run import Simulation, run_simulation

S = TypeVar("S", bound=Simulation)

ACTIONS: Final = 40


def run_without_violation(seed: int, make: Callable[[], S]) -> S:
    """Run the simulation that `make` returns, which must find nothing; the simulation as it is at its end."""
    made: list[S] = []

    def remember() -> S:
        made.append(make())
        return made[0]

    run = run_simulation(seed, remember, Limit(actions=ACTIONS))
    assert not run.result.violations, run.report
    assert len(run.actions) == ACTIONS
    return made[0]
