"""A ZooKeeper server restored from a backup refuses clients that saw a later zxid; they open new sessions."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from cluster.model.errors import SessionExpiredError
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.port import Create, SessionState, SetData
from tests.contract.zookeeper_worlds import Events, eventually
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

SESSION_MS = 4000


@pytest.fixture
async def client(own_zookeeper_server: EmbeddedZooKeeper) -> AsyncIterator[tuple[KazooZooKeeper, Events]]:
    made, events = connect(own_zookeeper_server), Events()
    made.listen(events)
    yield made, events
    await made.close()


def connect(server: EmbeddedZooKeeper) -> KazooZooKeeper:
    return KazooZooKeeper(server.address, session_timeout_ms=SESSION_MS, connection_timeout_ms=TIMEOUT_S * 1000)


def back_up(server: EmbeddedZooKeeper, data: Path, backup: Path) -> None:
    server.kill()
    shutil.copytree(data, backup)
    server.start()


def restore(server: EmbeddedZooKeeper, data: Path, backup: Path) -> None:
    server.kill()
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    server.start()


@pytest.mark.rule("ZC-9")
@pytest.mark.parametrize("knows_session", [True, False], ids=["session-in-backup", "session-unknown"])
async def test_a_client_that_is_ahead_of_a_restored_server_gets_a_new_session(
    own_zookeeper_server: EmbeddedZooKeeper,
    client: tuple[KazooZooKeeper, Events],
    tmp_path: Path,
    knows_session: bool,
) -> None:
    server, data, backup = own_zookeeper_server, tmp_path / "zookeeper", tmp_path / "backup"
    zookeeper, events = client
    if not knows_session:
        await asyncio.to_thread(back_up, server, data, backup)
    await zookeeper.start_session()
    if knows_session:
        await zookeeper.multi([Create("/e", ephemeral=True)])
        await asyncio.to_thread(back_up, server, data, backup)
    await zookeeper.multi([Create("/p")])
    for _ in range(20):
        await zookeeper.multi([SetData("/p", b"after the backup")])
    await asyncio.to_thread(restore, server, data, backup)
    await eventually(lambda: SessionState.EXPIRED in events.states)
    with pytest.raises(SessionExpiredError):
        await zookeeper.get("/p")
    await zookeeper.start_session()
    assert await zookeeper.get("/p") is None
    if knows_session:
        # The former session was closed, not left to expire.
        assert await zookeeper.exists("/e") is None


@pytest.mark.rule("ZC-9")
async def test_a_server_that_was_gone_for_longer_than_the_session_is_not_taken_for_a_restored_one(
    own_zookeeper_server: EmbeddedZooKeeper, client: tuple[KazooZooKeeper, Events]
) -> None:
    """No session expires while no server is there to expire it."""
    zookeeper, events = client
    await zookeeper.start_session()
    await zookeeper.multi([Create("/e", ephemeral=True)])
    session = zookeeper.session_id
    own_zookeeper_server.kill()
    gone = time.monotonic()
    await eventually(lambda: time.monotonic() - gone > 1.5 * SESSION_MS / 1000)
    await asyncio.to_thread(own_zookeeper_server.start)
    assert await zookeeper.exists("/e") is not None
    assert zookeeper.session_id == session
    assert SessionState.EXPIRED not in events.states


@pytest.mark.rule("R1.19")
async def test_the_highest_zxid_is_known_over_sessions(
    own_zookeeper_server: EmbeddedZooKeeper, client: tuple[KazooZooKeeper, Events], tmp_path: Path
) -> None:
    """By it a broker knows that its registration is of an earlier time than what it saw."""
    zookeeper, events = client
    assert zookeeper.last_zxid == 0
    await zookeeper.start_session()
    await asyncio.to_thread(back_up, own_zookeeper_server, tmp_path / "zookeeper", tmp_path / "backup")
    for number in range(20):
        (created, written) = await zookeeper.multi([Create(f"/{number}"), SetData(f"/{number}", b"1")])
    assert created.ok
    assert written.stat is not None
    assert zookeeper.last_zxid == written.stat.mzxid
    await asyncio.to_thread(restore, own_zookeeper_server, tmp_path / "zookeeper", tmp_path / "backup")
    await eventually(lambda: SessionState.EXPIRED in events.states)
    await zookeeper.start_session()
    created, again = await zookeeper.multi([Create("/0"), SetData("/0", b"1")])
    assert again.stat is not None
    assert again.stat.mzxid < zookeeper.last_zxid == written.stat.mzxid
