"""Real controllers and brokers write to ZooKeeper what Kafka did, step by step."""

import itertools
import pathlib
from collections.abc import Iterator

import pytest

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from tests.recorded.compare import differences, load_golden
from tests.recorded.deviations import expected_of
from tests.recorded.engine import replay
from tests.recorded.real_cluster import real_cluster
from tests.recorded.scenario import all_names, load

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(600)]

# Random scenarios run on the in-memory fakes only: real processes add nothing to them.
NAMES = [name for name in all_names() if "random" not in load(name).tags]

_chroots = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """With the tick of the recordings, which allows the sessions of 30 s that the controllers have there."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_scenario_ends_every_step_as_it_did_in_kafka(
    name: str, server: EmbeddedZooKeeper, tmp_path: pathlib.Path
) -> None:
    scenario = load(name)
    async with real_cluster(scenario, f"{server.address}/recorded-{next(_chroots)}", tmp_path) as cluster:
        results = await replay(scenario, cluster, print)
    found = differences(expected_of(load_golden(name)), results)
    assert not found, "\n".join(map(str, found))
