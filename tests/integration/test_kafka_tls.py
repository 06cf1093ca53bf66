"""A controller and brokers of Apache Kafka under TLS, by Kafka's settings."""

import asyncio
from collections.abc import Collection
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.aio.tasks import TaskSet
from cluster.config.broker_logins import BrokerLogins
from cluster.config.config import load_config
from cluster.config.kafka_listeners import KafkaListener
from cluster.config.kafka_tls import KafkaTls, kafka_tls
from cluster.config.settings import Settings
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.headers import decode_response
from cluster.kafka_wire.messages.acls import DescribeAclsResponse
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.brokers import ControlledShutdownRequest as ShutdownRequest
from cluster.kafka_wire.messages.brokers import ControlledShutdownResponse as ShutdownAnswer
from cluster.kafka_wire.messages.control import UpdateMetadataResponse as UpdateMetadataAnswer
from cluster.kafka_wire.messages.data import MetadataRequest, MetadataResponse
from cluster.kafka_wire.messages.passed_on import CreateDelegationTokenResponse
from cluster.model.broker import Broker, BrokerId, Endpoint
from cluster.model.errors import ApiError, ConfigError, ErrorCode, PeerUnreachableError
from cluster.requests.agents import ControlledShutdownResponse
from cluster.requests.control import UpdateMetadataResponse
from cluster.security.acls import Authorizer
from cluster.security.principals import Principal
from controller.adapters.kafka.authorizers import Authorizers
from controller.adapters.kafka.broker_client import KafkaBrokerClient
from controller.adapters.kafka.broker_principals import BrokerPrincipals
from controller.adapters.kafka.live_brokers import LiveBrokers
from controller.adapters.kafka.wire_server import KafkaServer
from tests.integration.test_kafka_broker_client import CONTROLLER, SETTINGS, UPDATE
from tests.kafka.handshakes import shaking_hands
from tests.kafka.peers import LIMITS, KafkaPeer, kafka_broker, kafka_listener, places
from tests.processes.certificates import PASSWORD, Certificates, Issuer, make_certificates
from tests.processes.commands import run_klamm
from tests.processes.scripted_servers import Scripted
from tests.timeouts import TIMEOUT_S

SSL_LISTENER = KafkaListener("PLAINTEXT", "127.0.0.1", 0, "SSL", Endpoint("127.0.0.1", 0, "PLAINTEXT", "SSL"))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def contexts(certificates: Certificates, **changes: Any) -> KafkaTls:
    settings = Settings(
        **{
            "ssl_keystore_location": str(certificates.locked),
            "ssl_key_password": PASSWORD,
            "ssl_truststore_location": str(certificates.authority),
            "ssl_client_auth": "required",
        }
        | changes
    )
    return kafka_tls(settings, (SSL_LISTENER,))


@pytest.mark.rule("D-89")
async def test_brokers_see_the_certificate_of_the_controller_and_what_is_passed_on_has_none(
    certificates: Certificates,
) -> None:
    tls = contexts(certificates)
    peer = KafkaPeer({ApiKey.UPDATE_METADATA: lambda _: UpdateMetadataAnswer()})
    async with TaskSet() as tasks:
        server = KafkaServer(peer.open, LIMITS, tasks, places())
        port = await server.start("127.0.0.1", 0, tls=shaking_hands(tls.listening["PLAINTEXT"]))
        endpoint = Endpoint("127.0.0.1", port, "PLAINTEXT", "SSL")
        broker = replace(CONTROLLER, endpoints=(endpoint,))
        client = KafkaBrokerClient(SETTINGS, "klamm-1001", CONTROLLER, tls.to_brokers, Authorizers())
        assert await client.send(broker, UPDATE) == UpdateMetadataResponse(ErrorCode.NONE)
        await client.close()

        async def registered() -> Collection[Broker]:
            return [broker]

        # Where brokers ask for certificates, a client must not come in with that of the controller.
        live = LiveBrokers(registered, Random(1), "klamm-1001", (), tls, logins=BrokerLogins(SETTINGS))

        async def pass_on() -> None:
            # With TLS 1.3 the client learns only after its handshake that the broker wanted a certificate.
            connection = await live.connect("PLAINTEXT", shows_certificate=False)
            await connection.call_raw(b"\0\x12\0\0\0\0\0\1\xff\xff", timeout_s=5)

        with pytest.raises(PeerUnreachableError):
            await pass_on()
        await server.stop(0)


@pytest.mark.rule("D-89")
@pytest.mark.parametrize(
    ("client_auth", "has_authorizer", "is_passed_on"),
    [("required", False, True), ("required", True, False), ("requested", False, False), ("none", False, False)],
)
async def test_the_certificate_of_the_controller_is_shown_for_clients_that_had_to_show_one(
    certificates: Certificates, client_auth: str, has_authorizer: bool, is_passed_on: bool
) -> None:
    """Brokers ask for a certificate. A client that needs none here must not get past that."""
    tls = contexts(certificates)
    acls = DescribeAclsResponse(error_code=ErrorCode.NONE if has_authorizer else ErrorCode.SECURITY_DISABLED)
    peer = KafkaPeer({ApiKey.METADATA: lambda _: MetadataResponse(), ApiKey.DESCRIBE_ACLS: lambda _: acls})
    async with TaskSet() as tasks:
        server = KafkaServer(peer.open, LIMITS, tasks, places())
        port = await server.start("127.0.0.1", 0, tls=shaking_hands(tls.listening["PLAINTEXT"]))
        broker = replace(CONTROLLER, endpoints=(Endpoint("127.0.0.1", port, "PLAINTEXT", "SSL"),))
        listening = contexts(certificates, ssl_client_auth=client_auth)
        async with kafka_listener(Scripted(lambda _: None), [broker], listening) as servers:
            client = await KafkaConnection.open(
                servers.endpoints[0], client_id="c", timeout_s=TIMEOUT_S, tls=tls.to_brokers.current()
            )
            call = client.call(MetadataRequest(topics=None), 7, MetadataResponse, timeout_s=TIMEOUT_S)
            if is_passed_on:
                assert await call == MetadataResponse()
            else:
                with pytest.raises(PeerUnreachableError):
                    await call
            client.close()
        await server.stop(0)
    assert bool(peer.of(ApiKey.METADATA)) == is_passed_on


@pytest.mark.rule("D-107")
@pytest.mark.parametrize("of_klamm", ["none", "required"])
@pytest.mark.parametrize("of_brokers", ["none", "required"])
async def test_what_brokers_ask_is_taken_with_a_certificate_where_brokers_demand_one(
    certificates: Certificates, of_brokers: str, of_klamm: str
) -> None:
    """The client shows one if it is asked for one."""
    tls = contexts(certificates, ssl_client_auth=of_brokers)
    handler = Scripted(lambda _: ControlledShutdownResponse(ErrorCode.NONE, ()))
    async with TaskSet() as tasks:
        server = KafkaServer(KafkaPeer({}).open, LIMITS, tasks, places())
        port = await server.start("127.0.0.1", 0, tls=shaking_hands(tls.listening["PLAINTEXT"]))
        broker = replace(CONTROLLER, endpoints=(Endpoint("127.0.0.1", port, "PLAINTEXT", "SSL"),))
        listening = contexts(certificates, ssl_client_auth=of_klamm)
        async with kafka_listener(handler, [broker], listening) as servers:
            client = await KafkaConnection.open(
                servers.endpoints[0], client_id="c", timeout_s=TIMEOUT_S, tls=tls.to_brokers.current()
            )
            for version in range(4):
                asked = ShutdownRequest(broker_id=1, broker_epoch=7 if version > 1 else -1)
                answer = await client.call(asked, version, ShutdownAnswer, timeout_s=TIMEOUT_S)
                is_taken = of_klamm == "required" or of_brokers == "none"
                assert answer.error_code == (ErrorCode.NONE if is_taken else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            client.close()
        await server.stop(0)
    assert bool(handler.asked) is is_taken


async def test_while_an_authorizer_is_switched_on_brokers_are_known_by_the_certificate_they_share(
    certificates: Certificates,
) -> None:
    tls = contexts(certificates, ssl_client_auth="required")
    principals = BrokerPrincipals(Settings(super_users="User:CN=admin"), lambda: tls.to_brokers.own_subject)
    for name in ("CN=node", "CN=admin"):
        await principals.require(Principal("User", name), "SSL", has_sasl=False)
    with pytest.raises(ApiError, match="User:CN=app is not known as a broker.* only from User:CN=node and from super"):
        await principals.require(Principal("User", "CN=app"), "SSL", has_sasl=False)
    without = BrokerPrincipals(Settings(), lambda: "")
    for has_sasl in (False, True):
        with pytest.raises(ApiError, match="only from nobody and"):
            await without.require(Principal("User", "CN=node"), "SSL", has_sasl=has_sasl)


@pytest.mark.parametrize(
    ("client_auth", "shows", "super_users", "is_taken"),
    [
        ("requested", True, "", True),
        ("requested", False, "", False),
        ("requested", False, "User:ANONYMOUS", True),
        ("required", True, "", True),
        ("none", False, "", True),
    ],
)
async def test_while_an_authorizer_is_switched_on_who_may_show_a_certificate_is_known_by_it(
    certificates: Certificates, client_auth: str, shows: bool, super_users: str, is_taken: bool
) -> None:
    """Brokers that ask for a certificate give who shows none the rights of ANONYMOUS."""
    authorizers, handler = Authorizers(), Scripted(lambda _: ControlledShutdownResponse(ErrorCode.NONE, ()))
    async with kafka_broker(KafkaPeer({ApiKey.DESCRIBE_ACLS: lambda _: DescribeAclsResponse()})) as guarded:
        asking = await KafkaConnection.open(guarded.endpoints[0], client_id="c", timeout_s=TIMEOUT_S)
        await authorizers.ask(BrokerId(1), asking)
        asking.close()
    listening = contexts(certificates, ssl_client_auth=client_auth)
    shown = listening.to_brokers if shows else listening.passing_on
    async with kafka_listener(handler, [], listening, authorizers, super_users=super_users) as servers:
        client = await KafkaConnection.open(
            servers.endpoints[0], client_id="c", timeout_s=TIMEOUT_S, tls=shown.current()
        )
        answer = await client.call(ShutdownRequest(broker_id=1), 1, ShutdownAnswer, timeout_s=TIMEOUT_S)
        client.close()
    assert answer.error_code == (ErrorCode.NONE if is_taken else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert bool(handler.asked) is is_taken


@pytest.mark.rule("D-89")
async def test_a_broker_without_a_trusted_certificate_is_not_sent_anything(certificates: Certificates) -> None:
    tls = contexts(certificates, ssl_truststore_location=None, ssl_client_auth="none")
    peer = KafkaPeer({})
    async with TaskSet() as tasks:
        server = KafkaServer(peer.open, LIMITS, tasks, places())
        port = await server.start("127.0.0.1", 0, tls=shaking_hands(tls.listening["PLAINTEXT"]))
        with pytest.raises(PeerUnreachableError, match="certificate"):
            await KafkaConnection.open(
                Endpoint("127.0.0.1", port), client_id="c", timeout_s=10, tls=tls.to_brokers.current()
            )
        await server.stop(0)
    assert peer.asked == []


@pytest.mark.rule("D-89")
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ('"ssl.keystore.type" = "JKS"', "ssl.keystore.type"),
        ('"klamm.kafka.listeners" = "SSL://:9093"', "ssl.keystore.location: None: an SSL listener needs a private key"),
        ('"ssl.keystore.location" = "/nowhere.pem"', "ssl.keystore.location: /nowhere.pem"),
        (
            '"klamm.kafka.listeners" = "TLS://:9093"',
            "the security protocol of TLS is TLS; give it one",
        ),
        ('"ssl.key.password" = ["SECRETPW"]', 'settings."ssl.key.password": (not shown): must be a string'),
        ("", 'settings."klamm.kafka.listeners": is missing: klamm.broker.protocol = "kafka" needs'),
        ('"klamm.kafka.listeners" = ""', "settings.\"klamm.kafka.listeners\": '': klamm.broker.protocol = "),
        ('"klamm.kafka.listeners" = "nonsense"', "klamm.kafka.listeners: 'nonsense': must be LISTENER://host:port"),
    ],
)
def test_what_is_wrong_with_the_settings_is_said_at_the_start(tmp_path: Path, settings: str, why: str) -> None:
    config = tmp_path / "controller.toml"
    config.write_text(
        f'zookeeper = "127.0.0.1:2181"\nlisten = "127.0.0.1:0"\ndata = "{tmp_path}"\n[settings]\n'
        f'"klamm.broker.protocol" = "kafka"\n{settings}\n'
    )
    with pytest.raises(ConfigError) as caught:
        load_config(config)
    assert why in str(caught.value)


@pytest.mark.rule("D-107")
async def test_no_client_gets_a_token_of_this_controller(certificates: Certificates) -> None:
    """What clients with certificates ask is passed on under the controller's own, where nobody has an authorizer."""
    tls = contexts(certificates)
    peer = KafkaPeer({ApiKey.CREATE_DELEGATION_TOKEN: lambda _: CreateDelegationTokenResponse()})
    async with TaskSet() as tasks:
        server = KafkaServer(peer.open, LIMITS, tasks, places())
        port = await server.start("127.0.0.1", 0, tls=shaking_hands(tls.listening["PLAINTEXT"]))
        broker = replace(CONTROLLER, endpoints=(Endpoint("127.0.0.1", port, "PLAINTEXT", "SSL"),))
        async with kafka_listener(Scripted(lambda _: None), [broker], tls) as servers:
            client = await KafkaConnection.open(
                servers.endpoints[0], client_id="c", timeout_s=TIMEOUT_S, tls=tls.to_brokers.current()
            )
            # CreateDelegationToken 1: header with client id, no renewers, the longest lifetime.
            frame = b"\0\x26\0\1" + b"\0\0\0\5" + b"\0\1c" + b"\0\0\0\0" + b"\xff" * 8
            _, answer = decode_response(
                CreateDelegationTokenResponse, 1, await client.call_raw(frame, timeout_s=TIMEOUT_S)
            )
            assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            client.close()
        await server.stop(0)
    assert peer.asked == []


@pytest.mark.rule("D-83")
async def test_a_certificate_that_names_a_node_gives_no_right_at_a_kafka_listener(tmp_path: Path) -> None:
    """The brokers' authority may sign whatever names its clients ask for: to brokers they mean nothing."""
    issuer = Issuer(tmp_path)
    own, posing = issuer.issue("own"), issuer.issue("posing", uri="klamm://broker/1", subject="mallory")
    both = {"ssl_truststore_location": str(issuer.authority), "ssl_client_auth": "required"}
    tls = kafka_tls(Settings(**both, ssl_keystore_location=str(own)), (SSL_LISTENER,))
    shown = kafka_tls(Settings(**both, ssl_keystore_location=str(posing)), (SSL_LISTENER,)).to_brokers
    handler = Scripted(lambda _: ControlledShutdownResponse(ErrorCode.NONE, ()))
    async with kafka_listener(handler, (), tls, authorizer=Authorizer({})) as servers:
        client = await KafkaConnection.open(
            servers.endpoints[0], client_id="c", timeout_s=TIMEOUT_S, tls=shown.current()
        )
        leaving = ShutdownRequest(broker_id=1, broker_epoch=7)
        answer = await client.call(leaving, 3, ShutdownAnswer, timeout_s=TIMEOUT_S)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        client.close()
    assert handler.asked == []


@pytest.mark.parametrize("has_tls", [False, True])
async def test_the_address_of_a_kafka_listener_is_named_as_such_at_once_by_commands_with_tls(
    certificates: Certificates, tmp_path: Path, has_tls: bool
) -> None:
    """The command does not wait for its timeout: nothing that speaks another protocol will answer later."""
    config = tmp_path / "client.properties"
    lines = {"keystore.location": certificates.node, "truststore.location": certificates.authority}
    config.write_text("security.protocol=SSL\n" + "".join(f"ssl.{key}={value}\n" for key, value in lines.items()))
    tls = contexts(certificates, ssl_client_auth="required") if has_tls else None
    async with kafka_listener(Scripted(lambda _: None), tls=tls) as servers:
        address = servers.endpoints[0].address
        options = ("--bootstrap", address, "--command-config", str(config), "--timeout", "60")
        answer = await asyncio.to_thread(run_klamm, "topics", "list", *options)
    assert answer.returncode == 1
    assert (
        f"{address} not answering (it speaks Kafka's protocol: name the address that a controller of" in answer.stderr
    )
    assert "within 60 s" not in answer.stderr
