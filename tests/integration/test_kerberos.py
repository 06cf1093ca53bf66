"""Kerberos itself: a key distribution center on loopback, both sides of an exchange, and what is said when it fails."""

import asyncio
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError
from msgspec.structs import replace

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from cluster.kafka_wire.client_authentication import authenticate
from cluster.kafka_wire.messages.authentication import (
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from cluster.model.broker import Endpoint
from cluster.model.errors import (
    ConfigError,
    ErrorCode,
    PeerRefusesError,
    PeerUnreachableError,
    ZooKeeperAuthenticationError,
)
from cluster.sasl.clients import ClientCredentials
from cluster.sasl.gssapi import GssapiClientExchange, GssapiServerExchange
from cluster.sasl.kerberos import KerberosLogin, begin_as_client, begin_as_server, check_keytab, own_realm
from cluster.sasl.mechanisms import AuthenticationFailedError, SaslStep
from cluster.tls.secret import Secret
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.login import Credentials, Scheme, parse_login
from cluster.zookeeper.port import Create, ZkError
from tests.conftest import TEST_SERVER
from tests.controllers.plain_zookeeper import plain_client
from tests.processes.kdc import REALM, Kdc, running_kdc, write_config

SERVICE = "kafka/localhost"


@pytest.fixture(scope="module")
def center(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with running_kdc(tmp_path_factory.mktemp("kdc")) as found:
        yield found


@pytest.fixture
def kdc(center: Kdc, monkeypatch: pytest.MonkeyPatch) -> Kdc:
    monkeypatch.setenv("KRB5_CONFIG", str(center.config))
    return center


def login(keytab: Path, principal: str, service: str = "kafka") -> KerberosLogin:
    return KerberosLogin(f"{principal}@{REALM}", str(keytab), service)


def user_of(client: KerberosLogin, server: KerberosLogin, host: str = "localhost") -> SaslStep:
    """The last step of the server."""
    of_client = GssapiClientExchange(lambda: begin_as_client(client, host))
    of_server = GssapiServerExchange(lambda: begin_as_server(server), lambda principal: principal)
    step = SaslStep()
    while (message := of_client.step(step.answer)) is not None:
        step = of_server.step(message)
    return step


def test_a_principal_proves_who_it_is_to_another(kdc: Kdc) -> None:
    server, client = login(kdc.keytab("server", SERVICE), SERVICE), login(kdc.keytab("alice", "alice"), "alice")
    step = user_of(client, server)
    assert step.user == f"alice@{REALM}"
    assert step.lifetime_s is not None
    assert step.lifetime_s > 60
    assert own_realm() == REALM


def test_tickets_last_while_no_center_answers(kdc: Kdc) -> None:
    server, client = login(kdc.keytab("server", SERVICE), SERVICE), login(kdc.keytab("ann", "ann"), "ann")
    user_of(client, server)
    kdc.stop()
    try:
        assert user_of(client, server).user == f"ann@{REALM}"
        new = login(kdc.keytab("new", "new"), "new")
        with pytest.raises(
            ConfigError, match="Cannot contact any KDC for realm .*: start the KDC, or correct its addre"
        ):
            user_of(new, server)
    finally:
        kdc.start()


def test_what_keeps_a_client_from_a_ticket_is_said_with_what_to_do(kdc: Kdc) -> None:
    keytab = kdc.keytab("bob", "bob")
    client, server = login(keytab, "bob"), login(kdc.keytab("server", SERVICE), SERVICE)
    with pytest.raises(
        ConfigError, match=f"kafka/elsewhere@{REALM} not found in Kerberos database: make it in the KDC"
    ):
        user_of(client, server, "elsewhere")
    with pytest.raises(ConfigError, match=f"No key table entry found for nobody@{REALM}"):
        user_of(login(keytab, "nobody"), server)
    old = shutil.copy(keytab, kdc.folder / "old.keytab")
    kdc.keytab("bob", "bob")
    with pytest.raises(ConfigError, match="the keytab has old keys: export it again from the KDC"):
        user_of(login(Path(old), "bob"), server)


def test_what_keeps_a_server_from_taking_a_ticket_is_for_its_log(kdc: Kdc) -> None:
    client = login(kdc.keytab("eve", "eve"), "eve")
    server = login(kdc.keytab("of-other", "kafka/other"), "kafka/other")
    kdc.keytab("server", SERVICE)
    with pytest.raises(AuthenticationFailedError) as failed:
        user_of(client, server)
    assert "the keytab of the login module lacks the keys of the principal that clients ask for" in failed.value.why
    assert SERVICE not in str(failed.value)
    with pytest.raises(AuthenticationFailedError):
        GssapiServerExchange(lambda: begin_as_server(server), str).step(b"no token")


@pytest.fixture
def silence(tmp_path: Path) -> Iterator[Path]:
    """The krb5.conf of a center that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listening:
        path = tmp_path / "silent.conf"
        write_config(path, listening.getsockname()[1])
        yield path


class OfServer:
    """What a broker answers to the requests of an authentication; by GSSAPI if it has a login."""

    def __init__(self, own: KerberosLogin | None = None) -> None:
        self._exchange = None if own is None else GssapiServerExchange(lambda: begin_as_server(own), str)
        self.users: list[str] = []

    async def call(self, request: Any, _version: int, _response: type[Any], *, timeout_s: float) -> Any:
        assert timeout_s
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=(request.mechanism,))
        if self._exchange is None:
            return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
        step = self._exchange.step(request.auth_bytes)
        self.users += [step.user] if step.user else []
        return SaslAuthenticateResponse(auth_bytes=step.answer)


def at(host: str) -> Endpoint:
    return Endpoint(host, 9092, "SASL_PLAINTEXT", "SASL_PLAINTEXT")


async def test_who_waits_for_a_center_that_does_not_answer_holds_up_nobody_else(
    kdc: Kdc, silence: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither brokers whose tickets are there, nor those with passwords."""
    server, own = login(kdc.keytab("server", SERVICE), SERVICE), login(kdc.keytab("carl", "carl"), "carl")
    user_of(own, server)
    monkeypatch.setenv("KRB5_CONFIG", str(silence))
    of_own = ClientCredentials("GSSAPI", "carl", kerberos=own)
    hosts = [f"host-{number}" for number in range(20)]
    waiting = [
        asyncio.create_task(authenticate(OfServer().call, at(host), lambda: of_own, timeout_s=60)) for host in hosts
    ]
    given_up = authenticate(OfServer().call, at("gone"), lambda: of_own, timeout_s=0.5)
    with pytest.raises(PeerUnreachableError, match="not ready within 0.5 s: does the KDC in krb5.conf answer?"):
        await given_up
    by_password = ClientCredentials("PLAIN", "dora", Secret("secret"))
    with pytest.raises(PeerRefusesError):
        await authenticate(OfServer().call, at("of-passwords"), lambda: by_password, timeout_s=20)
    known = OfServer(server)
    await authenticate(known.call, at("localhost"), lambda: of_own, timeout_s=20)
    assert known.users == [f"carl@{REALM}"]
    assert not any(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (None, 0o600, "No such file or directory"),
        (b"garbage", 0o600, "Unsupported key table format version number"),
        (b"", 0o600, "keyTab"),
        (b"\5\2", 0o644, "has keys, and others may read or change it (mode 644): chmod 600"),
        (b"\5\2", 0o600, "No key table entry found for alice@"),
    ],
)
def test_a_keytab_that_cannot_be_used_is_named(
    kdc: Kdc, tmp_path: Path, content: bytes | None, mode: int, why: str
) -> None:
    path = tmp_path / "keytab"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    with pytest.raises(ConfigError) as error:
        check_keytab(login(path, "alice"))
    assert str(path) in str(error.value)
    assert why in str(error.value)


@pytest.mark.real
def test_a_session_at_zookeeper_is_that_of_the_principal(
    kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it creates belongs to it, and is closed to everyone else."""
    server = kdc.keytab("zookeeper", "zookeeper/localhost")
    own = kdc.keytab("controller", "kafka/localhost")
    jaas = tmp_path / "server.jaas"
    options = f'useKeyTab=true storeKey=true keyTab="{server}" principal="zookeeper/localhost@{REALM}"'
    jaas.write_text(f"Server {{ com.sun.security.auth.module.Krb5LoginModule required {options}; }};")
    system = {
        "java.security.krb5.conf": kdc.config,
        "java.security.auth.login.config": jaas,
        "zookeeper.authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join(f"-D{key}={value}" for key, value in system.items()))
    section = f'useKeyTab=true keyTab="{own}" principal="kafka/localhost@{REALM}"'
    login_text = f"Client {{ com.sun.security.auth.module.Krb5LoginModule required {section}; }};"
    credentials = parse_login(login_text, "Client", Scheme.SASL)
    with EmbeddedZooKeeper(tmp_path / "zookeeper", settings=TEST_SERVER) as zookeeper:
        address = zookeeper.address.replace("127.0.0.1", "localhost")
        asyncio.run(_create_as(address, credentials))
        with plain_client(address) as anonymous:
            (acl,) = [acl for acl in anonymous.get_acls("/config")[0] if acl.id.scheme == "sasl"]
            assert acl.id.id == f"kafka/localhost@{REALM}"
            with pytest.raises(NoAuthError):
                anonymous.get("/config/users")
        stranger = replace(credentials, kerberos=login(own, "kafka/localhost", "no-zookeeper"))
        with pytest.raises(ZooKeeperAuthenticationError):
            asyncio.run(_create_as(address, stranger))


async def _create_as(address: str, credentials: Credentials) -> None:
    client = KazooZooKeeper(
        address, session_timeout_ms=6000, connection_timeout_ms=20_000, credentials=credentials, sets_acl=True
    )
    client.listen(lambda _: None)
    try:
        await client.start_session()
        # The client reads what is open, and owns what it makes.
        done = await client.multi([Create("/config", b""), Create("/config/users", b"")])
        assert not any(isinstance(one, ZkError) for one in done), done
    finally:
        await client.close()
