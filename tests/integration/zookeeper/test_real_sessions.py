"""What no contract can show: a stuck event loop, a stopped process, a server that is gone. Real server, real time."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from cluster.metrics.registry import Metrics
from cluster.model.errors import OutcomeUnknownError, SessionExpiredError, ZooKeeperUnreachableError
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.kazoo_requests import MultiRead
from cluster.zookeeper.port import Create, SessionState, SetData, ZooKeeper
from tests.contract.zookeeper_worlds import Events, Relay, eventually
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

# A program with a session. It owns /owned, tells what its listener hears, and does what it reads on stdin:
# "block S" stops its event loop for so long, "hold FILE" until there is such a file; then it tries a write at once.
PROGRAM = """
import asyncio, pathlib, sys, time
from cluster.model.errors import ClusterError, SessionExpiredError
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.kazoo_requests import MultiRead
from cluster.zookeeper.port import Create, SessionEvent, SetData

def tell(*words):
    print(*words, flush=True)

async def main():
    client = KazooZooKeeper(sys.argv[1], session_timeout_ms=int(sys.argv[2]), connection_timeout_ms=20000)
    client.listen(lambda event: tell(event.state.value) if isinstance(event, SessionEvent) else None)
    while True:
        await client.start_session()
        try:
            await client.multi([Create("/owned", ephemeral=True)])
            break
        except SessionExpiredError:
            continue
    tell("owner")
    loop, lines = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        order, _, how_long = line.decode().rstrip().partition(" ")
        if order == "block":
            time.sleep(float(how_long))
        while order == "hold" and not pathlib.Path(how_long).exists():
            time.sleep(0.01)
        try:
            tell("wrote", (await client.multi([SetData("/written", b"by a zombie")]))[0].error.name)
        except ClusterError as error:
            tell("refused", type(error).__name__)

asyncio.run(main())
"""


class Program:
    """The program above as a process, and what it has said."""

    def __init__(self, connect: str, session_timeout_ms: int, log: Path) -> None:
        self._said = log
        with log.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, connect, str(session_timeout_ms)], stdin=subprocess.PIPE, stdout=said
            )

    @property
    def said(self) -> list[str]:
        return self._said.read_text().splitlines()

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(params=[1000])
def program(request: pytest.FixtureRequest, zookeeper: str, tmp_path: Path) -> Iterator[Program]:
    program = Program(zookeeper, request.param, tmp_path / "said")
    yield program
    program.end()


@pytest.fixture
async def observer(zookeeper: str) -> AsyncIterator[ZooKeeper]:
    client = long_session(zookeeper)
    client.listen(Events())
    await client.start_session()
    await client.multi([Create("/written")])
    yield client
    await client.close()


def long_session(connect: str) -> KazooZooKeeper:
    return KazooZooKeeper(connect, session_timeout_ms=30_000, connection_timeout_ms=TIMEOUT_S * 1000)


async def gone(client: ZooKeeper, path: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while await client.exists(path) is not None:
        assert time.monotonic() < deadline, f"{path} is still there"
        await asyncio.sleep(0.02)


async def test_a_program_with_a_stuck_event_loop_loses_its_session(
    observer: ZooKeeper, program: Program, tmp_path: Path
) -> None:
    await eventually(lambda: "owner" in program.said)
    program.tell(f"hold {tmp_path / 'released'}")
    await gone(observer, "/owned")
    (tmp_path / "released").touch()
    await eventually(lambda: "expired" in program.said)
    await eventually(lambda: any(line.startswith(("refused", "wrote")) for line in program.said))
    assert "refused SessionExpiredError" in program.said
    znode = await observer.get("/written")
    assert znode is not None
    assert znode.data == b""


@pytest.mark.parametrize("program", [10_000], indirect=True)
async def test_a_short_stall_of_the_event_loop_costs_nothing(observer: ZooKeeper, program: Program) -> None:
    await eventually(lambda: "owner" in program.said)
    for _ in range(2):
        program.tell("block 2")
    await eventually(lambda: program.said.count("wrote OK") == 2)
    assert program.said == ["connected", "owner", "wrote OK", "wrote OK"]
    assert await observer.exists("/owned") is not None


async def test_a_program_stopped_beyond_its_session_learns_that_it_expired_and_writes_nothing(
    observer: ZooKeeper, program: Program
) -> None:
    await eventually(lambda: "owner" in program.said)
    os.kill(program.process.pid, signal.SIGSTOP)
    program.tell("write")
    await gone(observer, "/owned")
    os.kill(program.process.pid, signal.SIGCONT)
    await eventually(lambda: "expired" in program.said)
    await eventually(lambda: any(line.startswith(("refused", "wrote")) for line in program.said))
    assert not any(line.startswith("wrote") for line in program.said)
    znode = await observer.get("/written")
    assert znode is not None
    assert znode.data == b""


@pytest.fixture
async def make_client(
    own_zookeeper_server: EmbeddedZooKeeper,
) -> AsyncIterator[Callable[..., tuple[KazooZooKeeper, Events]]]:
    made: list[KazooZooKeeper] = []

    def make(
        session_timeout_ms: int = 30_000, connection_timeout_ms: int = TIMEOUT_S * 1000
    ) -> tuple[KazooZooKeeper, Events]:
        client, events = (
            KazooZooKeeper(
                own_zookeeper_server.address,
                session_timeout_ms=session_timeout_ms,
                connection_timeout_ms=connection_timeout_ms,
            ),
            Events(),
        )
        client.listen(events)
        made.append(client)
        return client, events

    yield make
    for client in made:
        await client.close()


async def test_without_a_server_no_session_starts_and_a_later_attempt_succeeds(
    own_zookeeper_server: EmbeddedZooKeeper, make_client: Callable[..., tuple[KazooZooKeeper, Events]]
) -> None:
    own_zookeeper_server.kill()
    client, events = make_client(connection_timeout_ms=2000)
    with pytest.raises(ZooKeeperUnreachableError):
        await client.start_session()
    with pytest.raises(SessionExpiredError):
        await client.get("/")
    await asyncio.to_thread(own_zookeeper_server.start)
    await client.start_session()
    assert await client.exists("/") is not None
    assert events.states == [SessionState.CONNECTED]


async def test_a_session_outlives_the_crash_of_its_server(
    own_zookeeper_server: EmbeddedZooKeeper, make_client: Callable[..., tuple[KazooZooKeeper, Events]]
) -> None:
    client, events = make_client()
    await client.start_session()
    await client.multi([Create("/e", ephemeral=True), Create("/p")])
    await client.get("/p", watch=True)
    own_zookeeper_server.kill()
    await eventually(lambda: events.states[-1] is SessionState.DISCONNECTED)
    waiting = asyncio.ensure_future(client.multi([SetData("/p", b"1", 0)]))
    await asyncio.to_thread(own_zookeeper_server.start)
    (written,) = await waiting
    assert written.ok
    stat = await client.exists("/e")
    assert stat is not None
    assert stat.ephemeral_owner == client.session_id
    assert len(events.watches) == 1
    assert events.states == [SessionState.CONNECTED, SessionState.DISCONNECTED, SessionState.CONNECTED]


async def test_a_write_to_a_paused_server_ends_in_an_unknown_outcome_or_is_done(
    own_zookeeper_server: EmbeddedZooKeeper, make_client: Callable[..., tuple[KazooZooKeeper, Events]]
) -> None:
    client, events = make_client(session_timeout_ms=4000)
    await client.start_session()
    await client.multi([Create("/a")])
    own_zookeeper_server.pause()
    write = asyncio.ensure_future(client.multi([SetData("/a", b"1", 0)]))
    await eventually(lambda: SessionState.DISCONNECTED in events.states)
    with pytest.raises(OutcomeUnknownError):
        await write
    own_zookeeper_server.resume()
    # The first session may have ended with the pause.
    later, _ = make_client()
    await later.start_session()
    znode = await later.get("/a")
    assert znode is not None
    assert znode.data in (b"", b"1")


async def test_closing_does_not_wait_for_a_server_that_does_not_answer(
    own_zookeeper_server: EmbeddedZooKeeper, make_client: Callable[..., tuple[KazooZooKeeper, Events]]
) -> None:
    client, _ = make_client(session_timeout_ms=60_000)
    await client.start_session()
    own_zookeeper_server.pause()
    reading = asyncio.ensure_future(client.get("/"))
    await asyncio.sleep(0)
    # The end of the session takes longer.
    async with asyncio.timeout(30):
        await client.close()
    with pytest.raises(SessionExpiredError):
        await reading
    own_zookeeper_server.resume()


async def test_the_server_of_the_tests_grants_sessions_that_outlast_a_busy_moment(zookeeper: str) -> None:
    client = long_session(zookeeper)
    client.listen(Events())
    await client.start_session()
    assert client._session is not None
    assert client._session.granted_timeout_seconds == pytest.approx(30)
    await client.close()


async def test_a_server_without_multi_read_is_read_node_by_node(
    zookeeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A request type that this server does not know, as an older one does not know MultiRead.
    monkeypatch.setattr(MultiRead, "type", 99)
    client = long_session(zookeeper)
    client.listen(Events())
    await client.start_session()
    await client.multi([Create("/a", b"1"), Create("/b"), Create("/b/c")])
    first, absent, third = await client.get_many(["/a", "/none", "/b"], watch=True)
    assert first is not None
    assert third is not None
    assert (first.data, absent, third.data) == (b"1", None, b"")
    assert await client.children_many(["/b", "/none"]) == [("c",), None]
    await client.close()


async def test_no_session_is_opened_behind_our_back_after_an_expiry(
    own_zookeeper_server: EmbeddedZooKeeper, make_client: Callable[..., tuple[KazooZooKeeper, Events]]
) -> None:
    client, events = make_client()
    await client.start_session()
    assert client._session is not None
    identity = client._session.client_id

    def end_session() -> None:
        other = KazooClient(hosts=own_zookeeper_server.address, client_id=identity)
        other.start(TIMEOUT_S)
        other.stop()
        other.close()

    await asyncio.to_thread(end_session)
    await eventually(lambda: events.states[-1] is SessionState.EXPIRED)

    def connections() -> bytes:
        with socket.create_connection(("127.0.0.1", own_zookeeper_server.port), timeout=TIMEOUT_S) as connection:
            connection.sendall(b"cons")
            return connection.makefile("rb").read()

    await eventually(lambda: b"sid=" not in connections())
    # A connection of kazoo's own making would come back within its longest pause of a second.
    await asyncio.sleep(1.2)
    assert b"sid=" not in connections()


@pytest.mark.rule("ZC-1")
async def test_no_more_requests_are_in_flight_than_allowed(own_zookeeper_server: EmbeddedZooKeeper) -> None:
    metrics = Metrics()
    client = KazooZooKeeper(
        own_zookeeper_server.address,
        session_timeout_ms=30_000,
        connection_timeout_ms=TIMEOUT_S * 1000,
        max_in_flight=3,
        metrics=metrics,
    )
    client.listen(Events())
    await client.start_session()
    session = client._session
    assert session is not None
    own_zookeeper_server.pause()
    reads = asyncio.gather(*(client.exists("/") for _ in range(50)))
    await eventually(lambda: len(session._pending) == 3 and len(session._queue) == 47)
    own_zookeeper_server.resume()
    assert None not in await reads
    assert metrics.meter("klamm.zookeeper", "Client", "Requests").count == 50
    assert metrics.meter("klamm.zookeeper", "Client", "RoundTrips").count == 50
    await client.close()


async def test_a_server_that_takes_a_connection_and_never_answers_does_not_cost_the_session(zookeeper: str) -> None:
    # A server does so that has begun to listen and is not ready yet.
    address, _, chroot = zookeeper.partition("/")
    relay, events = Relay(int(address.rpartition(":")[2])), Events()
    client = KazooZooKeeper(
        f"127.0.0.1:{await relay.open()}/{chroot}",
        session_timeout_ms=12_000,
        connection_timeout_ms=TIMEOUT_S * 1000,
    )
    client.listen(events)
    await client.start_session()
    relay.ignore_next_connection()
    relay.cut(0)
    await eventually(lambda: SessionState.DISCONNECTED in events.states)
    assert await client.exists("/") is not None
    assert events.states == [SessionState.CONNECTED, SessionState.DISCONNECTED, SessionState.CONNECTED]
    await client.close()
    await relay.close()


async def test_a_mute_server_among_several_does_not_keep_us_from_the_others(zookeeper: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        client = KazooZooKeeper(
            f"127.0.0.1:{mute.getsockname()[1]},{zookeeper}",
            session_timeout_ms=5000,
            connection_timeout_ms=TIMEOUT_S * 1000,
        )
        client.listen(Events())
        await client.start_session()
        assert await client.exists("/") is not None
        await client.close()
