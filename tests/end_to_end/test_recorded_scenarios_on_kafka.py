"""Real Kafka brokers under klamm's controllers write to ZooKeeper what they did under Kafka's own, step by step."""

import itertools
import pathlib
from collections.abc import Iterator

import pytest

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from deploy.local.kafka_jars import NEWEST
from tests.recorded.compare import differences, load_golden
from tests.recorded.engine import replay
from tests.recorded.kafka_cluster import KafkaVersion, kafka_cluster
from tests.recorded.scenario import all_names, load

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]

# As on klamm's own brokers: random scenarios are for the in-memory cluster.
NAMES = [name for name in all_names() if "random" not in load(name).tags]

_chroots = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_scenario_ends_every_step_as_it_did_under_kafkas_controller(
    name: str, server: EmbeddedZooKeeper, tmp_path: pathlib.Path
) -> None:
    scenario, version = load(name), KafkaVersion(NEWEST)
    chroot = f"{server.address}/recorded-{next(_chroots)}"
    async with kafka_cluster(scenario, chroot, tmp_path, version, klamm=True) as cluster:
        results = await replay(scenario, cluster, print)
    found = differences(load_golden(name), results)
    assert not found, "\n".join(map(str, found))
