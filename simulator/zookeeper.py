"""An in-memory ZooKeeper server on virtual time: sessions, watches and connections to its clients.

Each client has one ordered connection to the server with random latencies, so watch events and responses arrive in the
order in which the server sent them, as over TCP. Pings are not simulated: a session is alive while its connection
exists, and expires one session timeout after that broke (or after its process was paused).
"""

import asyncio
from asyncio import TimerHandle
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Context
from random import Random
from typing import Protocol

from msgspec.structs import replace

from cluster.zookeeper.port import Op, OpResult, Stat, WatchEvent, WatchKind, ZkError, Znode, refusal
from cluster.zookeeper.znode_tree import SessionIdentity, SessionWatches, ZnodeTree
from simulator.virtual_time_loop import OUTSIDE, START_MS


class ClientEnd(Protocol):
    """The client's end of a connection, as used by the server."""

    def send_event(self, event: WatchEvent) -> None:
        """Send a watch event, after everything sent before."""

    def send_subtree_event(self, event: WatchEvent) -> None:
        """Send the event of a subtree's watch, after everything sent before."""

    def hang_up(self, session: "ServerSession") -> None:
        """Close the session's connection, after everything sent before."""

    def disconnect(self) -> None:
        """Break the connection now; messages in flight are lost."""


WriteObserver = Callable[["ServerSession", Mapping[str, Znode | None], bool], None]
"""Called after each write: the session, the previous content of each of its paths, and whether it was applied."""


class SimulatedZooKeeper:
    """The server. Latencies of messages are drawn from `random`, between the two bounds in seconds."""

    def __init__(self, random: Random, *, latency_seconds: tuple[float, float] = (0.0002, 0.003)) -> None:
        self.tree = ZnodeTree()
        self.is_reachable = True
        self.knows_subtree_watches = True
        """As from ZooKeeper 3.6 on."""
        self._random, self._latency = random, latency_seconds
        self.write_observers: list[WriteObserver] = []
        self._sessions: dict[int, ServerSession] = {}
        self._last_session_id = 0x1000

    def latency(self) -> float:
        """Draw the time that a message takes, in seconds."""
        return self._random.uniform(*self._latency)

    def shut_down(self) -> None:
        """Become unreachable. No session expires meanwhile: that takes a server."""
        self.is_reachable = False
        for session in self._sessions.values():
            session.client.disconnect()
            session.keep()

    def start_up(self) -> None:
        """Become reachable again; session timeouts restart."""
        self.is_reachable = True
        for session in self._sessions.values():
            session.let_expire()

    def restore(self, backup: ZnodeTree, timeout_seconds: float) -> None:
        """Continue from the copy of an earlier tree. Clients have to open new sessions, because they have seen a later
        zxid; the sessions that the backup knows expire after the timeout.
        """
        for session in list(self._sessions.values()):
            session.client.disconnect()
            session.end()
        self._sessions.clear()
        self.tree = backup.copy()
        for number in self.tree.sessions():
            asyncio.get_running_loop().call_later(timeout_seconds, self._expire_unknown, number, context=OUTSIDE)

    def _expire_unknown(self, session_id: int) -> None:
        if session_id not in self._sessions:
            self._notify(self.tree.end_session(session_id))

    def open_session(self, client: ClientEnd, timeout_seconds: float, author: SessionIdentity) -> "ServerSession":
        """Open a session for a client; it expires after the timeout without a connection."""
        self._last_session_id += 1
        session = ServerSession(self, client, replace(author, session_id=self._last_session_id), timeout_seconds)
        self._sessions[session.id] = session
        return session

    def end_session(self, session: "ServerSession") -> None:
        """Close or expire a session: delete its ephemerals and close its connection."""
        if self._sessions.pop(session.id, None) is not None:
            session.end()
            self._notify(self.tree.end_session(session.id))
            session.client.hang_up(session)

    def write(self, session: "ServerSession", ops: Sequence[Op]) -> list[OpResult]:
        now_ms = START_MS + int(asyncio.get_running_loop().time() * 1000)
        before = {op.path: self.tree.get(op.path) for op in ops} if self.write_observers else {}
        results, changes = self.tree.apply(ops, session.author, now_ms)
        for observe in self.write_observers:
            observe(session, before, all(result.ok for result in results))
        self._notify(changes)
        return results

    def _notify(self, changes: Iterable[WatchEvent]) -> None:
        for change in changes:
            for session in self._sessions.values():
                session.notify(change)


class ServerSession:
    """One session on the server: its watches, and its expiry."""

    def __init__(
        self, server: SimulatedZooKeeper, client: ClientEnd, author: SessionIdentity, timeout_seconds: float
    ) -> None:
        self.server, self.client, self.author, self.id = server, client, author, author.session_id
        self.is_alive = True
        self._timeout_seconds = timeout_seconds
        self._expiry: TimerHandle | None = None
        self.watches = SessionWatches()

    def keep(self) -> None:
        """The client is connected: the session does not expire."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def let_expire(self) -> None:
        """Start the session timeout, now or from an earlier time."""
        if self.is_alive and self._expiry is None:
            self._expiry = asyncio.get_running_loop().call_later(
                self._timeout_seconds, self.server.end_session, self, context=OUTSIDE
            )

    def end(self) -> None:
        self.keep()
        self.watches.clear()
        self.is_alive = False

    def notify(self, change: WatchEvent) -> None:
        """Send the event if this session has a watch for it; a watch of one znode is removed."""
        if self.watches.fire(change):
            self.client.send_event(change)
        if self.watches.is_of_subtree(change):
            self.client.send_subtree_event(change)

    def watch_data(self, paths: Iterable[str]) -> None:
        self.watches.data.update(path for path in paths if path in self.server.tree.znodes)

    def watch_subtree(self, path: str) -> None:
        self.watches.subtrees.add(path)

    def unwatch_subtree(self, path: str) -> None:
        self.watches.subtrees.discard(path)

    def exists(self, path: str, watch: bool) -> Stat | None:
        self._check_readable(path)
        if watch:
            self.watches.data.add(path)
        return self.server.tree.exists(path)

    def children(self, path: str, watch: bool) -> tuple[str, ...] | None:
        self._check_readable(path)
        names = self.server.tree.children(path)
        if watch and names is not None:
            self.watches.children.add(path)
        return names

    def get_many(self, paths: Sequence[str], watch: bool) -> list[Znode | None]:
        if watch:
            self.watches.data.update(paths)
        for path in paths:
            self._check_readable(path)
        return [self.server.tree.get(path) for path in paths]

    def _check_readable(self, path: str) -> None:
        znode = self.server.tree.znodes.get(path)
        if znode is not None and not znode.lets_read(self.author.identity):
            raise refusal(f"{path.removeprefix(self.author.chroot)} cannot be read", ZkError.NO_AUTH)

    def watch_again(self, data: Iterable[str], exists: Iterable[str], children: Iterable[str], since_zxid: int) -> None:
        """SetWatches on reconnection: report changes made meanwhile, arm the other watches."""
        znodes = self.server.tree.znodes
        self.watches.data.update(data)
        self.watches.data.update(exists)
        self.watches.children.update(children)
        for path in sorted(data):
            znode = znodes.get(path)
            if znode is None:
                self.notify(WatchEvent(path, WatchKind.DELETED))
            elif znode.mzxid > since_zxid:
                self.notify(WatchEvent(path, WatchKind.CHANGED))
        for path in sorted(exists):
            if path in znodes:
                self.notify(WatchEvent(path, WatchKind.CREATED))
        for path in sorted(children):
            znode = znodes.get(path)
            if znode is None:
                self.notify(WatchEvent(path, WatchKind.DELETED))
            elif znode.pzxid > since_zxid:
                self.notify(WatchEvent(path, WatchKind.CHILDREN))


class SimulatedConnection:
    """One direction of a connection: messages arrive in order, each after its latency, unless it is cut.

    They arrive in the receiver's context: a paused process receives them on resumption.
    """

    def __init__(self, latency: Callable[[], float], receiver: Context) -> None:
        self._latency, self._receiver = latency, receiver
        self._last_arrival = 0.0
        self.cuts = 0

    def send(self, arrive: Callable[..., None], *args: object) -> None:
        loop = asyncio.get_running_loop()
        self._last_arrival = max(self._last_arrival, loop.time() + self._latency())
        loop.call_at(self._last_arrival, self._arrive, self.cuts, arrive, args, context=self._receiver)

    def cut(self) -> None:
        """Drop the messages in flight."""
        self.cuts += 1
        self._last_arrival = 0.0

    def _arrive(self, cuts: int, arrive: Callable[..., None], args: tuple[object, ...]) -> None:
        if cuts == self.cuts:
            arrive(*args)
