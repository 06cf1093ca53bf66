"""Topics are created, expanded and deleted while nodes crash: in the end exactly the requested ones exist."""

import pytest

from cluster.model.protocol_version import ProtocolVersion
from simulator.topic_simulation import TopicSimulation
from tests.simulation.simulations import run_without_violation


@pytest.mark.rule("TD-9", "TD-15", "TD-28", "TP-12", "TP-21", "INV-9", "INV-10")
@pytest.mark.parametrize("seed", range(6))
def test_in_the_end_there_is_what_was_asked_for_and_nothing_else(seed: int) -> None:
    run_without_violation(seed, lambda: TopicSimulation(seed))


@pytest.mark.rule("D-98", "D-99", "D-100")
@pytest.mark.parametrize("seed", range(10))
def test_brokers_that_were_away_delete_what_they_have_left_and_nothing_else(seed: int) -> None:
    version = ProtocolVersion((2, 7), 2)
    run_without_violation(seed, lambda: TopicSimulation(seed, grace_ms=(0, 1000)[seed % 2], version=version))
