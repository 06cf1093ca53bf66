"""klamm among the controllers of Apache Kafka's brokers, under random faults: whoever wins, loses or is late, no
controller epoch is used twice, nobody writes under an old one, and in the end klamm governs a cluster that is whole.
"""

from typing import Final

import pytest

from tests.simulation.simulations import run_without_violation
from tests.simulation.takeovers import TakeoverSimulation

SEEDS: Final = (*range(16), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(16, 200)))


@pytest.mark.rule("TO-1", "TO-2", "TO-3", "TO-5", "INV-1", "INV-5")
@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_holds_the_controller_znode_in_between_nothing_is_lost(seed: int) -> None:
    run_without_violation(seed, lambda: TakeoverSimulation(seed))
