"""The real controller and real agents in memory do what Kafka did, step by step, in virtual time."""

import pytest

from simulator.cluster import simulate
from tests.recorded.compare import Difference, differences, load_golden
from tests.recorded.engine import replay
from tests.recorded.in_memory_cluster import InMemoryCluster
from tests.recorded.scenario import all_names, load


async def found_differences(name: str, seed: int) -> list[Difference]:
    scenario = load(name)
    cluster = InMemoryCluster(scenario, seed)
    await cluster.start()
    return differences(load_golden(name), await replay(scenario, cluster, print))


@pytest.mark.parametrize("name", all_names())
def test_a_recorded_scenario_ends_every_step_as_it_did_in_kafka(name: str) -> None:
    found = simulate(lambda: found_differences(name, seed=1))
    assert not found, "\n".join(map(str, found))
