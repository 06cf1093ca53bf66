"""`/controller` and `/controller_epoch` written by hand again and again, while nodes crash and messages are lost: in
the end one controller is active, every agent obeys it, and no two were active under one epoch.
"""

from typing import Final

import pytest

from tests.simulation.hand_writes import HandWritesSimulation
from tests.simulation.simulations import run_without_violation

SEEDS: Final = (*range(8), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(8, 200)))


@pytest.mark.rule("D-92", "D-93", "D-94", "INV-1", "INV-5")
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_written_by_hand_in_between_the_cluster_converges(seed: int) -> None:
    run_without_violation(seed, lambda: HandWritesSimulation(seed))
