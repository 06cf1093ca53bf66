"""Sessions with a ZooKeeper that takes TLS only, and clients with certificates only."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from cluster.model.errors import OutcomeUnknownError, ZooKeeperUnreachableError
from cluster.requests.control import StateLogHead
from cluster.tls.live import LiveMaterial
from cluster.tls.settings import TlsSettings
from cluster.znodes.paths import STATE_LOG, state_log_path
from cluster.znodes.state_log import encode_heads
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.port import Create, OpResult, SetData, ZkError
from deploy.local.zookeeper import ServerTls
from tests.conftest import TEST_SERVER
from tests.contract.zookeeper_worlds import Events
from tests.processes.certificates import Issuer, write_secret
from tests.processes.commands import run_klamm
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

Connect = Callable[..., Awaitable[KazooZooKeeper]]


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    tls = ServerTls(issuer.issue("zookeeper", subject="zookeeper", names=["127.0.0.1"]), issuer.authority)
    folder = tmp_path_factory.mktemp("zookeeper")
    with EmbeddedZooKeeper(folder, settings=replace(TEST_SERVER, tls=tls)) as started:
        yield started


def settings(keystore: Path | None, authority: Path, **changes: Any) -> TlsSettings:
    location = None if keystore is None else str(keystore)
    made = TlsSettings(keystore_location=location, truststore_location=str(authority), prefix="zookeeper.ssl.")
    return replace(made, **changes)


@pytest.fixture
async def connect(server: EmbeddedZooKeeper) -> AsyncIterator[Connect]:
    clients = []

    async def make(tls: TlsSettings | LiveMaterial, host: str = "127.0.0.1", **options: Any) -> KazooZooKeeper:
        live = LiveMaterial(tls, "zookeeper") if isinstance(tls, TlsSettings) else tls
        # A refusal must be told long before this.
        limits = {"session_timeout_ms": 60_000, "connection_timeout_ms": 60_000}
        client = KazooZooKeeper(f"{host}:{server.port}", **limits, tls=live, **options)
        client.listen(Events())
        clients.append(client)
        await client.start_session()
        return client

    yield make
    for client in clients:
        await client.close()


async def test_large_transactions_and_answers_pass(issuer: Issuer, connect: Connect) -> None:
    """More than a TLS record, and more than a socket takes at once, both ways; several in flight."""
    client = await connect(settings(issuer.issue("node"), issuer.authority))
    paths = [f"/large-{number}" for number in range(8)]
    content = bytes(range(256)) * 3600
    results = await client.multi_many([[Create(path, content)] for path in paths])
    assert all(isinstance(result, list) and result[0].ok for result in results)
    found = await client.get_many(paths)
    assert [znode is not None and znode.data == content for znode in found] == [True] * len(paths)
    await asyncio.gather(*(client.get(paths[0], watch=True) for _ in range(20)))


async def test_znodes_belong_to_the_distinguished_name_which_nodes_share(issuer: Issuer, connect: Connect) -> None:
    nodes = [issuer.issue(f"node-{number}", uri=f"klamm://broker/{number}") for number in (1, 2)]
    first = await connect(settings(nodes[0], issuer.authority), sets_acl=True)
    second = await connect(settings(nodes[1], issuer.authority), sets_acl=True)
    other = await connect(settings(issuer.issue("other", subject="other"), issuer.authority))
    assert (await first.multi([Create("/mine")]))[0].ok
    assert (await second.multi([SetData("/mine", b"x")]))[0].ok
    assert (await other.multi([SetData("/mine", b"y")]))[0].error is ZkError.NO_AUTH


@pytest.mark.parametrize(
    ("client", "why"),
    [
        ("no certificate", r"this side shows no certificate \(zookeeper\.ssl\.keystore\.location\)"),
        (
            "of another authority",
            "perhaps it does not trust the certificate of this side, CN=stranger, issued by CN=oth",
        ),
        ("trusts others", r"no authority in zookeeper\.ssl\.truststore\.location has certified it"),
        ("another name", "its certificate is not accepted: Hostname mismatch"),
    ],
)
async def test_a_refused_handshake_is_said_with_its_cause(
    issuer: Issuer, connect: Connect, tmp_path: Path, client: str, why: str
) -> None:
    others = Issuer(tmp_path, "other authority")
    stranger, node = others.issue("stranger", subject="stranger"), issuer.issue("node")
    tls = {
        "no certificate": settings(None, issuer.authority),
        "of another authority": settings(stranger, issuer.authority),
        "trusts others": settings(node, others.authority),
        "another name": settings(node, issuer.authority),
    }[client]
    with pytest.raises(ZooKeeperUnreachableError, match=why):
        await connect(tls, host="localhost" if client == "another name" else "127.0.0.1")


async def test_names_need_not_be_checked(issuer: Issuer, connect: Connect) -> None:
    tls = settings(issuer.issue("node"), issuer.authority, endpoint_identification_algorithm="")
    assert await (await connect(tls, host="localhost")).exists("/") is not None


async def test_heads_of_a_secured_cluster_are_read_with_the_identity_of_a_file(
    issuer: Issuer, connect: Connect, server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    node = issuer.issue("node")
    client = await connect(settings(node, issuer.authority), sets_acl=True)
    head = StateLogHead("controller-1001", "1795356180123.1", 7, "ab" * 32)
    parent = STATE_LOG.rpartition("/")[0]
    made = await client.multi(
        [Create(parent), Create(STATE_LOG), Create(state_log_path(head.node), encode_heads((head,)))]
    )
    assert all(result.ok for result in made)
    config = tmp_path / "owner.properties"
    config.write_text(
        "zookeeper.ssl.client.enable=true\n"
        f"zookeeper.ssl.keystore.location={node}\nzookeeper.ssl.truststore.location={issuer.authority}\n"
    )
    command = "audit", "heads", "--zookeeper", f"127.0.0.1:{server.port}", "--command-config", str(config)
    answer = await asyncio.to_thread(run_klamm, *command)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert [found["seq"] for found in json.loads(answer.stdout)["heads"]] == [head.seq]


async def test_a_port_without_tls_is_named(zookeeper: str, issuer: Issuer) -> None:
    live = LiveMaterial(settings(issuer.issue("node"), issuer.authority))
    client = KazooZooKeeper(zookeeper, session_timeout_ms=60_000, connection_timeout_ms=60_000, tls=live)
    client.listen(Events())
    with pytest.raises(ZooKeeperUnreachableError, match="TLS"):
        await client.start_session()


async def test_files_that_were_replaced_are_shown_at_the_next_connection(
    issuer: Issuer, connect: Connect, server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    keystore = tmp_path / "node.pem"
    write_secret(keystore, issuer.issue("before", subject="before").read_bytes())
    live = LiveMaterial(settings(keystore, issuer.authority))
    client = await connect(live, sets_acl=True)
    assert (await client.multi([Create("/of-before")]))[0].ok
    write_secret(keystore, issuer.issue("after", subject="after").read_bytes())
    assert live.refresh()
    session = client.session_id
    server.stop()
    server.start()

    outcome = await written(client)
    assert outcome.error is ZkError.NO_AUTH
    assert client.session_id == session


async def written(client: KazooZooKeeper) -> OpResult:
    """The outcome of a write, as soon as the connection lets it have one."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                return (await client.multi([SetData("/of-before", b"x")]))[0]
            except OutcomeUnknownError:
                continue
