"""Znodes of an existing cluster are secured and opened again, one after the other, and open ones are found."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.tls.secret import Secret
from cluster.zookeeper.kazoo_access_lists import KazooAccessLists
from cluster.zookeeper.login import Credentials, Scheme
from cluster.zookeeper.port import Create, SetData, ZkError
from cluster.zookeeper.security_migration import MigrationOutcome, SecurityMigration, open_znodes
from tests.contract.zookeeper_worlds import Events
from tests.processes.commands import run_klamm

pytestmark = pytest.mark.real

OWNER = Credentials(Scheme.DIGEST, "klamm", Secret("secret"))
OTHER = Credentials(Scheme.DIGEST, "other", Secret("secret"))
PATHS = (
    "/brokers",
    "/brokers/topics",
    "/brokers/topics/t",
    "/config",
    "/config/users",
    "/config/users/alice",
    "/consumers",
)
Connect = Callable[..., Any]


@pytest.fixture
async def connect(zookeeper: str, tmp_path: Path) -> AsyncIterator[Connect]:
    clients = []

    async def make(credentials: Credentials | None, **options: Any) -> KazooAccessLists:
        limits = {"session_timeout_ms": 30_000, "connection_timeout_ms": 30_000}
        client = KazooAccessLists(f"{zookeeper}/{tmp_path.name}", **limits, credentials=credentials, **options)
        client.listen(Events())
        clients.append(client)
        await client.start_session()
        return client

    yield make
    for client in clients:
        await client.close()


async def migrate(client: KazooAccessLists, **options: Any) -> MigrationOutcome:
    return await SecurityMigration(client, lambda _: None, **options).run()


async def test_an_open_tree_is_secured_and_opened_again(connect: Connect) -> None:
    everyone, owner = await connect(None), await connect(OWNER)
    for path in (*PATHS, "/consumers/old", "/of another program"):
        assert (await everyone.multi([Create(path)]))[0].ok
    assert await open_znodes(owner) == ["/", *sorted(set(PATHS) - {"/consumers"}, key=lambda p: (p.count("/"), p))]
    secured = len(PATHS)  # The root, without /consumers.
    assert await migrate(owner, secures=True, dry_run=True) == MigrationOutcome(changed=secured)
    assert await migrate(owner, secures=True) == MigrationOutcome(changed=secured)
    assert await migrate(owner, secures=True) == MigrationOutcome(unchanged=secured)
    assert await open_znodes(owner) == []
    assert (await everyone.multi([SetData("/config", b"x")]))[0].error is ZkError.NO_AUTH
    assert (await everyone.multi([SetData("/consumers/old", b"x")]))[0].ok
    assert (await owner.multi([SetData("/config/users/alice", b"x")]))[0].ok
    # What a tool without an identity left is found, and is all that a further run changes.
    stray = await connect(OWNER, sets_acl=False)
    assert (await stray.multi([Create("/config/topics")]))[0].ok
    assert await open_znodes(owner) == ["/config/topics"]
    assert await migrate(owner, secures=True) == MigrationOutcome(changed=1, unchanged=secured)
    assert await migrate(owner, secures=False) == MigrationOutcome(changed=secured + 1, unchanged=1)
    assert (await everyone.multi([SetData("/config", b"x")]))[0].ok


async def test_consumers_are_secured_where_nobody_has_any(connect: Connect) -> None:
    everyone, owner = await connect(None), await connect(OWNER)
    assert (await everyone.multi([Create("/consumers")]))[0].ok
    assert await open_znodes(owner) == ["/", "/consumers"]
    assert await migrate(owner, secures=True) == MigrationOutcome(changed=2)
    assert await open_znodes(owner) == []
    assert (await everyone.multi([Create("/consumers/group")]))[0].error is ZkError.NO_AUTH


async def test_znodes_of_another_identity_are_named_and_left(connect: Connect) -> None:
    owner, other = await connect(OWNER, sets_acl=True), await connect(OTHER)
    for path in PATHS:
        assert (await owner.multi([Create(path)]))[0].ok
    outcome = await migrate(other, secures=False)
    assert set(outcome.refused) >= {"/brokers", "/config", "/config/users"}
    assert (await other.multi([SetData("/config", b"x")]))[0].error is ZkError.NO_AUTH


async def test_the_command_secures_as_kafkas_tool_does_and_says_what_it_changed(
    zookeeper: str, connect: Connect, tmp_path: Path
) -> None:
    everyone = await connect(None)
    for path in PATHS:
        assert (await everyone.multi([Create(path)]))[0].ok
    login, config = tmp_path / "login.jaas", tmp_path / "owner.properties"
    login.write_text(
        'Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="klamm" password="secret"; };'
    )
    config.write_text(f"java.security.auth.login.config={login}\nklamm.zookeeper.auth.scheme=digest\n")
    command = "zookeeper-security-migration", "--zookeeper.acl", "secure"
    command += "--zookeeper.connect", f"{zookeeper}/{tmp_path.name}"
    refused = run_klamm(*command)
    assert refused.returncode == 2
    assert "secure needs an identity that will own the znodes" in " ".join(refused.stderr.split()).replace("│ ", "")
    done = run_klamm(*command, "--command-config", str(config), "--format", "json")
    assert done.returncode == 0, done.stderr
    assert '"changed": 8' in done.stdout.replace('":8', '": 8')
    assert (await everyone.multi([SetData("/config", b"x")]))[0].error is ZkError.NO_AUTH
