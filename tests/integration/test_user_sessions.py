"""Users who authenticate with a password or a token, over real gRPC and TLS: who gets in, who does not, and what
happens when tokens end, passwords are replaced, and processes restart.
"""

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec.structs import replace
from scramp import ScramMechanism

from admin.connecting.client import AdminClient
from cluster.config.client_properties import read_client_security
from cluster.config.scram_users import ScramUsers
from cluster.metrics.registry import Metrics
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests.authentication import AuthenticateRequest
from cluster.requests.cluster import DescribeClusterRequest, WatchRequest
from cluster.rpc.authentication import Authentication
from cluster.rpc.client import RpcClient
from cluster.rpc.methods import METHOD_OF_REQUEST, encode_request
from cluster.rpc.serving import Listener, RpcServer
from cluster.rpc.sessions import UserSession
from cluster.rpc.transport_security import ChannelSecurity
from cluster.sasl.bearer import BearerRules
from cluster.sasl.clients import ClientCredentials
from cluster.sasl.listeners import ListenerSasl
from cluster.sasl.scram import parse_credential
from cluster.security.identities import Identity, NodeName, NodeRole
from cluster.security.principals import ANONYMOUS, Principal
from cluster.tls.live import ListenerTls, LiveMaterial
from cluster.tls.secret import Secret
from cluster.tls.settings import TlsSettings
from controller.adapters.grpc_server import serve_controller
from tests.conformance.agent.test_metrics import scrape
from tests.processes.certificates import Issuer, write_secret
from tests.processes.scripted_servers import DESCRIPTION, TIMEOUT_MS, Scripted
from tests.timeouts import TIMEOUT_S

YEAR_MS = 2**31 - 1
NAME = "EXTERNAL"
ALL = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
RULES = BearerRules(("klamm",), "https://issuer.example")
ALICE = Principal("User", "alice")
FAILURES = "kafka_server_socket_server_metrics_failed_authentication_total"
FAILED = "authentication failed: unknown user, or wrong password or token"


def scram(password: str, mechanism: str, iterations: int = 4096) -> str:
    """As it is in ZooKeeper."""
    salt, stored, server, count = ScramMechanism(mechanism).make_auth_info(password, iterations)
    parts = {"salt": salt, "stored_key": stored, "server_key": server}
    return ",".join(f"{name}={b64encode(value).decode()}" for name, value in parts.items()) + f",iterations={count}"


class Directory(ScramUsers):
    """Users as tests set them."""

    def __init__(self) -> None:
        super().__init__(is_needed=True)
        self.is_loaded = True

    def set(self, user: str, **passwords: str) -> None:
        given = {name.replace("_", "-"): password for name, password in passwords.items()}
        self._set(user, {name: parse_credential(name, scram(password, name)) for name, password in given.items()})


class Setup:
    """Files of one server and its clients."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.issuer = folder, Issuer(folder)
        self.node = self.issuer.issue("node", uri="klamm://controller/1")
        self.client = self.issuer.issue("client", subject="machine", uri="klamm://broker/7")
        self.key = ec.generate_private_key(ec.SECP256R1())
        described = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
        self.keys, self.passwords, self.token = folder / "keys.json", folder / "passwords", folder / "token"
        self.keys.write_text(json.dumps({"keys": [{**described, "kid": "k1", "alg": "ES256"}]}))
        write_secret(self.passwords, b"alice=a=secret\n")

    def sasl(self, **different: Any) -> ListenerSasl:
        made = ListenerSasl(ALL, 3_600_000, str(self.passwords), str(self.keys), RULES)
        return replace(made, **different)

    def write_token(self, *, kid: str = "k1", **claims: Any) -> Path:
        usual = {"sub": "alice", "aud": "klamm", "iss": RULES.issuer, "exp": time.time() + 600}
        given = {name: value for name, value in (usual | claims).items() if value is not None}
        write_secret(self.token, jwt.encode(given, self.key, "ES256", headers={"kid": kid}).encode() + b"\n")
        return self.token

    def material(self, *, shows: Path | None = None) -> LiveMaterial:
        own = None if shows is None else str(shows)
        return LiveMaterial(TlsSettings(keystore_location=own, truststore_location=str(self.issuer.authority)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    return Setup(tmp_path_factory.mktemp("users"))


@pytest.fixture
def users() -> Iterator[Directory]:
    directory = Directory()
    directory.set("alice", SCRAM_SHA_256="secret", SCRAM_SHA_512="long")
    return directory


class Server:
    """A server at one listener, and the sessions of its users."""

    def __init__(self, running: RpcServer, handler: Scripted, authentication: Authentication) -> None:
        self.running, self.handler, self.sessions = running, handler, authentication.sessions

    @property
    def address(self) -> str:
        return self.running.address

    @property
    def callers(self) -> list[Identity]:
        return [context.identity for context, _ in self.handler.asked]


@asynccontextmanager
async def serving(
    made: Setup,
    users: Directory,
    *,
    port: int = 0,
    wants_certificates: bool = False,
    answer: Callable[[Any], Any] = lambda _: DESCRIPTION,
    metrics: Metrics | None = None,
    **different: Any,
) -> AsyncIterator[Server]:
    registry = Metrics() if metrics is None else metrics
    authentication = Authentication({NAME: made.sasl(**different)}, users, registry, failure_delay_ms=0)
    users.on_removal = authentication.end_sessions_of
    handler = Scripted(answer)
    tls = ListenerTls(made.material(shows=made.node), wants_certificates, YEAR_MS)
    listener = Listener(f"127.0.0.1:{port}", NAME, tls=tls, authentication=authentication)
    server = await serve_controller(listener, handler, registry)
    try:
        yield Server(server, handler, authentication)
    finally:
        await server.stop(0)


@asynccontextmanager
async def calling(
    made: Setup, credentials: ClientCredentials | Callable[[], ClientCredentials] | None, *, shows: Path | None = None
) -> AsyncIterator[RpcClient]:
    read = (lambda: credentials) if isinstance(credentials, ClientCredentials) else credentials
    client = RpcClient(security=ChannelSecurity(made.material(shows=shows)), sasl=read)
    try:
        yield client
    finally:
        await client.close()


async def ask(client: RpcClient, server: Server) -> None:
    assert await client.call(server.address, DescribeClusterRequest(), TIMEOUT_MS) == DESCRIPTION


def password(mechanism: str, text: str, user: str = "alice") -> ClientCredentials:
    return ClientCredentials(mechanism, user, Secret(text))


RIGHT = {"SCRAM-SHA-256": "secret", "SCRAM-SHA-512": "long", "PLAIN": "a=secret"}


def credentials(made: Setup, mechanism: str, text: str | None = None) -> ClientCredentials:
    if mechanism == "OAUTHBEARER":
        return ClientCredentials(mechanism, token_file=str(made.write_token()))
    return password(mechanism, RIGHT[mechanism] if text is None else text)


@pytest.mark.parametrize("mechanism", ALL)
async def test_each_mechanism_proves_who_a_user_is(made: Setup, users: Directory, mechanism: str) -> None:
    async with serving(made, users) as server, calling(made, credentials(made, mechanism)) as client:
        for _ in range(2):
            await ask(client, server)
        assert server.callers == [Identity(ALICE, "127.0.0.1")] * 2
        assert [context.principal for context, _ in server.handler.asked] == ["User:alice"] * 2
        assert len(server.sessions) == 1


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
@pytest.mark.parametrize("user", ["alice", "nobody"])
async def test_an_unknown_user_gets_the_same_answer_as_a_wrong_password(
    made: Setup, users: Directory, mechanism: str, user: str
) -> None:
    metrics = Metrics()
    async with (
        serving(made, users, metrics=metrics) as server,
        calling(made, password(mechanism, "wrong", user)) as client,
    ):
        with pytest.raises(ApiError) as refused:
            await ask(client, server)
        assert (refused.value.code, refused.value.message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, FAILED)
        assert server.callers == []
    assert scrape(metrics)[FAILURES] == 1


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"aud": None},
        {"iss": None},
        {"aud": "others"},
        {"iss": "https://other.example"},
        {"kid": "k2"},
        {"nbf": time.time() + 3600},
    ],
)
async def test_a_token_that_is_not_for_this_cluster_is_refused(
    made: Setup, users: Directory, claims: Mapping[str, Any]
) -> None:
    file = made.write_token(**claims)
    async with (
        serving(made, users) as server,
        calling(made, ClientCredentials("OAUTHBEARER", token_file=str(file))) as client,
    ):
        with pytest.raises(ApiError, match=FAILED):
            await ask(client, server)


async def test_nobody_is_answered_who_has_not_authenticated(made: Setup, users: Directory) -> None:
    async with serving(made, users) as server, calling(made, None) as client:
        with pytest.raises(ApiError, match="answers users only who have authenticated, by SCRAM-SHA-256") as refused:
            await ask(client, server)
        assert refused.value.code is ErrorCode.ILLEGAL_SASL_STATE
    async with serving(made, users, allows_anonymous=True) as server, calling(made, None) as client:
        await ask(client, server)
        assert server.callers == [Identity(ANONYMOUS, "127.0.0.1")]


async def test_a_certificate_counts_without_a_token_and_names_the_node_with_one(made: Setup, users: Directory) -> None:
    node = NodeName(NodeRole.BROKER, 7)
    async with serving(made, users, wants_certificates=True) as server:
        async with calling(made, None, shows=made.client) as client:
            await ask(client, server)
        async with calling(made, password("PLAIN", "a=secret"), shows=made.client) as client:
            await ask(client, server)
    assert server.callers == [
        Identity(Principal("User", "CN=machine"), "127.0.0.1", node),
        Identity(ALICE, "127.0.0.1", node),
    ]


async def with_token(made: Setup, server: Server, token: str, shows: Path) -> None:
    """Call with this token, which another one may have got."""
    method = METHOD_OF_REQUEST[DescribeClusterRequest]
    security = ChannelSecurity(made.material(shows=shows))
    async with grpc.aio.secure_channel(server.address, security.credentials()) as channel:
        metadata = (("authorization", f"Bearer {token}"),)
        await channel.unary_unary(method.path)(
            encode_request(DescribeClusterRequest()), metadata=metadata, timeout=TIMEOUT_S
        )


async def refused(made: Setup, server: Server, token: str, shows: Path) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await with_token(made, server, token, shows)
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
    return error.value.details() or ""


async def token_of(made: Setup, server: Server, shows: Path) -> str:
    security = ChannelSecurity(made.material(shows=shows))
    request = AuthenticateRequest("PLAIN", "", b"\0alice\0a=secret")
    async with grpc.aio.secure_channel(server.address, security.credentials()) as channel:
        method = METHOD_OF_REQUEST[AuthenticateRequest]
        answer = await channel.unary_unary(method.path)(encode_request(request), timeout=TIMEOUT_S)
    return str(method.response.decode(answer).token)


async def test_a_token_counts_with_its_process_and_its_certificate_only(made: Setup, users: Directory) -> None:
    other = made.issuer.issue("other", subject="other")
    async with (
        serving(made, users, wants_certificates=True) as server,
        serving(made, users, wants_certificates=True) as second,
    ):
        token = await token_of(made, server, made.client)
        await with_token(made, server, token, made.client)
        assert "issued to a client with another certificate" in await refused(made, server, token, other)
        for where, given in ((second, token), (server, "x")):
            why = await refused(made, where, given, made.client)
            assert "this process does not know the token" in why
            assert "call Authenticate again" in why


async def test_a_client_authenticates_again_by_itself_after_a_restart(made: Setup, users: Directory) -> None:
    async with calling(made, password("SCRAM-SHA-256", "secret")) as client:
        async with serving(made, users) as server:
            await ask(client, server)
            port = server.running.port
        async with serving(made, users, port=port) as server:
            async with asyncio.timeout(TIMEOUT_S):
                while not server.callers:
                    try:
                        await ask(client, server)
                    except PeerUnreachableError:
                        await asyncio.sleep(0.01)
            assert server.callers == [Identity(ALICE, "127.0.0.1")]


async def test_a_user_who_is_removed_is_out_at_once(made: Setup, users: Directory) -> None:
    async with serving(made, users) as server, calling(made, password("SCRAM-SHA-256", "secret")) as client:
        await ask(client, server)
        users.set("alice")
        with pytest.raises(ApiError, match=FAILED):
            await ask(client, server)


async def test_a_password_is_replaced_under_load_and_no_call_notices(made: Setup, users: Directory) -> None:
    # What the file of the client says, each time that it is read: it is replaced later than the password.
    says = ["secret", "secret", "new"]
    begun, metrics = list[UserSession](), Metrics()
    async with (
        serving(made, users, session_ms=1500, metrics=metrics) as server,
        calling(made, lambda: password("SCRAM-SHA-256", says.pop(0))) as client,
    ):
        begin = server.sessions.begin

        def noted(session: UserSession) -> str:
            begun.append(session)
            return begin(session)

        server.sessions.begin = noted  # type: ignore[method-assign]

        async def load() -> None:
            while len(begun) < 2:
                await ask(client, server)

        await ask(client, server)
        users.set("alice", SCRAM_SHA_256="new")
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.gather(load(), load())
        assert scrape(metrics)[FAILURES] == 1
        assert set(server.callers) == {Identity(ALICE, "127.0.0.1")}


async def test_a_watch_outlives_the_sessions_of_its_user(made: Setup, users: Directory) -> None:
    """An idle stream is opened once more; one that has had events is resumed by whoever reads it."""
    opened = asyncio.Queue[Any]()

    def answer(request: Any) -> Any:
        async def forever() -> AsyncIterator[Any]:
            opened.put_nowait(request)
            await asyncio.Event().wait()
            yield None

        return forever()

    async with (
        serving(made, users, session_ms=1000, answer=answer) as server,
        calling(made, password("PLAIN", "a=secret")) as client,
    ):
        stream = client.stream(server.address, WatchRequest("", None))
        reading = asyncio.ensure_future(anext(stream))
        async with asyncio.timeout(TIMEOUT_S):
            await opened.get()
            await opened.get()
        assert not reading.done()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@pytest.mark.parametrize("mechanism", ALL)
async def test_a_file_as_kafkas_tools_take_it_says_who_a_client_is(
    made: Setup, users: Directory, tmp_path: Path, mechanism: str
) -> None:
    file = tmp_path / "client.properties"
    how = f"sasl.oauthbearer.token.endpoint.url=file://{made.write_token()}"
    if mechanism in MODULES:
        how = f'sasl.jaas.config={MODULES[mechanism]} required \\\n  username="alice" password="{RIGHT[mechanism]}";'
    lines = ["security.protocol=SASL_SSL", f"sasl.mechanism={mechanism}", how]
    write_secret(file, "\n".join([*lines, f"ssl.truststore.location={made.issuer.authority}"]).encode())
    security = read_client_security(file)
    async with (
        serving(made, users) as server,
        AdminClient([server.address], timeout_ms=TIMEOUT_MS, tls=security.tls, sasl=security.sasl) as admin,
    ):
        assert await admin.describe_cluster() == DESCRIPTION
        assert set(server.callers) == {Identity(ALICE, "127.0.0.1")}


async def test_a_command_with_a_mechanism_that_the_listener_lacks_ends_at_once(made: Setup, users: Directory) -> None:
    async with (
        serving(made, users, mechanisms=("SCRAM-SHA-512",)) as server,
        AdminClient(
            [server.address],
            timeout_ms=TIMEOUT_MS,
            tls=made.material().settings,
            sasl=lambda: password("SCRAM-SHA-256", "wrong"),
        ) as admin,
    ):
        with pytest.raises(ApiError, match="has no SCRAM-SHA-256, only SCRAM-SHA-512") as refused:
            await admin.describe_cluster()
    assert refused.value.code is ErrorCode.UNSUPPORTED_SASL_MECHANISM


async def test_a_command_with_a_wrong_password_ends_at_once(made: Setup, users: Directory) -> None:
    async with (
        serving(made, users) as server,
        AdminClient(
            [server.address],
            timeout_ms=TIMEOUT_MS,
            tls=made.material().settings,
            sasl=lambda: password("SCRAM-SHA-512", "wrong"),
        ) as admin,
    ):
        with pytest.raises(ApiError, match=FAILED):
            await admin.describe_cluster()
