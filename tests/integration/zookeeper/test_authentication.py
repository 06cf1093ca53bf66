"""Authentication on a real ZooKeeper server: SASL as Kafka does it, ZooKeeper's own digest, and refusals."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from cluster.metrics.registry import Metrics
from cluster.model.errors import ZooKeeperAccessError, ZooKeeperAuthenticationError
from cluster.tls.secret import Secret
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.login import Credentials, Scheme
from cluster.zookeeper.port import Create, SessionState, SetData, ZkError
from tests.conftest import TEST_SERVER
from tests.contract.zookeeper_worlds import Events, eventually
from tests.controllers.plain_zookeeper import plain_client
from tests.timeouts import TIMEOUT_S

pytestmark = [pytest.mark.real, pytest.mark.rule("ZK-6")]

DIGEST = Credentials(Scheme.DIGEST, "klamm", Secret('a "secret", as\\it were'))
SASL = Credentials(Scheme.SASL, "klamm", Secret("secret"))
USERS = 'user_klamm="secret" user_other="others"'

Connect = Callable[..., Awaitable[tuple[KazooZooKeeper, Events]]]


def write_users(login: Path, users: str) -> None:
    login.write_text(f"Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required {users}; }};")


@pytest.fixture
def sasl_server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """A server that knows the users "klamm" and "other"."""
    login = tmp_path / "server.jaas"
    write_users(login, USERS)
    server = EmbeddedZooKeeper(tmp_path / "zookeeper", settings=replace(TEST_SERVER, login_file=login)).start()
    yield server
    server.stop()


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    clients = []

    async def make(address: str, credentials: Credentials | None, **options: Any) -> tuple[KazooZooKeeper, Events]:
        events = Events()
        client = KazooZooKeeper(
            address,
            session_timeout_ms=30_000,
            connection_timeout_ms=TIMEOUT_S * 1000,
            credentials=credentials,
            **options,
        )
        clients.append(client)
        client.listen(events)
        await client.start_session()
        return client, events

    yield make
    for client in clients:
        await client.close()


def access_lists(address: str, *paths: str, user: Credentials) -> list[set[tuple[str, str, int]]]:
    """What a tool of the operator sees: (scheme, id, permissions) of each node."""
    sasl = {"mechanism": "DIGEST-MD5", "username": user.username, "password": user.password.reveal()}
    digest = [("digest", f"{user.username}:{user.password.reveal()}")]
    is_sasl = user.scheme is Scheme.SASL
    proof: dict[str, Any] = {"sasl_options": sasl} if is_sasl else {"auth_data": digest}
    with plain_client(address, **proof) as tool:
        return [{(acl.id.scheme, acl.id.id, acl.perms) for acl in tool.get_acls(path)[0]} for path in paths]


async def test_with_sasl_nodes_belong_to_the_user_as_kafka_makes_them(
    sasl_server: EmbeddedZooKeeper, connect: Connect
) -> None:
    metrics = Metrics()
    client, _ = await connect(f"{sasl_server.address}/kafka/one", SASL, sets_acl=True, metrics=metrics)
    paths = ("/brokers", "/config", "/config/users", "/config/brokers", "/consumers")
    assert all(result.ok for result in await client.multi([Create(path) for path in paths]))
    mine, everyone = ("sasl", "klamm", 31), ("world", "anyone", 1)
    found = access_lists(
        sasl_server.address, "/kafka", "/kafka/one", *(f"/kafka/one{path}" for path in paths), user=SASL
    )
    assert found == [
        {mine, everyone},
        {mine, everyone},
        {mine, everyone},
        {mine, everyone},
        {mine},
        {mine},
        {mine, everyone},
    ]
    listener = ("kafka.server", "SessionExpireListener")
    assert metrics.meter(*listener, "ZooKeeperSaslAuthenticationsPerSec").count == 1
    with pytest.raises(ZooKeeperAccessError, match="^the chroot /kafka/two cannot be created: NO_AUTH"):
        await connect(f"{sasl_server.address}/kafka/two", None)


async def test_another_user_of_the_server_is_not_the_owner(sasl_server: EmbeddedZooKeeper, connect: Connect) -> None:
    client, _ = await connect(sasl_server.address, SASL, sets_acl=True)
    assert (await client.multi([Create("/mine")]))[0].ok
    other, _ = await connect(sasl_server.address, Credentials(Scheme.SASL, "other", Secret("others")))
    assert (await other.multi([SetData("/mine", b"x")]))[0].error is ZkError.NO_AUTH


@pytest.mark.parametrize(
    "credentials",
    [Credentials(Scheme.SASL, "klamm", Secret("wrong")), Credentials(Scheme.SASL, "nobody", Secret("secret"))],
)
async def test_a_user_whom_the_server_does_not_accept_gets_no_session(
    sasl_server: EmbeddedZooKeeper, connect: Connect, credentials: Credentials
) -> None:
    # In much less time than a connection may take: nothing is waited for that cannot come.
    async with asyncio.timeout(TIMEOUT_S / 3):
        with pytest.raises(ZooKeeperAuthenticationError):
            await connect(sasl_server.address, credentials)


async def test_a_server_without_users_accepts_none(zookeeper: str, connect: Connect) -> None:
    with pytest.raises(ZooKeeperAuthenticationError):
        await connect(zookeeper, SASL)


async def test_digest_needs_no_users_at_the_server(zookeeper: str, connect: Connect) -> None:
    client, _ = await connect(zookeeper, DIGEST, sets_acl=True)
    assert (await client.multi([Create("/mine")]))[0].ok
    (found,) = access_lists(zookeeper, "/mine", user=DIGEST)
    assert {(scheme, permissions) for scheme, _, permissions in found} == {("digest", 31), ("world", 1)}
    impostor, _ = await connect(zookeeper, Credentials(Scheme.DIGEST, "klamm", Secret("guessed")))
    assert (await impostor.multi([SetData("/mine", b"x")]))[0].error is ZkError.NO_AUTH


async def test_users_who_are_refused_on_a_reconnection_lose_the_session(
    sasl_server: EmbeddedZooKeeper, connect: Connect, tmp_path: Path
) -> None:
    async def restart_with(users: str) -> None:
        write_users(tmp_path / "server.jaas", users)
        await asyncio.to_thread(sasl_server.stop)
        await asyncio.to_thread(sasl_server.start)

    client, events = await connect(sasl_server.address, SASL, sets_acl=True)
    await restart_with('user_klamm="changed"')
    await eventually(lambda: events.states[-1] is SessionState.AUTH_FAILED)
    with pytest.raises(ZooKeeperAuthenticationError):
        await client.start_session()
    await restart_with(USERS)
    await client.start_session()
    assert (await client.multi([Create("/mine")]))[0].ok
