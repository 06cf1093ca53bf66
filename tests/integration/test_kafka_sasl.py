"""SASL of Kafka connections, both sides of klamm against each other: who gets in, who does not, and for how long."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.config.kafka_tls import KafkaTls
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.headers import decode_response, encode_request
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages.acls import DescribeAclsResponse
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.authentication import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from cluster.kafka_wire.messages.brokers import ControlledShutdownRequest as ShutdownRequest
from cluster.kafka_wire.messages.brokers import ControlledShutdownResponse as ShutdownAnswer
from cluster.kafka_wire.messages.connections import ApiVersionsRequest, ApiVersionsResponse
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerId, Endpoint
from cluster.model.errors import ErrorCode, PeerNotConnectedError, PeerRefusesError, PeerUnreachableError
from cluster.requests.agents import ControlledShutdownResponse
from cluster.rpc.rights import guarded
from cluster.sasl.clients import ClientCredentials
from cluster.security.acls import Authorizer
from cluster.security.principals import Principal
from cluster.tls.secret import Secret
from controller.adapters.kafka.authorizers import Authorizers
from tests.integration.test_kafka_broker_client import CONTROLLER
from tests.integration.test_kafka_tls import contexts
from tests.integration.test_user_sessions import Directory, Setup
from tests.kafka.frames import RawClient, raw_client
from tests.kafka.peers import KafkaPeer, kafka_broker, kafka_listener
from tests.processes.certificates import Certificates, make_certificates
from tests.processes.scripted_servers import Scripted
from tests.timeouts import TIMEOUT_S

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
PASSWORDS = {"SCRAM-SHA-256": "secret", "SCRAM-SHA-512": "long", "PLAIN": "a=secret"}
FAILED = "authentication failed: unknown user, or wrong password or token"
SHUTDOWN = ShutdownRequest(broker_id=1, broker_epoch=7)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    return Setup(tmp_path_factory.mktemp("users"))


@pytest.fixture
def users() -> Directory:
    directory = Directory()
    directory.set("alice", SCRAM_SHA_256="secret", SCRAM_SHA_512="long")
    return directory


class Listening:
    """A controller's listener with SASL, and what its handler was asked."""

    def __init__(self, endpoint: Endpoint, handler: Scripted) -> None:
        self.endpoint, self.handler = endpoint, handler

    async def open(self, read: Callable[[], ClientCredentials] | None, tls: Any = None) -> KafkaConnection:
        return await KafkaConnection.open(self.endpoint, client_id="c", timeout_s=TIMEOUT_S, tls=tls, login=read)


@asynccontextmanager
async def listening(
    made: Setup, users: Directory, tls: KafkaTls | None = None, *, failure_delay_ms: int = 0, **different: Any
) -> AsyncIterator[Listening]:
    handler = Scripted(lambda _: ControlledShutdownResponse(ErrorCode.NONE, ()))
    sasl = made.sasl(**different)
    async with kafka_listener(handler, (), tls, sasl=sasl, users=users, failure_delay_ms=failure_delay_ms) as servers:
        yield Listening(servers.endpoints[0], handler)


def credentials(made: Setup, mechanism: str, password: str | None = None, user: str = "alice") -> ClientCredentials:
    if mechanism == "OAUTHBEARER":
        return ClientCredentials(mechanism, token_file=str(made.write_token()))
    return ClientCredentials(mechanism, user, Secret(PASSWORDS[mechanism] if password is None else password))


async def shut_down(connection: KafkaConnection) -> ErrorCode:
    answer = await connection.call(SHUTDOWN, 3, ShutdownAnswer, timeout_s=TIMEOUT_S)
    return ErrorCode(answer.error_code)


@pytest.mark.parametrize("has_tls", [False, True])
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_who_authenticates_is_the_principal_of_the_request(
    certificates: Certificates, made: Setup, users: Directory, mechanism: str, has_tls: bool
) -> None:
    tls = contexts(certificates, ssl_client_auth="none") if has_tls else None
    async with listening(made, users, tls) as found:
        context = None if tls is None else tls.passing_on.current()
        connection = await found.open(lambda: credentials(made, mechanism), context)
        assert await shut_down(connection) is ErrorCode.NONE
        connection.close()
        ((context_of_request, _),) = found.handler.asked
        assert context_of_request.identity.principal == Principal("User", "alice")
        assert (context_of_request.principal, context_of_request.identity.host) == ("User:alice", "127.0.0.1")


@pytest.mark.parametrize(
    ("mechanism", "password", "user"),
    [
        ("SCRAM-SHA-512", "wrong", "alice"),
        ("SCRAM-SHA-512", "wrong", "nobody"),
        ("PLAIN", "wrong", "alice"),
        ("PLAIN", "wrong", "nobody"),
    ],
)
async def test_a_wrong_password_and_an_unknown_user_are_refused_alike_and_the_client_says_what_to_do(
    made: Setup, users: Directory, mechanism: str, password: str, user: str
) -> None:
    async with listening(made, users) as found:
        with pytest.raises(PeerRefusesError) as refused:
            await found.open(lambda: credentials(made, mechanism, password, user))
        assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert str(refused.value) == (
            f"{found.endpoint.address}: listener PLAINTEXT: it does not accept the {mechanism} credentials of user "
            f"{user!r}: {FAILED}: correct sasl.jaas.config, or the user on the brokers' side"
        )
        assert found.handler.asked == []


async def test_a_mechanism_that_the_listener_lacks_is_named_with_those_that_it_has(
    made: Setup, users: Directory
) -> None:
    async with listening(made, users, mechanisms=("PLAIN",)) as found:
        with pytest.raises(PeerRefusesError, match=r"SCRAM-SHA-512, only PLAIN: set sasl\.mechanism to one") as refused:
            await found.open(lambda: credentials(made, "SCRAM-SHA-512"))
        assert refused.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_the_client_authenticates_again_on_the_same_connection_before_its_session_ends(
    made: Setup, users: Directory, mechanism: str
) -> None:
    """Requests at the same time wait for it, and none is lost; the credentials are read again each time."""

    async def is_renewed_in_time(found: Listening) -> bool:
        """Whether the machine did not stand still for longer than the fifth of the session that is left then."""
        read = list[ClientCredentials]()

        def noted() -> ClientCredentials:
            read.append(credentials(made, mechanism))
            return read[-1]

        connection = await found.open(noted)
        try:
            while len(read) < 2:
                codes = await asyncio.gather(*(shut_down(connection) for _ in range(5)))
                assert set(codes) == {ErrorCode.NONE}
        except PeerUnreachableError:
            return False
        finally:
            connection.close()
        return True

    async with listening(made, users, session_ms=1000) as found, asyncio.timeout(TIMEOUT_S):
        while not await is_renewed_in_time(found):
            pass


async def test_a_session_that_ended_while_nothing_was_sent_is_renewed(made: Setup, users: Directory) -> None:
    async with listening(made, users, session_ms=700) as found:
        connection = await found.open(lambda: credentials(made, "SCRAM-SHA-512"))
        await asyncio.sleep(0.75)
        assert await shut_down(connection) is ErrorCode.NONE
        connection.close()


async def test_after_a_changed_password_the_connection_ends_at_the_next_authentication(
    made: Setup, users: Directory
) -> None:
    async with listening(made, users, session_ms=50) as found:
        connection = await found.open(lambda: credentials(made, "SCRAM-SHA-512"))
        users.set("alice", SCRAM_SHA_512="another")
        await asyncio.sleep(0.1)
        with pytest.raises(PeerRefusesError, match="correct sasl.jaas.config"):
            await shut_down(connection)
        assert not connection.is_open


class Peer:
    """A client that does what it likes."""

    def __init__(self, raw: RawClient) -> None:
        self.raw = raw

    async def call(self, message: Message, version: int, response: type[Any]) -> Any:
        self.raw.send(encode_request(message, version, 1, "c"))
        return decode_response(response, version, await self.raw.frame())[1]

    async def begin(self, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
        found: SaslHandshakeResponse = await self.call(
            SaslHandshakeRequest(mechanism=mechanism), version, SaslHandshakeResponse
        )
        return found

    async def prove(self, message: bytes = b"\0alice\0a=secret", version: int = 2) -> SaslAuthenticateResponse:
        request = SaslAuthenticateRequest(auth_bytes=message)
        found: SaslAuthenticateResponse = await self.call(request, version, SaslAuthenticateResponse)
        return found


@asynccontextmanager
async def peer(endpoint: Endpoint) -> AsyncIterator[Peer]:
    async with raw_client(endpoint) as raw:
        yield Peer(raw)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_versions_of_the_exchange(made: Setup, users: Directory, version: int) -> None:
    async with listening(made, users) as found, peer(found.endpoint) as client:
        versions = await client.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= {v.api_key for v in versions.api_keys}
        assert (await client.begin()).mechanisms == MECHANISMS
        answer = await client.prove(version=version)
        assert (answer.error_code, answer.error_message) == (0, None)
        assert answer.session_lifetime_ms == (3_600_000 if version else 0)
        assert (await client.call(SHUTDOWN, 3, ShutdownAnswer)).error_code == 0


async def test_messages_without_headers_after_the_oldest_handshake(made: Setup, users: Directory) -> None:
    async with listening(made, users) as found, peer(found.endpoint) as client:
        await client.begin(version=0)
        client.raw.send(b"\0alice\0a=secret")
        assert await client.raw.frame() == b""
        assert (await client.call(SHUTDOWN, 3, ShutdownAnswer)).error_code == 0


async def test_before_the_authentication_nothing_else_is_answered(made: Setup, users: Directory) -> None:
    async with listening(made, users) as found:
        async with peer(found.endpoint) as client:
            client.raw.send(encode_request(SHUTDOWN, 3, 1, "c"))
            assert await client.raw.is_closed()
        async with peer(found.endpoint) as client:
            assert (await client.prove()).error_code == ErrorCode.ILLEGAL_SASL_STATE
            client.raw.send(encode_request(SHUTDOWN, 3, 1, "c"))
            assert await client.raw.is_closed()
        async with peer(found.endpoint) as client:
            await client.begin()
            client.raw.send(encode_request(SHUTDOWN, 3, 1, "c"))
            assert await client.raw.is_closed()
        async with peer(found.endpoint) as client:
            # A request of a length that only those have who are known.
            client.raw.writer.write((40_000).to_bytes(4, "big"))
            assert await client.raw.is_closed()
        assert found.handler.asked == []


async def test_one_attempt_for_each_connection(made: Setup, users: Directory) -> None:
    async with listening(made, users, failure_delay_ms=20) as found, peer(found.endpoint) as client:
        await client.begin()
        began = time.monotonic()
        assert (await client.prove(b"\0alice\0wrong")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert time.monotonic() - began >= 0.02
        client.raw.send(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "c"))
        assert await client.raw.is_closed()


async def test_a_connection_keeps_its_user(made: Setup, users: Directory) -> None:
    users.set("bob", SCRAM_SHA_512="bobs")
    async with listening(made, users, plain_users={"bob": Secret("b")}) as found, peer(found.endpoint) as client:
        await client.begin()
        await client.prove()
        await client.begin()
        answer = await client.prove(b"\0bob\0b")
        why = "re-authentication cannot change the user of a connection from User:alice to User:bob"
        assert (answer.error_code, answer.error_message) == (58, why)
        client.raw.send(encode_request(SHUTDOWN, 3, 1, "c"))
        assert await client.raw.is_closed()


async def test_a_connection_keeps_its_mechanism(made: Setup, users: Directory) -> None:
    """As Kafka has it: the handshake succeeds, and the message after it closes the connection without an answer."""
    async with listening(made, users) as found, peer(found.endpoint) as client:
        await client.begin()
        await client.prove()
        await client.begin()
        assert (await client.prove()).error_code == 0
        assert (await client.begin("SCRAM-SHA-512")).error_code == 0
        client.raw.send(encode_request(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abcdefghijkl"), 2, 1, "c"))
        assert await client.raw.is_closed()
    async with listening(made, users) as found, peer(found.endpoint) as client:
        await client.begin()
        await client.prove()
        await client.begin("SCRAM-SHA-512")
        client.raw.send(encode_request(SHUTDOWN, 3, 1, "c"))
        assert await client.raw.is_closed()
        assert found.handler.asked == []


@pytest.mark.parametrize("changed", [("SCRAM-SHA-512", "alice"), ("PLAIN", "bob")])
async def test_credentials_of_another_user_or_mechanism_are_for_another_connection(
    made: Setup, users: Directory, changed: tuple[str, str]
) -> None:
    """A file that is replaced by one for another user is no wrong password: nobody is asked, and nothing was sent."""
    mechanism, user = changed
    given = [credentials(made, "PLAIN"), credentials(made, mechanism, user=user)]
    async with listening(made, users, session_ms=700) as found:
        connection = await found.open(lambda: given.pop(0))
        why = ""
        while connection.is_open:
            try:
                assert await shut_down(connection) is ErrorCode.NONE
            except PeerNotConnectedError as error:
                why = str(error)
    assert why.endswith(f"made as alice by PLAIN, and the credentials are those of {user} by {mechanism}")
    assert given == []


async def test_a_request_after_the_end_of_the_session_closes_the_connection(made: Setup, users: Directory) -> None:
    async with listening(made, users, session_ms=20) as found, peer(found.endpoint) as client:
        await client.begin()
        assert (await client.prove()).session_lifetime_ms == 20
        await asyncio.sleep(0.03)
        client.raw.send(encode_request(SHUTDOWN, 3, 1, "c"))
        assert await client.raw.is_closed()
        assert found.handler.asked == []


async def test_who_does_not_authenticate_in_time_is_disconnected(made: Setup, users: Directory) -> None:
    handler = Scripted(lambda _: None)
    async with (
        kafka_listener(handler, sasl=made.sasl(), users=users, socket_connection_setup_timeout_ms=50) as servers,
        peer(servers.endpoints[0]) as client,
    ):
        # A slow machine may not even answer it in time.
        client.raw.send(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "c"))
        await client.raw.until_closed()


async def test_users_that_are_not_known_yet_make_clients_come_again(made: Setup, users: Directory) -> None:
    """Kafka's clients take an error for a wrong password, and end."""
    users.is_loaded = False
    async with listening(made, users) as found, peer(found.endpoint) as client:
        await client.begin("SCRAM-SHA-512")
        client.raw.send(encode_request(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abcdefghijkl"), 2, 1, "c"))
        assert await client.raw.is_closed()


class Rules:
    """The access rules of a controller whose brokers are super users."""

    authorizer = Authorizer({}, super_users=frozenset({Principal("User", "broker")}), allow_unlisted=False)


async def test_only_who_may_act_for_the_cluster_sends_what_brokers_send(made: Setup, users: Directory) -> None:
    users.set("broker", SCRAM_SHA_512="of brokers")
    behind = Scripted(lambda _: ControlledShutdownResponse(ErrorCode.NONE, ()))
    handler = guarded(behind, Rules(), Metrics())
    async with kafka_listener(handler, sasl=made.sasl(), users=users) as servers:
        found = Listening(servers.endpoints[0], behind)
        alice = await found.open(lambda: credentials(made, "SCRAM-SHA-512"))
        assert await shut_down(alice) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert behind.asked == []
        broker = await found.open(lambda: credentials(made, "SCRAM-SHA-512", "of brokers", "broker"))
        assert await shut_down(broker) is ErrorCode.NONE
        alice.close()
        broker.close()


async def test_what_brokers_ask_by_sasl_is_taken_only_so(made: Setup, users: Directory) -> None:
    handler = Scripted(lambda _: ControlledShutdownResponse(ErrorCode.NONE, ()))
    endpoint = Endpoint("127.0.0.1", 1, "PLAINTEXT", "SASL_PLAINTEXT")
    broker = replace(CONTROLLER, endpoints=(endpoint,))
    async with kafka_listener(handler, [broker]) as servers:
        connection = await Listening(servers.endpoints[0], handler).open(None)
        assert await shut_down(connection) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        connection.close()
    async with kafka_listener(handler, [broker], sasl=made.sasl(), users=users) as servers:
        connection = await Listening(servers.endpoints[0], handler).open(lambda: credentials(made, "PLAIN"))
        assert await shut_down(connection) is ErrorCode.NONE
        connection.close()


@pytest.mark.parametrize(("super_users", "is_taken"), [("", False), ("User:alice", True)])
async def test_while_an_authorizer_is_switched_on_only_brokers_are_taken_for_brokers(
    made: Setup, users: Directory, super_users: str, is_taken: bool
) -> None:
    """One broker has an authorizer by now, the controller none."""
    users.set("broker", SCRAM_SHA_512="of brokers")
    handler = Scripted(lambda _: ControlledShutdownResponse(ErrorCode.NONE, ()))
    broker = replace(CONTROLLER, endpoints=(Endpoint("127.0.0.1", 1, "PLAINTEXT", "SASL_PLAINTEXT"),))
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    settings = {
        "sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-512",
        "sasl_jaas_config": f'{module} required username="broker" password="of brokers";',
        "super_users": super_users,
    }
    authorizers = Authorizers()
    options = {"authorizers": authorizers, "sasl": made.sasl(), "users": users, **settings}
    async with kafka_listener(handler, [broker], **options) as servers:
        found = Listening(servers.endpoints[0], handler)
        alice = await found.open(lambda: credentials(made, "SCRAM-SHA-512"))
        own = await found.open(lambda: credentials(made, "SCRAM-SHA-512", "of brokers", "broker"))
        assert [await shut_down(one) for one in (alice, own)] == [ErrorCode.NONE] * 2
        peer_ = KafkaPeer({ApiKey.DESCRIBE_ACLS: lambda _: DescribeAclsResponse()})
        async with kafka_broker(peer_) as guarded_broker:
            endpoint = guarded_broker.endpoints[0]
            connection = await KafkaConnection.open(endpoint, client_id="c", timeout_s=TIMEOUT_S)
            await authorizers.ask(BrokerId(1), connection)
            connection.close()
        refused = ErrorCode.NONE if is_taken else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert [await shut_down(one) for one in (alice, own)] == [refused, ErrorCode.NONE]
        for one in (alice, own):
            one.close()


def garbage(random: Random) -> Iterator[bytes]:
    """What a stranger may send: requests of every kind, messages of mechanisms, and pieces and mixtures of them."""
    frames = [
        encode_request(ApiVersionsRequest(client_software_name="c"), 3, 1, "c"),
        encode_request(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), random.choice((0, 1)), 2, "c"),
        encode_request(
            SaslHandshakeRequest(mechanism=random.choice(("PLAIN", "OAUTHBEARER", "GSSAPI", ""))), 1, 3, "c"
        ),
        encode_request(SaslAuthenticateRequest(auth_bytes=random.randbytes(random.randrange(200))), 2, 4, "c"),
        encode_request(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abcdefghijkl"), 1, 5, "c"),
        encode_request(SaslAuthenticateRequest(auth_bytes=b"\0nobody\0"), 0, 6, "c"),
        encode_request(SHUTDOWN, 3, 7, "c"),
        random.randbytes(random.randrange(300)),
        b"n,,n=alice,r=abcdefghijkl",
    ]
    for frame in random.sample(frames, len(frames)):
        changed = bytearray(frame)
        for _ in range(random.choice((0, 0, 1, 3))):
            if changed:
                changed[random.randrange(len(changed))] = random.randrange(256)
        yield bytes(changed[: random.choice((len(changed), random.randrange(len(changed) + 1)))])


async def test_strangers_who_send_anything_get_nowhere(
    made: Setup, users: Directory, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(made, users) as found:
        for seed in range(60):
            async with peer(found.endpoint) as stranger:
                stranger.raw.send(*garbage(Random(seed)))
                stranger.raw.writer.write_eof()
                await stranger.raw.reader.read()
        assert found.handler.asked == []
        connection = await found.open(lambda: credentials(made, "SCRAM-SHA-512"))
        assert await shut_down(connection) is ErrorCode.NONE
        connection.close()
    assert not [record for record in caplog.records if record.exc_info]
