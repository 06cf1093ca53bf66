"""The release of a real broker is known from its answer to ApiVersions."""

from pathlib import Path

import pytest

from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages.connections import ApiVersionsRequest, ApiVersionsResponse
from cluster.model.broker import Endpoint
from controller.kafka_configs.tables import release_of
from deploy.local.kafka_jars import kafka_versions
from tests.kafka.clusters import kafka_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.deep, pytest.mark.real]


@pytest.mark.parametrize("version", kafka_versions())
async def test_the_release_of_a_broker(version: str, tmp_path: Path, zookeeper: str) -> None:
    with kafka_cluster(tmp_path, zookeeper, brokers=1, version=version) as cluster:
        host, _, port = cluster.brokers[1].rpartition(":")
        connection = await KafkaConnection.open(Endpoint(host, int(port)), client_id="test", timeout_s=TIMEOUT_S)
        answer = await connection.call(ApiVersionsRequest(), 0, ApiVersionsResponse, timeout_s=TIMEOUT_S)
        connection.close()
    found = {one.api_key: one.max_version for one in answer.api_keys}
    print(sorted(found.items()))
    assert release_of(found) == ".".join(version.split(".")[:2])
