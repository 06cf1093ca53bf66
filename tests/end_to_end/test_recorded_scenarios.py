"""Real controllers and brokers do what Kafka did, step by step, in ZooKeeper's own eyes."""

import pathlib

import pytest

from tests.recorded.compare import differences, load_golden
from tests.recorded.engine import replay
from tests.recorded.real_cluster import real_cluster
from tests.recorded.scenario import load
from tests.recorded.scope import IN_SCOPE

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", IN_SCOPE)
async def test_a_recorded_scenario_ends_every_step_as_it_did_in_kafka(
    name: str, zookeeper: str, tmp_path: pathlib.Path
) -> None:
    scenario = load(name)
    async with real_cluster(scenario, zookeeper, tmp_path) as cluster:
        results = await replay(scenario, cluster, print)
    found = differences(load_golden(name), results)
    assert not found, "\n".join(map(str, found))
