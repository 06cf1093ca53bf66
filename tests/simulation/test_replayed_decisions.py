"""What controllers of simulated clusters decide is what the code decides from the state that their logs show."""

import pytest

from tests.audit_corpus.replayed_logs import replay_seed, replays_of_seeds


@pytest.mark.parametrize("seed", [3, 17])
def test_the_decisions_of_a_simulated_cluster_are_those_of_the_code(seed: int) -> None:
    """Some thousand decisions, under faults."""
    done = replay_seed(seed)
    assert done.replayed.others == []
    assert done.replayed.undecided == {}
    assert done.replayed.decisions.total() > 100


@pytest.mark.deep
@pytest.mark.timeout(7200)
def test_the_decisions_of_two_hundred_simulated_clusters_are_those_of_the_code() -> None:
    """A leader that wrote its ISR itself may have been killed before its log was on disk: nothing else is missing."""
    for done in replays_of_seeds(1, 200):
        assert done.replayed.others == [], done
        assert all(what.startswith("the state before it") for what in done.replayed.undecided), done
