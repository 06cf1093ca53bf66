"""What a controller asks brokers of Apache Kafka that want SASL, for itself and for its clients."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.aio.tasks import TaskSet
from cluster.kafka_wire.headers import RequestHeader, encode_request
from cluster.kafka_wire.messages.acls import DescribeAclsResponse
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.connections import ApiVersionsRequest, ApiVersionsResponse
from cluster.kafka_wire.messages.control import UpdateMetadataResponse as UpdateMetadataAnswer
from cluster.kafka_wire.messages.data import MetadataRequest, MetadataResponse, MetadataResponseBroker
from cluster.metrics.registry import Metrics
from cluster.model.broker import Endpoint
from cluster.model.errors import ErrorCode, PeerRefusesError, PeerUnreachableError
from cluster.requests.control import UpdateMetadataResponse
from cluster.rpc.authentication import Authentication
from controller.adapters.kafka.authentication import AuthenticatingSession, SaslListener
from controller.adapters.kafka.authorizers import Authorizers
from controller.adapters.kafka.broker_client import KafkaBrokerClient
from controller.adapters.kafka.served_connection import ClientAddress
from controller.adapters.kafka.wire_server import KafkaServer
from tests.integration.test_kafka_broker_client import CONTROLLER, SETTINGS, UPDATE
from tests.integration.test_kafka_sasl import PASSWORDS, Listening, Peer, credentials, made, peer, users
from tests.integration.test_user_sessions import Directory, Setup
from tests.kafka.peers import LIMITS, KafkaPeer, kafka_broker, kafka_listener, places, without_stores
from tests.processes.certificates import write_secret
from tests.processes.scripted_servers import Scripted
from tests.timeouts import TIMEOUT_S

__all__ = ["made", "users"]


@asynccontextmanager
async def sasl_broker(behind: KafkaPeer, made: Setup, users: Directory, **different: Any) -> AsyncIterator[Endpoint]:
    """A broker that answers who has authenticated."""
    authentication = Authentication({}, users, Metrics(), failure_delay_ms=0)

    async def versions(header: RequestHeader) -> bytes:
        return await behind.handle(encode_request(ApiVersionsRequest(), header.api_version, header.correlation_id, "c"))

    listener = SaslListener(
        "PLAINTEXT", authentication.mechanisms_of(made.sasl(**different)), authentication.steps, versions
    )

    def opened(address: ClientAddress) -> AuthenticatingSession:
        return AuthenticatingSession(listener, f"ipv4:{address}", lambda _: behind.open(address))

    async with TaskSet() as tasks:
        server = KafkaServer(opened, LIMITS, tasks, places())
        port = await server.start("127.0.0.1", 0)
        try:
            yield Endpoint("127.0.0.1", port, "PLAINTEXT", "SASL_PLAINTEXT")
        finally:
            await server.stop(0)


def jaas(mechanism: str, password: str) -> str:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f'org.apache.kafka.common.security.{module} required username="alice" password="{password}";'


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
async def test_control_requests_go_to_brokers_that_want_sasl(
    made: Setup, users: Directory, mechanism: str, tmp_path: Path
) -> None:
    """A peer stands behind klamm's own listener, which lets it be asked only by who has authenticated."""
    peer_ = KafkaPeer({ApiKey.UPDATE_METADATA: lambda _: UpdateMetadataAnswer()})
    async with sasl_broker(peer_, made, users) as endpoint:
        broker = replace(CONTROLLER, endpoints=(endpoint,))
        key = f"{mechanism.lower().replace('-', '_')}_sasl_jaas_config"
        right = replace_settings(mechanism, **{key: jaas(mechanism, PASSWORDS[mechanism])})
        client = KafkaBrokerClient(right, "klamm-1001", CONTROLLER, without_stores(), Authorizers())
        assert await client.send(broker, UPDATE) == UpdateMetadataResponse(ErrorCode.NONE)
        await client.close()
        wrong = replace_settings(mechanism, sasl_jaas_config=jaas(mechanism, "wrong"))
        client = KafkaBrokerClient(wrong, "klamm-1001", CONTROLLER, without_stores(), Authorizers())
        with pytest.raises(PeerRefusesError, match=r"PLAINTEXT: it does not accept .*: correct sasl\.jaas\.config"):
            await client.send(broker, UPDATE)
        # The password is right in a file, which is read at each authentication.
        file = tmp_path / "jaas.conf"
        write_secret(file, f"KafkaServer {{ {jaas(mechanism, PASSWORDS[mechanism])} }};".encode())
        in_file = replace_settings(mechanism, java_security_auth_login_config=str(file))
        client = KafkaBrokerClient(in_file, "klamm-1001", CONTROLLER, without_stores(), Authorizers())
        assert await client.send(broker, UPDATE) == UpdateMetadataResponse(ErrorCode.NONE)
        await client.close()


def replace_settings(mechanism: str, **changes: Any) -> Any:
    return type(SETTINGS)(klamm_broker_protocol="kafka", sasl_mechanism_inter_broker_protocol=mechanism, **changes)


async def test_without_credentials_a_broker_that_wants_sasl_is_named_with_the_setting() -> None:
    async with kafka_broker(KafkaPeer({})) as broker:
        endpoint = replace(broker.endpoints[0], security_protocol="SASL_SSL")
        client = KafkaBrokerClient(SETTINGS, "klamm-1001", CONTROLLER, without_stores(), Authorizers())
        with pytest.raises(PeerUnreachableError, match=r"it takes SASL_SSL only: give .* sasl\.mechanism\.inter"):
            await client.send(replace(broker, endpoints=(endpoint,)), UPDATE)


@pytest.mark.parametrize("has_authorizer", [False, True])
async def test_what_users_ask_is_passed_on_to_brokers_without_an_authorizer(
    made: Setup, users: Directory, has_authorizer: bool
) -> None:
    """The broker sees this controller, which may do more than they."""
    users.set("broker", SCRAM_SHA_512="of brokers")
    acls = DescribeAclsResponse(error_code=ErrorCode.NONE if has_authorizer else ErrorCode.SECURITY_DISABLED)
    behind = KafkaPeer({ApiKey.METADATA: lambda _: MetadataResponse(), ApiKey.DESCRIBE_ACLS: lambda _: acls})
    login = {
        "sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-512",
        "sasl_jaas_config": jaas("SCRAM-SHA-512", "of brokers").replace("alice", "broker"),
    }
    async with sasl_broker(behind, made, users) as endpoint:
        brokers = [replace(CONTROLLER, endpoints=(endpoint,))]
        async with kafka_listener(Scripted(lambda _: None), brokers, sasl=made.sasl(), users=users, **login) as servers:
            connection = await Listening(servers.endpoints[0], Scripted(lambda _: None)).open(
                lambda: credentials(made, "SCRAM-SHA-512")
            )
            asked = connection.call(MetadataRequest(topics=None), 7, MetadataResponse, timeout_s=TIMEOUT_S)
            if has_authorizer:
                with pytest.raises(PeerUnreachableError):
                    await asked
            else:
                assert await asked == MetadataResponse()
            connection.close()
    assert bool(behind.of(ApiKey.METADATA)) is not has_authorizer


async def test_the_broker_that_is_asked_for_a_user_is_the_one_that_has_no_authorizer(
    made: Setup, users: Directory
) -> None:
    """While an authorizer is switched on, what one broker says does not hold for another."""
    users.set("broker", SCRAM_SHA_512="of brokers")
    acls = DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED)
    without = KafkaPeer({ApiKey.DESCRIBE_ACLS: lambda _: acls})
    guarded = KafkaPeer(
        {ApiKey.METADATA: lambda _: MetadataResponse(), ApiKey.DESCRIBE_ACLS: lambda _: DescribeAclsResponse()}
    )
    login = {
        "inter_broker_listener_name": "INSIDE",
        "listener_security_protocol_map": "PLAINTEXT:SASL_PLAINTEXT,INSIDE:PLAINTEXT",
        "sasl_enabled_mechanisms": "SCRAM-SHA-512",
        "sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-512",
        "sasl_jaas_config": jaas("SCRAM-SHA-512", "of brokers").replace("alice", "broker"),
    }
    async with sasl_broker(guarded, made, users) as endpoint, kafka_broker(without) as served:
        inside = replace(served.endpoints[0], listener="INSIDE")
        brokers = [replace(CONTROLLER, endpoints=(endpoint,)), replace(served, endpoints=(inside,))]
        async with kafka_listener(Scripted(lambda _: None), brokers, sasl=made.sasl(), users=users, **login) as servers:
            connection = await Listening(servers.endpoints[0], Scripted(lambda _: None)).open(
                lambda: credentials(made, "SCRAM-SHA-512")
            )
            with pytest.raises(PeerUnreachableError):
                await connection.call(MetadataRequest(topics=None), 7, MetadataResponse, timeout_s=TIMEOUT_S)
            connection.close()
    assert guarded.of(ApiKey.METADATA) == []
    assert guarded.of(ApiKey.DESCRIBE_ACLS)


@pytest.mark.parametrize("own_mechanism", ["SCRAM-SHA-256", None])
async def test_clients_at_a_listener_that_does_not_take_the_controller_learn_its_addresses(
    made: Setup, users: Directory, own_mechanism: str | None
) -> None:
    """Brokers are asked where they take control requests, and name the addresses there. The listener of clients has
    another mechanism than brokers use between them; nobody listens at the address of it.
    """
    inside = MetadataResponseBroker(node_id=CONTROLLER.id, host="inside", port=1)
    behind = KafkaPeer(
        {
            ApiKey.METADATA: lambda _: MetadataResponse(brokers=(inside, replace(inside, node_id=77))),
            ApiKey.DESCRIBE_ACLS: lambda _: DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED),
        }
    )
    settings = {
        "inter_broker_listener_name": "INSIDE",
        "listener_security_protocol_map": "PLAINTEXT:SASL_PLAINTEXT,INSIDE:PLAINTEXT",
        "sasl_mechanism_inter_broker_protocol": own_mechanism,
        "sasl_enabled_mechanisms": "SCRAM-SHA-512",
    }
    async with kafka_broker(behind) as served:
        inner = replace(served.endpoints[0], listener="INSIDE")
        brokers = [replace(CONTROLLER, endpoints=(Endpoint("outside", 9, "PLAINTEXT", "SASL_PLAINTEXT"), inner))]
        async with kafka_listener(
            Scripted(lambda _: None), brokers, sasl=made.sasl(), users=users, **settings
        ) as servers:
            connection = await Listening(servers.endpoints[0], Scripted(lambda _: None)).open(
                lambda: credentials(made, "SCRAM-SHA-512")
            )
            answer = await connection.call(MetadataRequest(topics=None), 7, MetadataResponse, timeout_s=TIMEOUT_S)
            connection.close()
    assert answer.brokers == (replace(inside, host="outside", port=9),)


async def test_clients_learn_the_versions_of_the_brokers_before_they_authenticate(
    made: Setup, users: Directory
) -> None:
    """Many ask only then. Of a broker that is gone, those that it told last count."""
    behind = KafkaPeer({}, {ApiKey.METADATA: 9})

    async def ranges(client: Peer) -> dict[int, int]:
        answer = await client.call(ApiVersionsRequest(client_software_name="c"), 3, ApiVersionsResponse)
        return {found.api_key: found.max_version for found in answer.api_keys}

    async with sasl_broker(behind, made, users) as endpoint:
        brokers = [replace(CONTROLLER, endpoints=(endpoint,))]
        async with (
            kafka_listener(Scripted(lambda _: None), brokers, sasl=made.sasl(), users=users) as servers,
            peer(servers.endpoints[0]) as first,
            peer(servers.endpoints[0]) as second,
        ):
            found = await ranges(first)
            assert (found[ApiKey.METADATA], found[ApiKey.SASL_AUTHENTICATE]) == (9, 2)
            assert await ranges(second) == found
    assert len(behind.of(ApiKey.API_VERSIONS)) == 1
