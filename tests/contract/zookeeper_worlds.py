"""The two environments for the contract of the ZooKeeper port: the real server and the in-memory one.

A test is a coroutine function that gets a `World`, which creates clients, injects faults into them and owns the event
loop that all of it runs on. Every real client connects through a relay of its own, which can be cut.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, Protocol

from kazoo.client import KazooClient

from cluster.tls.secret import Secret
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.login import Credentials, Scheme
from cluster.zookeeper.port import Create, SessionEvent, SessionState, WatchEvent, WatchKind, ZooKeeper
from cluster.zookeeper.znode_tree import SessionIdentity
from simulator.virtual_time_loop import VirtualTimeLoop
from simulator.zookeeper import SimulatedZooKeeper
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.timeouts import TIMEOUT_S

SESSION_TIMEOUT_MS = 2000
"""In virtual time. Real sessions are long: nothing waits for their end, and a busy machine must not bring it about."""
REAL_SESSION_TIMEOUT_MS = 30_000


class Events:
    """Everything a client's listener was told, in order."""

    def __init__(self) -> None:
        self.all: list[WatchEvent | SessionEvent] = []

    def __call__(self, event: WatchEvent | SessionEvent) -> None:
        self.all.append(event)

    @property
    def watches(self) -> list[tuple[str, WatchKind]]:
        return [(event.path, event.kind) for event in self.all if isinstance(event, WatchEvent)]

    @property
    def states(self) -> list[SessionState]:
        return [event.state for event in self.all if isinstance(event, SessionEvent)]


class World(Protocol):
    """Makes clients of one ZooKeeper and hurts them."""

    chroot: str

    def run(self, test: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        """Run one test to its end."""

    async def client(
        self, chroot: str | None = None, *, user: str | None = None, sets_acl: bool = False
    ) -> tuple[ZooKeeper, Events]:
        """A client with a session, and what its listener hears. `user` None: anonymous."""

    async def expire(self, client: ZooKeeper) -> None:
        """Let the server end the session while the client lives."""

    async def disconnect(self, client: ZooKeeper, seconds: float) -> None:
        """Cut the connection for a while shorter than the session."""

    async def lose_answer_of_next_write(self, client: ZooKeeper) -> None:
        """The next write is applied, and the connection breaks before its answer."""


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; fail after a long time."""
    deadline = asyncio.get_running_loop().time() + TIMEOUT_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "the condition never came true"
        await asyncio.sleep(0.005)


class SimulatedWorld:
    """The in-memory server, on virtual time."""

    def __init__(self) -> None:
        self.chroot = "/world"
        self._server = SimulatedZooKeeper(Random(1))

    def run(self, test: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        loop = VirtualTimeLoop()
        loop.run_until_complete(test(self))
        assert loop.unhandled == []

    async def client(
        self, chroot: str | None = None, *, user: str | None = None, sets_acl: bool = False
    ) -> tuple[ZooKeeper, Events]:
        events = Events()
        client = SimulatedZooKeeperClient(
            self._server,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            chroot=self.chroot if chroot is None else chroot,
            author=SessionIdentity(identity=user, sets_acl=sets_acl),
        )
        client.listen(events)
        await client.start_session()
        return client, events

    async def expire(self, client: ZooKeeper) -> None:
        assert isinstance(client, SimulatedZooKeeperClient)
        client.expire()

    async def disconnect(self, client: ZooKeeper, seconds: float) -> None:
        assert isinstance(client, SimulatedZooKeeperClient)
        client.disconnect(seconds)

    async def lose_answer_of_next_write(self, client: ZooKeeper) -> None:
        assert isinstance(client, SimulatedZooKeeperClient)
        client.lose_answer_of_next_write()


class Relay:
    """Passes bytes between one client and the server, until told not to."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._refuses = self._ignores = False
        self._swallows = self._has_passed_a_request = False
        self._writers: list[asyncio.StreamWriter] = []
        self._relaying: set[asyncio.Task[Any]] = set()

    async def open(self) -> int:
        self._listening = await asyncio.start_server(self._on_client, "127.0.0.1", 0)
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    def cut(self, seconds: float) -> None:
        """Break all connections, and take no new ones for so long."""
        self._refuses, self._swallows = True, False
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        asyncio.get_running_loop().call_later(seconds, setattr, self, "_refuses", False)

    def swallow_next_answer(self) -> None:
        """Whatever the server says next is not passed on, and the connection breaks."""
        self._swallows, self._has_passed_a_request = True, False

    def ignore_next_connection(self) -> None:
        """Take it, and never say a word."""
        self._ignores = True

    async def close(self) -> None:
        self._listening.close()
        self.cut(0)
        # Connections that the event loop cancelled at its end would be complained about.
        await asyncio.gather(*self._relaying, return_exceptions=True)

    async def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        if self._ignores:
            self._ignores = False
            self._writers.append(writer)
            return
        task = asyncio.current_task()
        assert task is not None
        self._relaying.add(task)
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        self._writers += [writer, up_writer]
        await asyncio.gather(self._pass(reader, up_writer, False), self._pass(up_reader, writer, True))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_answer: bool) -> None:
        try:
            while chunk := await reader.read(65536):
                # A ping takes 12 bytes; its answer is not the one that is meant.
                self._has_passed_a_request |= not is_answer and len(chunk) > 12
                if is_answer and self._swallows and self._has_passed_a_request:
                    self.cut(0.1)
                    return
                writer.write(chunk)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


class RealWorld:
    """kazoo on a real server."""

    def __init__(self, connect: str) -> None:
        self._address, _, name = connect.partition("/")
        self.chroot = f"/{name}"
        self._relays: dict[ZooKeeper, Relay] = {}

    def run(self, test: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    await test(self)
            finally:
                for client, relay in self._relays.items():
                    await client.close()
                    await relay.close()

        asyncio.run(main())

    async def client(
        self, chroot: str | None = None, *, user: str | None = None, sets_acl: bool = False
    ) -> tuple[ZooKeeper, Events]:
        relay, events = Relay(int(self._address.partition(":")[2])), Events()
        port = await relay.open()
        client = KazooZooKeeper(
            f"127.0.0.1:{port}{self.chroot if chroot is None else chroot}",
            session_timeout_ms=REAL_SESSION_TIMEOUT_MS,
            connection_timeout_ms=TIMEOUT_S * 1000,
            credentials=None if user is None else Credentials(Scheme.DIGEST, user, Secret("secret")),
            sets_acl=sets_acl,
        )
        self._relays[client] = relay
        client.listen(events)
        await client.start_session()
        return client, events

    async def expire(self, client: ZooKeeper) -> None:
        """Close the session from a second connection that knows its password."""
        assert isinstance(client, KazooZooKeeper)
        assert client._session is not None
        identity = client._session.client_id

        def end_session() -> None:
            other = KazooClient(hosts=self._address, client_id=identity, timeout=REAL_SESSION_TIMEOUT_MS / 1000)
            other.start(TIMEOUT_S)
            other.stop()
            other.close()

        await asyncio.to_thread(end_session)

    async def disconnect(self, client: ZooKeeper, seconds: float) -> None:
        self._relays[client].cut(seconds)

    async def lose_answer_of_next_write(self, client: ZooKeeper) -> None:
        self._relays[client].swallow_next_answer()


async def create(client: ZooKeeper, *paths: str, data: bytes = b"") -> None:
    """Create persistent nodes, each expected not to exist."""
    results = await client.multi([Create(path, data) for path in paths])
    assert all(result.ok for result in results), results


async def race(first: Awaitable[Any], second: Awaitable[Any]) -> tuple[Any, Any]:
    """Two calls at the same time; exceptions are results."""
    one, other = await asyncio.gather(first, second, return_exceptions=True)
    return one, other
