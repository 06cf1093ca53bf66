"""The client of the simulated ZooKeeper: implements `cluster.zookeeper.port`, with injectable faults.

It behaves like the real client: the same requests are repeated, lost or of unknown outcome in the same situations.
"""

import asyncio
from asyncio import Future
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from msgspec import structs

from cluster.model.errors import ZooKeeperUnreachableError
from cluster.zookeeper.chroot import Chroot
from cluster.zookeeper.port import (
    Create,
    Listener,
    Op,
    OpResult,
    SessionEvent,
    SessionState,
    Stat,
    SubtreeListener,
    WatchEvent,
    Znode,
)
from cluster.zookeeper.znode_tree import SessionIdentity, is_at_or_below
from simulator.virtual_time_loop import OUTSIDE, Process, virtual_loop
from simulator.zookeeper import ServerSession, SimulatedConnection, SimulatedZooKeeper
from simulator.zookeeper_calls import CallQueue, ClientWatches, PendingCall, in_requests, list_children, list_open

RECONNECT_SECONDS: Final = 0.1
Refusals = Callable[[Sequence[Op]], list[OpResult] | None]


class SimulatedZooKeeperClient:
    """Implements `cluster.zookeeper.port.ZooKeeper` on the simulated server.

    Faults: `disconnect`, `expire`, `lose_answer_of_next_write`, `refuse_writes`, `pause` and `resume` (of the process,
    which is the client alone unless another is given), `crash` (nothing is sent or received any more).
    """

    def __init__(
        self,
        server: SimulatedZooKeeper,
        *,
        session_timeout_ms: int = 18_000,
        connection_timeout_ms: int = 18_000,
        chroot: str = "",
        process: Process | None = None,
        author: SessionIdentity | None = None,
    ) -> None:
        self._process = Process() if process is None else process
        self._server, self._chroot = server, Chroot(chroot)
        self._author = structs.replace(SessionIdentity() if author is None else author, chroot=self._chroot.path)
        self._session_timeout, self._connection_timeout = session_timeout_ms / 1000, connection_timeout_ms / 1000
        self._listener: Listener | None = None
        self._session: ServerSession | None = None
        self._session_id = self._last_zxid = 0
        # The session kept alive by the current connection.
        self._pinged: ServerSession | None = None
        self._paused_at = self._undisturbed_since = 0.0
        self._opened: Future[None] | None = None
        self._is_connected = self._is_crashed = self._loses_next_answer = False
        self._up, self._down = (
            SimulatedConnection(server.latency, OUTSIDE),
            SimulatedConnection(server.latency, self._process.context),
        )
        self._calls = CallQueue()
        self._refuses: Refusals | None = None
        self._watches = ClientWatches()
        self.requests = 0

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def last_zxid(self) -> int:
        return self._last_zxid

    @property
    def undisturbed_since(self) -> float | None:
        """Since when the process runs and has been connected, in the loop's seconds; None while it is not."""
        return None if self._is_silent or not self._is_connected else self._undisturbed_since

    @property
    def _is_silent(self) -> bool:
        return self._process.is_paused or self._is_crashed

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    async def start_session(self) -> None:
        assert self._listener is not None, "listen before starting a session"
        assert self._session is None, "the present session has not ended"
        try:
            async with asyncio.timeout(self._connection_timeout):
                while not self._server.is_reachable:  # noqa: ASYNC110 - as a real client tries again and again.
                    await asyncio.sleep(RECONNECT_SECONDS)
                self._opened = asyncio.get_running_loop().create_future()
                self._up.send(self._open_at_server)
                await self._opened
        except TimeoutError:
            raise ZooKeeperUnreachableError(f"no connection to ZooKeeper within {self._connection_timeout} s") from None

    async def close(self) -> None:
        session, was_connected = self._session, self._is_connected
        self._finish()
        self._up.cut()
        self._down.cut()
        if session is None or self._is_crashed:
            return
        if was_connected:
            ended: Future[None] = asyncio.get_running_loop().create_future()
            self._up.send(self._end_at_server, session, ended)
            await ended
        else:
            session.let_expire()

    async def get(self, path: str, *, watch: bool = False) -> Znode | None:
        (znode,) = await self.get_many([path], watch=watch)
        return znode

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        absolute = self._chroot.absolute(path)

        def remember(stat: Stat | None) -> None:
            if watch:
                self._watches.left_on(absolute, is_absent=stat is None)

        stat: Stat | None
        (stat,) = await self._ask([PendingCall(lambda session: session.exists(absolute, watch), remember)])
        return stat

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...] | None:
        absolute = self._chroot.absolute(path)

        def remember(names: tuple[str, ...] | None) -> None:
            if watch and names is not None:
                self._watches.children.add(absolute)

        names: tuple[str, ...] | None
        (names,) = await self._ask([PendingCall(lambda session: session.children(absolute, watch), remember)])
        return names

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Znode | None]:
        absolute = [self._chroot.absolute(path) for path in paths]
        parts = await self._ask([self._read_call(chunk, watch) for chunk in in_requests(absolute)])
        return [znode for part in parts for znode in part]

    async def watch_many(self, paths: Sequence[str]) -> None:
        absolute = [self._chroot.absolute(path) for path in paths]

        def remember(_: object) -> None:
            self._watches.data.update(absolute)

        await self._ask([PendingCall(lambda session: session.watch_data(absolute), remember)])

    async def watch_subtree(self, path: str, listener: SubtreeListener) -> bool:
        if not self._server.knows_subtree_watches:
            return False
        absolute = self._chroot.absolute(path)

        def remember(_: object) -> None:
            self._watches.subtrees[absolute] = listener

        await self._ask([PendingCall(lambda session: session.watch_subtree(absolute), remember)])
        return True

    async def unwatch_subtree(self, path: str) -> None:
        absolute = self._chroot.absolute(path)
        if self._watches.subtrees.pop(absolute, None) is not None:
            await self._ask([PendingCall(lambda session: session.unwatch_subtree(absolute))])

    async def children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        absolute = [self._chroot.absolute(path) for path in paths]
        calls = [PendingCall(partial(list_children, paths=chunk)) for chunk in in_requests(absolute)]
        return [names for part in await self._ask(calls) for names in part]

    async def open_to_everyone(self, paths: Sequence[str]) -> list[bool]:
        absolute = [self._chroot.absolute(path) for path in paths]
        calls = [PendingCall(partial(list_open, paths=chunk)) for chunk in in_requests(absolute)]
        return [found for part in await self._ask(calls) for found in part]

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        (result,) = await self.multi_many([ops])
        if isinstance(result, Exception):
            raise result
        return result

    async def multi_many(self, transactions: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        calls = [self._write_call(ops) for ops in transactions]
        self._queue(calls)
        answers = [await call.answer for call in calls]
        return [
            answer if isinstance(answer, Exception) else self._chroot.relative_results(answer) for answer in answers
        ]

    def disconnect(self, seconds: float = RECONNECT_SECONDS) -> None:
        """Break the connection; messages in flight are lost. It is restored after `seconds`."""
        if self._session is None or self._is_crashed:
            return
        self._up.cut()
        self._down.cut()
        self._pinged = None
        self._session.let_expire()
        self._session.watches.clear()
        if self._is_connected:
            self._is_connected = False
            self._tell(SessionEvent(SessionState.DISCONNECTED, self._session_id))
            self._calls.connection_lost()
        self._reconnect_in(seconds, self._session)

    def expire(self) -> None:
        """Expire the session on the server now, while this client is running and connected."""
        if self._session is not None:
            self._server.end_session(self._session)

    def lose_answer_of_next_write(self) -> None:
        """Apply the next write on the server, and break the connection before its response arrives."""
        self._loses_next_answer = True

    def refuse_writes(self, refuses: Refusals | None) -> None:
        """Call `refuses` for each transaction of this client on the server: returns the response,
        or None to apply it.
        """
        self._refuses = refuses

    def pause(self) -> None:
        """Pause the process, as with SIGSTOP: nothing is sent or received, and no pings keep the session alive."""
        virtual_loop().pause(self._process)
        self._paused_at = virtual_loop().time()
        if self._pinged is not None:
            self._pinged.let_expire()

    def resume(self) -> None:
        """Resume, first with what arrived meanwhile."""
        virtual_loop().resume(self._process)
        self._undisturbed_since = virtual_loop().time()
        if self._pinged is not None:
            self._pinged.keep()
        virtual_loop().call_soon(self._go_on, self._session, context=self._process.context)

    def _go_on(self, session: ServerSession | None) -> None:
        """Expire a session after its timeout without pings, even if no server was running to expire it."""
        silence = asyncio.get_running_loop().time() - self._paused_at
        if session is not None and session is self._session and silence > self._session_timeout:
            self._up.cut()
            self._down.cut()
            if self._is_connected:
                self._up.send(self._server.end_session, session)
            self._on_expired(session)
        else:
            self._send_waiting()

    def crash(self) -> None:
        """Stop for good; messages in flight arrive, and the session expires after its timeout."""
        if self._pinged is not None:
            self._pinged.let_expire()
        self._is_crashed = True
        self._down.cut()

    def send_event(self, event: WatchEvent) -> None:
        self._down.send(self._receive, self._on_watch_event, event)

    def send_subtree_event(self, event: WatchEvent) -> None:
        self._down.send(self._receive, self._on_subtree_event, event)

    def hang_up(self, session: ServerSession) -> None:
        self._down.send(self._receive, self._on_hung_up, session)

    def _open_at_server(self) -> None:
        if not self._server.is_reachable:
            return
        session = self._server.open_session(self, self._session_timeout, self._author)
        for path in self._chroot.lineage:
            self._server.write(session, [Create(path)])
        self._keep_alive(session)
        self._down.send(self._receive, self._on_opened, session)

    def _on_opened(self, session: ServerSession) -> None:
        if self._opened is None or self._opened.done():
            # The caller's timeout has passed.
            self._server.end_session(session)
            return
        self._session, self._session_id = session, session.id
        self._opened.set_result(None)
        self._on_connected(session)

    def _on_connected(self, session: ServerSession) -> None:
        self._is_connected = True
        self._undisturbed_since = asyncio.get_running_loop().time()
        self._tell(SessionEvent(SessionState.CONNECTED, session.id))
        self._send_waiting()

    def _reconnect_in(self, seconds: float, session: ServerSession) -> None:
        asyncio.get_running_loop().call_later(
            seconds, self._reconnect, session, self._up.cuts, context=self._process.context
        )

    def _reconnect(self, session: ServerSession, cuts: int) -> None:
        if self._session is not session or self._up.cuts != cuts:
            return
        if self._server.is_reachable:
            self._up.send(self._resume_at_server, session)
        else:
            self._reconnect_in(RECONNECT_SECONDS, session)

    def _resume_at_server(self, session: ServerSession) -> None:
        if not session.is_alive:
            self._down.send(self._receive, self._on_expired, session)
            return
        self._keep_alive(session)
        self._down.send(self._receive, self._on_connected, session)
        watches = self._watches
        for path in watches.subtrees if self._server.knows_subtree_watches else ():
            session.watch_subtree(path)
        session.watch_again(watches.data, watches.exists, watches.children, watches.since_zxid)

    def _keep_alive(self, session: ServerSession) -> None:
        """The server received a message; the session stays alive if the process runs."""
        self._pinged = session
        session.keep()
        if self._is_silent:
            session.let_expire()

    def _end_at_server(self, session: ServerSession, ended: "Future[None]") -> None:
        self._server.end_session(session)
        if not ended.done():
            ended.set_result(None)

    def _on_hung_up(self, session: ServerSession) -> None:
        if session is self._session and self._is_connected:
            self.disconnect()

    def _on_expired(self, session: ServerSession) -> None:
        self._finish()
        self._tell(SessionEvent(SessionState.EXPIRED, session.id))

    def _on_watch_event(self, event: WatchEvent) -> None:
        self._watches.fired(event)
        self._tell(WatchEvent(self._chroot.relative(event.path), event.kind))

    def _on_subtree_event(self, event: WatchEvent) -> None:
        for root, listener in self._watches.subtrees.items():
            if is_at_or_below(event.path, root):
                change = WatchEvent(self._chroot.relative(event.path), event.kind)
                asyncio.get_running_loop().call_soon(listener, change, context=self._process.context)

    def _read_call(self, paths: Sequence[str], watch: bool) -> PendingCall:
        def remember(znodes: list[Znode | None]) -> None:
            for path, znode in zip(paths, znodes, strict=True):
                self._watches.left_on(path, is_absent=znode is None)

        return PendingCall(lambda session: session.get_many(paths, watch), remember if watch else None)

    def _write_call(self, ops: Sequence[Op]) -> PendingCall:
        if self._chroot.path:
            ops = [structs.replace(op, path=self._chroot.absolute(op.path)) for op in ops]
        return PendingCall(lambda session: self._write(session, ops), is_write=True)

    def _write(self, session: ServerSession, ops: Sequence[Op]) -> list[OpResult]:
        refused = None if self._refuses is None else self._refuses(ops)
        return self._server.write(session, ops) if refused is None else refused

    async def _ask(self, calls: Sequence[PendingCall]) -> list[Any]:
        """Queue the calls and wait for all responses. Raises the first error."""
        self._queue(calls)
        answers = [await call.answer for call in calls]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def _queue(self, calls: Sequence[PendingCall]) -> None:
        self.requests += len(calls)
        self._calls.add(calls)
        if self._session is None:
            self._calls.fail_all()
        else:
            self._send_waiting()

    def _send_waiting(self) -> None:
        if self._is_connected and not self._is_silent and self._session is not None:
            for call in self._calls.take_waiting():
                self._up.send(self._perform_at_server, self._session, call)

    def _perform_at_server(self, session: ServerSession, call: PendingCall) -> None:
        if not session.is_alive:
            # The server has closed the connection; the notification is in flight.
            return
        answer = call.perform(session)
        if call.is_write and self._loses_next_answer:
            self._loses_next_answer = False
            self.disconnect()
        elif self._is_connected:
            # Else the connection broke during the write: its answer, and the zxid in it, do not arrive.
            self._down.send(self._receive, self._on_answer, call, answer, self._server.tree.zxid)

    def _on_answer(self, call: PendingCall, answer: Any, zxid: int) -> None:
        self._watches.since_zxid = zxid
        self._last_zxid = max(self._last_zxid, zxid)
        self._calls.answered(call, answer)

    def _receive(self, arrive: Callable[..., None], *arguments: Any) -> None:
        if not self._is_crashed:
            arrive(*arguments)

    def _finish(self) -> None:
        """The session is over for this client."""
        self._session = self._pinged = None
        self._is_connected = False
        self._watches = ClientWatches()
        self._calls.fail_all()

    def _tell(self, event: WatchEvent | SessionEvent) -> None:
        if not self._is_crashed:
            assert self._listener is not None, "sessions start with a listener"
            asyncio.get_running_loop().call_soon(self._listener, event, context=self._process.context)
