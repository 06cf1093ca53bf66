"""klamm's clients where the brokers are of Apache Kafka: scripted brokers on real sockets, a scripted controller."""

from collections.abc import AsyncIterator

import pytest

from admin.connecting.client import AdminClient
from admin.consuming.offsets import list_offsets
from admin.describing.load import take_sample
from admin.describing.topology import Topology
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.model.broker import Offset
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from tests.kafka.governed import LOG_DIR, TOPIC, KafkaGoverned, kafka_governed
from tests.timeouts import TIMEOUT_S

P0, P1, P2 = (TopicPartition(TOPIC, p) for p in range(3))


@pytest.fixture
async def cluster() -> AsyncIterator[KafkaGoverned]:
    async with kafka_governed() as served:
        yield served


@pytest.fixture
async def client(cluster: KafkaGoverned) -> AsyncIterator[AdminClient]:
    async with AdminClient([cluster.address], timeout_ms=TIMEOUT_S * 1000) as connected:
        yield connected


async def test_offsets_come_from_the_leaders_by_kafkas_requests(cluster: KafkaGoverned, client: AdminClient) -> None:
    topology = Topology(client)
    partitions = await topology.partitions(TOPIC)
    ends = await list_offsets(topology, TOPIC, dict.fromkeys(partitions, LATEST_TIMESTAMP), TIMEOUT_S)
    starts = await list_offsets(topology, TOPIC, dict.fromkeys(partitions, EARLIEST_TIMESTAMP), TIMEOUT_S)
    assert (starts, ends) == ({0: 5, 1: 0, 2: 0}, {0: 100, 1: 50, 2: 0})
    assert all(request.replica_id == -1 for request in cluster.peers[1].of(ApiKey.LIST_OFFSETS))


async def test_a_leader_that_has_moved_is_asked_at_its_new_place(cluster: KafkaGoverned, client: AdminClient) -> None:
    topology = Topology(client)
    await topology.partitions(TOPIC)
    cluster.leaders[0] = 2
    assert await list_offsets(topology, TOPIC, {0: LATEST_TIMESTAMP}, TIMEOUT_S) == {0: 100}


@pytest.mark.parametrize("versions", [{}, {ApiKey.METADATA: 9, ApiKey.LIST_OFFSETS: 5, ApiKey.DELETE_RECORDS: 1}])
async def test_records_are_deleted_at_the_leaders_in_the_versions_they_know(
    cluster: KafkaGoverned, client: AdminClient, versions: dict[ApiKey, int]
) -> None:
    for peer in cluster.peers.values():
        peer.versions = versions
    results = await client.delete_records({P0: Offset(10), P1: Offset(-1)})
    assert [(r.partition, r.error_code.name, r.low_watermark) for r in results.values()] == [
        (0, "NONE", 10),
        (1, "NONE", 50),
    ]
    asked = [header.api_version for header, _ in cluster.peers[1].asked if header.api_key is ApiKey.DELETE_RECORDS]
    assert asked == [versions.get(ApiKey.DELETE_RECORDS, 2)]


async def test_a_refusal_of_a_leader_has_kafkas_name(cluster: KafkaGoverned, client: AdminClient) -> None:
    cluster.errors = [ErrorCode.POLICY_VIOLATION]
    (result,) = (await client.delete_records({P0: Offset(10)})).values()
    assert result.error_code is ErrorCode.POLICY_VIOLATION
    cluster.cleanup_policy, cluster.errors = "compact", [ErrorCode.POLICY_VIOLATION]
    (result,) = (await client.delete_records({P0: Offset(10)})).values()
    assert result.error_message == "cleanup.policy of orders is compact, without delete"
    cluster.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    (result,) = (await client.delete_records({P0: Offset(10)})).values()
    assert result.error_code.name == "TOPIC_AUTHORIZATION_FAILED"


async def test_a_dry_run_of_a_deletion_deletes_nothing_and_refuses_what_kafka_would(
    cluster: KafkaGoverned, client: AdminClient
) -> None:
    offsets = {P0: Offset(10), P1: Offset(51), P2: Offset(-1)}
    results = await client.delete_records(offsets, validate_only=True)
    assert [(r.error_code.name, r.low_watermark) for r in results.values()] == [
        ("NONE", 5),
        ("OFFSET_OUT_OF_RANGE", -1),
        ("NONE", 0),
    ]
    assert "high watermark 50" in results[P1].error_message
    cluster.cleanup_policy = "compact"
    results = await client.delete_records({P0: Offset(10)}, validate_only=True)
    assert results[P0].error_code is ErrorCode.POLICY_VIOLATION
    assert not any(peer.of(ApiKey.DELETE_RECORDS) for peer in cluster.peers.values())
    assert cluster.starts == [5, 0, 0]


async def test_the_load_of_kafkas_brokers_is_known(client: AdminClient) -> None:
    sample = await take_sample(client)
    assert sample.ends == {P0: 100, P1: 50, P2: 0}


async def test_log_directories_are_described_by_kafkas_request(cluster: KafkaGoverned, client: AdminClient) -> None:
    (found,) = await client.describe_log_dirs(await client.registered_broker(1))
    assert (found.log_dir, found.error_code, found.total_bytes, found.usable_bytes) == (LOG_DIR, 0, 5000, 4000)
    (topic,) = found.topics
    assert (topic.name, topic.partitions[0].partition_size) == (TOPIC, 1000)


async def test_a_broker_whose_log_directory_failed_says_so(cluster: KafkaGoverned, client: AdminClient) -> None:
    broker = await client.registered_broker(2)
    assert await client.describe_findings_of([broker]) == [()]
    cluster.log_dir_error = ErrorCode.KAFKA_STORAGE_ERROR
    ((finding,),) = await client.describe_findings_of([broker])
    assert (finding.kind, finding.broker) == ("failed_log_directory", 2)
    assert LOG_DIR in finding.detail


async def test_brokers_that_are_not_plaintext_are_not_connected_to(cluster: KafkaGoverned, client: AdminClient) -> None:
    cluster.security_protocol = "SASL_SSL"
    broker = await client.registered_broker(1)
    with pytest.raises(ApiError, match=r"takes SASL_SSL only.*PLAINTEXT") as refusal:
        await client.describe_log_dirs(broker)
    assert refusal.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert await client.describe_findings_of([broker]) == [()]
    with pytest.raises(ApiError, match="takes SASL_SSL only"):
        await Topology(client).partitions(TOPIC)
    assert not any(peer.connections for peer in cluster.peers.values())


async def test_what_only_klamms_brokers_answer_is_refused_without_a_request(
    cluster: KafkaGoverned, client: AdminClient
) -> None:
    broker = await client.registered_broker(1)
    with pytest.raises(ApiError, match="SIGTERM"):
        await client.shut_down_broker(broker)
    with pytest.raises(ApiError, match="Apache Kafka"):
        await client.acknowledge_damage(broker, P0)
    assert not any(peer.connections for peer in cluster.peers.values())


async def test_one_connection_serves_all_requests_to_a_broker(cluster: KafkaGoverned, client: AdminClient) -> None:
    await take_sample(client)
    await take_sample(client)
    broker = await client.registered_broker(1)
    await client.describe_log_dirs(broker)
    assert cluster.peers[1].connections == 1
