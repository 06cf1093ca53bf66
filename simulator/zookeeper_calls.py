"""The state of a simulated ZooKeeper client beyond one connection: its requests and its watches."""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from cluster.model.errors import OutcomeUnknownError, SessionExpiredError, ZooKeeperAccessError
from cluster.zookeeper.acl import Access
from cluster.zookeeper.port import SubtreeListener, WatchEvent, WatchKind
from simulator.zookeeper import ServerSession

READS_PER_REQUEST: Final = 1000


class PendingCall:
    """One request: its operation on the server, and the future of its response. `on_answer` is not called on errors."""

    __slots__ = ("_on_answer", "_perform", "answer", "is_write")

    def __init__(
        self,
        perform: Callable[[ServerSession], Any],
        on_answer: Callable[[Any], None] | None = None,
        *,
        is_write: bool = False,
    ) -> None:
        self._perform, self._on_answer, self.is_write = perform, on_answer, is_write
        self.answer: Future[Any] = asyncio.get_running_loop().create_future()

    def perform(self, session: ServerSession) -> Any:
        """Run on the server; returns the response, which may be an error."""
        try:
            return self._perform(session)
        except ZooKeeperAccessError as refused:
            return refused

    def complete(self, answer: Any) -> None:
        """Deliver the response to the client."""
        if self._on_answer is not None and not isinstance(answer, Exception):
            self._on_answer(answer)
        if not self.answer.done():
            self.answer.set_result(answer)


class CallQueue:
    """The calls of one client in order: those not sent yet, and those in flight."""

    def __init__(self) -> None:
        self._waiting: deque[PendingCall] = deque()
        self._in_flight: deque[PendingCall] = deque()

    def add(self, calls: Sequence[PendingCall]) -> None:
        self._waiting.extend(calls)

    def take_waiting(self) -> Iterator[PendingCall]:
        """Yield all calls to send now."""
        while self._waiting:
            self._in_flight.append(self._waiting.popleft())
            yield self._in_flight[-1]

    def answered(self, call: PendingCall, answer: Any) -> None:
        assert self._in_flight.popleft() is call, "answers come in the order of the requests"
        call.complete(answer)

    def connection_lost(self) -> None:
        """Handle calls in flight: reads are sent again, writes have an unknown outcome."""
        repeated = []
        for call in self._in_flight:
            if not call.is_write:
                repeated.append(call)
            elif not call.answer.done():
                call.answer.set_result(OutcomeUnknownError("the connection was lost before the answer came"))
        self._in_flight.clear()
        self._waiting.extendleft(reversed(repeated))

    def fail_all(self) -> None:
        """Fail all calls: the session is over."""
        for call in (*self._in_flight, *self._waiting):
            if not call.answer.done():
                call.answer.set_result(SessionExpiredError("the ZooKeeper session is over"))
        self._in_flight.clear()
        self._waiting.clear()


class ClientWatches:
    """Absolute paths on which a client has watches, to be restored on a new connection.

    `since_zxid`: of the last response; later changes must be reported on the restoration.
    """

    def __init__(self) -> None:
        self.data: set[str] = set()
        self.exists: set[str] = set()
        self.children: set[str] = set()
        self.subtrees: dict[str, SubtreeListener] = {}
        self.since_zxid = 0

    def left_on(self, path: str, *, is_absent: bool) -> None:
        (self.exists if is_absent else self.data).add(path)

    def fired(self, event: WatchEvent) -> None:
        if event.kind is not WatchKind.CHILDREN:
            self.data.discard(event.path)
            self.exists.discard(event.path)
        if event.kind in (WatchKind.CHILDREN, WatchKind.DELETED):
            self.children.discard(event.path)


def list_children(session: ServerSession, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
    return [session.children(path, watch=False) for path in paths]


def list_open(session: ServerSession, paths: Sequence[str]) -> list[bool]:
    znodes = session.server.tree.znodes
    return [path in znodes and znodes[path].access is Access.OPEN for path in paths]


def in_requests(paths: Sequence[str]) -> list[Sequence[str]]:
    return [paths[start : start + READS_PER_REQUEST] for start in range(0, len(paths), READS_PER_REQUEST)]
