"""Control requests to brokers of Apache Kafka over real sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from cluster.config.settings import Settings
from cluster.kafka_wire.messages.acls import DescribeAclsResponse
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.control import StopReplicaResponse as StopReplicaAnswer
from cluster.kafka_wire.messages.control import UpdateMetadataResponse as UpdateMetadataAnswer
from cluster.model.broker import Broker, BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, Endpoint
from cluster.model.errors import ApiError, ErrorCode, PeerRefusesError, PeerUnreachableError
from cluster.requests.control import (
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from controller.adapters.kafka.authorizers import Authorizers
from controller.adapters.kafka.broker_client import KafkaBrokerClient
from deploy.local.processes import choose_free_ports
from tests.kafka.peers import KafkaPeer, kafka_broker, without_stores

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
    client = KafkaBrokerClient(settings, "klamm-1001", CONTROLLER, without_stores(), Authorizers())
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


@pytest.mark.rule("D-81", "D-111")
async def test_a_broker_of_an_older_protocol_is_named_with_the_setting() -> None:
    older = KafkaPeer({}, {ApiKey.UPDATE_METADATA: 7})
    async with kafka_broker(older) as broker, client_of() as client:
        why = (
            r"understand version 8 of UPDATE_METADATA, only 0 to 7: give .*inter\.broker\.protocol\.version.*, not 3\.9"
        )
        with pytest.raises(PeerRefusesError, match=why) as refused:
            await client.send(broker, UPDATE)
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
        assert "it is of Kafka 3.3 and" in str(refused.value)
        assert older.of(ApiKey.UPDATE_METADATA) == []


@pytest.mark.rule("D-111")
async def test_a_broker_that_does_not_authorize_the_controller_is_sent_the_request_again() -> None:
    answers = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE]
    peer = KafkaPeer({ApiKey.UPDATE_METADATA: lambda _: UpdateMetadataAnswer(error_code=answers.pop(0))})
    async with kafka_broker(peer) as broker, client_of() as client:
        with pytest.raises(PeerRefusesError, match="give the controllers the identity of the brokers") as refused:
            await client.send(broker, UPDATE)
        assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert await client.send(broker, UPDATE) == UpdateMetadataResponse(ErrorCode.NONE)
        assert peer.connections == 1


@pytest.mark.rule("D-112")
async def test_each_broker_is_asked_for_an_authorizer_whenever_it_is_connected() -> None:
    codes = [ErrorCode.SECURITY_DISABLED, ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    answers = {
        ApiKey.UPDATE_METADATA: lambda _: UpdateMetadataAnswer(),
        ApiKey.DESCRIBE_ACLS: lambda _: DescribeAclsResponse(error_code=codes.pop(0)),
    }
    peer = KafkaPeer(answers)
    async with kafka_broker(KafkaPeer(dict(answers)), 2) as other, kafka_broker(peer) as broker, client_of() as client:
        await client.send(other, UPDATE)
        assert client.brokers_with_authorizer() == set()
        await client.send(broker, UPDATE)
        await client.send(broker, UPDATE)
        assert client.brokers_with_authorizer() == {1}
        # The channel to it was closed: it died, or restarts.
        await client.forget(broker)
        assert client.brokers_with_authorizer() == set()
        # One that does not let klamm ask has one, too.
        await client.send(broker, UPDATE)
        assert client.brokers_with_authorizer() == {1}
        codes.append(ErrorCode.SECURITY_DISABLED)
        client._connections[BrokerId(1)].close()
        assert client.brokers_with_authorizer() == {1}
        await client.send(broker, UPDATE)
        assert client.brokers_with_authorizer() == set()


@pytest.mark.rule("D-112")
async def test_a_broker_that_does_not_say_whether_it_has_an_authorizer_is_not_governed() -> None:
    """It closes the connection, which none of Kafka's does. What it had before is still believed."""

    def closes(_: object) -> None:
        raise RuntimeError

    peer = KafkaPeer({ApiKey.UPDATE_METADATA: lambda _: UpdateMetadataAnswer(), ApiKey.DESCRIBE_ACLS: closes})
    async with kafka_broker(peer) as broker, client_of() as client:
        with pytest.raises(PeerUnreachableError):
            await client.send(broker, UPDATE)


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
