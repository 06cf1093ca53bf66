"""Topics are created, expanded and deleted while nodes crash: in the end exactly the requested ones exist."""

import pytest

from simulator.topic_simulation import TopicSimulation
from tests.simulation.simulations import run_without_violation


@pytest.mark.rule("TD-9", "TD-15", "TD-28", "TP-12", "TP-21", "INV-9", "INV-10")
@pytest.mark.parametrize("seed", range(6))
def test_in_the_end_there_is_what_was_asked_for_and_nothing_else(seed: int) -> None:
    run_without_violation(seed, lambda: TopicSimulation(seed))
