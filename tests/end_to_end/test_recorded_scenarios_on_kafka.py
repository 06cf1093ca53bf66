"""Real Kafka brokers under klamm's controllers write to ZooKeeper what they did under Kafka's own, step by step."""

import itertools
import pathlib
from collections.abc import Iterator

import pytest

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from deploy.local.kafka_jars import NEWEST
from tests.recorded.compare import as_golden, differences, load_golden
from tests.recorded.deviations import expected_of
from tests.recorded.engine import StepResult, replay
from tests.recorded.kafka_cluster import KafkaVersion, kafka_cluster
from tests.recorded.scenario import all_names, load

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]

# As on klamm's own brokers: random scenarios are for the in-memory cluster.
NAMES = [name for name in all_names() if "random" not in load(name).tags]

OTHER_VERSIONS = (KafkaVersion("2.4.1"), KafkaVersion("2.8.2"), KafkaVersion("3.3.2"), KafkaVersion(NEWEST, "2.6"))
DOZEN = (
    "controlled-shutdown-leader",
    "controller-and-leader",
    "controller-kill",
    "create-rf3",
    "delete-topic",
    "grow-topic",
    "kill-follower",
    "kill-leader",
    "min-isr",
    "preferred-after-return",
    "reassign-order",
    "unclean-by-config",
)

_chroots = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_scenario_ends_every_step_as_it_did_under_kafkas_controller(
    name: str, server: EmbeddedZooKeeper, tmp_path: pathlib.Path
) -> None:
    results = await _replay(name, server, tmp_path, KafkaVersion(NEWEST), klamm=True)
    found = differences(expected_of(load_golden(name)), results)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("version", OTHER_VERSIONS, ids=str)
@pytest.mark.parametrize("name", DOZEN)
async def test_another_version_does_the_same_under_klamm_as_under_its_own_controller(
    name: str, version: KafkaVersion, server: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its own controller is recorded on the spot: versions differ in what they write."""
    own = await _replay(name, server, tmp_path_factory.mktemp("own"), version, klamm=False)
    under_klamm = await _replay(name, server, tmp_path_factory.mktemp("klamm"), version, klamm=True)
    found = differences(expected_of(as_golden(load_golden(name), str(version), own)), under_klamm)
    assert not found, "\n".join(map(str, found))


async def _replay(
    name: str, server: EmbeddedZooKeeper, folder: pathlib.Path, version: KafkaVersion, *, klamm: bool
) -> list[StepResult]:
    scenario, chroot = load(name), f"{server.address}/recorded-{next(_chroots)}"
    async with kafka_cluster(scenario, chroot, folder, version, klamm=klamm) as cluster:
        return await replay(scenario, cluster, print)
