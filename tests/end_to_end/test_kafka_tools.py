"""Kafka's console tools come to the same under klamm's controllers as under Kafka's own."""

import asyncio
from collections.abc import Iterator

import pytest

from cluster.model.errors import PeerUnreachableError
from cluster.process.local_cluster import CONTROLLER
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_clients import view
from deploy.local.kafka_jars import NEWEST
from tests.kafka.broker import kafka_class_path
from tests.kafka.tools import VERSIONS, Result, Where, run, table, verbs
from tests.processes.local_clusters import eventually, serving_cluster

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    kafka_class_path(NEWEST)
    folder = tmp_path_factory.mktemp("tools") / "cluster"
    with serving_cluster(folder, controllers=2, brokers=3, kafka=NEWEST) as cluster:
        yield cluster


@pytest.mark.parametrize("version", VERSIONS)
def test_every_verb_of_the_tools_ends_as_under_kafkas_own_controller(cluster: LocalCluster, version: str) -> None:
    """All on one cluster: while klamm's controllers are stopped, a broker is the controller."""
    controllers = cluster.members(CONTROLLER)
    brokers = ",".join(member.address for member in cluster.state.kafka_brokers)
    klamm = ",".join(member.kafka_address for member in controllers)
    for member in controllers:
        cluster.stop(member.name)
    _wait_for_controller(cluster, {member.id for member in cluster.state.kafka_brokers})
    own = _run_all(cluster, version, brokers)
    for member in controllers:
        cluster.start(member.name)
    _wait_for_controller(cluster, {member.id for member in controllers})
    columns = {"at a broker": _run_all(cluster, version, brokers), "at klamm": _run_all(cluster, version, klamm)}
    rows = [["verb", "Kafka", *columns]]
    for verb, result in own.items():
        ends = ["same" if found[verb] == result else f"code {found[verb].code}" for found in columns.values()]
        rows.append([verb, f"code {result.code}", *ends])
    print(f"\nKafka's tools {version}\n{table(rows)}")
    found = {(where, verb): result for where, results in columns.items() for verb, result in results.items()}
    assert {key: result for key, result in found.items() if result != own[key[1]]} == {}


def _run_all(cluster: LocalCluster, version: str, bootstrap: str) -> dict[str, Result]:
    where = Where(bootstrap, cluster.state.zookeeper)
    topic = f"tools-{version}"
    return {verb.name: run(version, verb, cluster.folder) for verb in verbs(version, where, topic, cluster.folder)}


def _wait_for_controller(cluster: LocalCluster, among: set[int]) -> None:
    """Until every broker knows one of these as the controller."""

    async def known() -> set[int]:
        return {(await view(member.address, [])).controller for member in cluster.state.kafka_brokers}

    def is_known() -> bool:
        try:
            return asyncio.run(known()) <= among
        except PeerUnreachableError:
            return False

    eventually(is_known, f"one of {sorted(among)} is the controller")
