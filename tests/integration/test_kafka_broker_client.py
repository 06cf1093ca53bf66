"""Control requests to brokers of Apache Kafka over real sockets."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from cluster.broker import Broker, BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, Endpoint
from cluster.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.kafka_wire.api_keys import ApiKey
from cluster.kafka_wire.messages.stop_replica_response import StopReplicaResponse as StopReplicaAnswer
from cluster.kafka_wire.messages.update_metadata_response import UpdateMetadataResponse as UpdateMetadataAnswer
from cluster.process.settings import Settings
from cluster.requests.control import (
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from controller.adapters.kafka.broker_client import KafkaBrokerClient
from deploy.local.processes import choose_free_ports
from tests.kafka_peers import KafkaPeer, kafka_broker

CONTROLLER = Broker(BrokerId(1001), (Endpoint("klamm", 9095),))
UPDATE = UpdateMetadataRequest(ControllerId(1001), ControllerEpoch(7), BrokerEpoch(4))
STOP = StopReplicaRequest(ControllerId(1001), ControllerEpoch(7), BrokerEpoch(4))
SETTINGS = Settings(klamm_broker_protocol="kafka")


def answering() -> KafkaPeer:
    return KafkaPeer(
        {
            ApiKey.UPDATE_METADATA: lambda _: UpdateMetadataAnswer(),
            ApiKey.STOP_REPLICA: lambda _: StopReplicaAnswer(error_code=ErrorCode.STALE_CONTROLLER_EPOCH),
        }
    )


@asynccontextmanager
async def client_of(settings: Settings = SETTINGS) -> AsyncIterator[KafkaBrokerClient]:
    client = KafkaBrokerClient(settings, "klamm-1001", CONTROLLER, ssl.create_default_context())
    try:
        yield client
    finally:
        await client.close()


@pytest.mark.rule("D-81", "D-82")
async def test_requests_go_over_one_connection_and_refusals_are_answers() -> None:
    peer = answering()
    async with kafka_broker(peer) as broker, client_of() as client:
        assert await client.send(broker, UPDATE) == UpdateMetadataResponse(ErrorCode.NONE)
        assert await client.send(broker, STOP) == StopReplicaResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
        assert peer.connections == 1
        assert {header.client_id for header, _ in peer.asked} == {"klamm-1001"}
        (update,) = peer.of(ApiKey.UPDATE_METADATA)
        assert [live.id for live in update.live_brokers] == [1001]
        await client.forget(broker)
        assert await client.send(broker, UPDATE) == UpdateMetadataResponse(ErrorCode.NONE)
        assert peer.connections == 2


@pytest.mark.rule("D-81")
async def test_a_broker_of_an_older_protocol_is_named_with_the_setting() -> None:
    older = KafkaPeer({}, {ApiKey.UPDATE_METADATA: 7})
    async with kafka_broker(older) as broker, client_of() as client:
        why = (
            r"understand version 8 of UPDATE_METADATA, only 0 to 7: give .*inter\.broker\.protocol\.version.*, not 3\.9"
        )
        with pytest.raises(PeerUnreachableError, match=why):
            await client.send(broker, UPDATE)
        assert older.of(ApiKey.UPDATE_METADATA) == []


@pytest.mark.rule("RQ-32")
async def test_a_broker_that_returns_gets_its_request_at_the_next_attempt() -> None:
    (port,) = choose_free_ports(1)
    gone = Broker(BrokerId(1), (Endpoint("127.0.0.1", port),))
    async with client_of() as client:
        with pytest.raises(PeerUnreachableError):
            await client.send(gone, UPDATE)
        async with kafka_broker(answering()) as broker:
            assert await client.send(broker, UPDATE) == UpdateMetadataResponse(ErrorCode.NONE)
        with pytest.raises(PeerUnreachableError):
            await client.send(broker, UPDATE)
        async with kafka_broker(answering()) as broker:
            assert await client.send(broker, UPDATE) == UpdateMetadataResponse(ErrorCode.NONE)


@pytest.mark.rule("RQ-30", "D-80")
@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        (Endpoint("h", 1, "EXTERNAL"), "it has no listener CONTROL or PLAINTEXT"),
        (Endpoint("h", 1, "PLAINTEXT", "SASL_SSL"), "it takes SASL_SSL only"),
    ],
)
async def test_a_broker_that_cannot_be_reached(endpoint: Endpoint, why: str) -> None:
    async with client_of() as client:
        with pytest.raises(PeerUnreachableError, match=why):
            await client.send(replace(CONTROLLER, id=BrokerId(1), endpoints=(endpoint,)), UPDATE)


async def test_kafkas_brokers_cannot_name_their_replicas() -> None:
    async with client_of() as client:
        with pytest.raises(ApiError, match="cannot name its replicas") as caught:
            await client.describe_replicas(CONTROLLER, recovers=True)
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.rule("D-90")
async def test_the_oldest_release_is_found_by_the_versions_of_the_brokers() -> None:
    oldest_apis = dict.fromkeys(ApiKey, 0)
    before = {**oldest_apis, ApiKey.LEADER_AND_ISR: 7, ApiKey.UPDATE_METADATA: 8, ApiKey.STOP_REPLICA: 4}
    update = {ApiKey.UPDATE_METADATA: lambda _: UpdateMetadataAnswer()}
    async with (
        kafka_broker(KafkaPeer(dict(update))) as newest,
        kafka_broker(KafkaPeer(dict(update), before), 2) as oldest,
        client_of() as client,
    ):
        assert client.oldest_release() is None
        await client.send(newest, UPDATE)
        assert client.oldest_release() == "3.9"
        await client.send(oldest, UPDATE)
        assert client.oldest_release() == "2.4"
        await client.forget(oldest)
        assert client.oldest_release() == "3.9"
