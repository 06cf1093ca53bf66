"""What a client of the simulated ZooKeeper remembers beyond one connection: its requests and its watches."""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from cluster.errors import OutcomeUnknownError, SessionExpiredError, ZooKeeperAccessError
from cluster.zookeeper.port import WatchEvent, WatchKind
from simulator.zookeeper import ServerSession

READS_PER_REQUEST: Final = 1000


class Call:
    """One request: what the server does with it, and the future of its answer. `on_answer` hears of no refusal."""

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
        """At the server: its answer, which may be a refusal."""
        try:
            return self._perform(session)
        except ZooKeeperAccessError as refused:
            return refused

    def complete(self, answer: Any) -> None:
        """Back at the client."""
        if self._on_answer is not None and not isinstance(answer, Exception):
            self._on_answer(answer)
        if not self.answer.done():
            self.answer.set_result(answer)


class CallQueue:
    """The calls of one client in their order: those not sent yet, and those sent and not answered yet."""

    def __init__(self) -> None:
        self._waiting: deque[Call] = deque()
        self._in_flight: deque[Call] = deque()

    def add(self, calls: Sequence[Call]) -> None:
        self._waiting.extend(calls)

    def take_waiting(self) -> Iterator[Call]:
        """All that wait, to be sent now."""
        while self._waiting:
            self._in_flight.append(self._waiting.popleft())
            yield self._in_flight[-1]

    def answered(self, call: Call, answer: Any) -> None:
        assert self._in_flight.popleft() is call, "answers come in the order of the requests"
        call.complete(answer)

    def connection_lost(self) -> None:
        """Of what was under way, reads are sent again, of writes nobody knows."""
        repeated = []
        for call in self._in_flight:
            if not call.is_write:
                repeated.append(call)
            elif not call.answer.done():
                call.answer.set_result(OutcomeUnknownError("the connection was lost before the answer came"))
        self._in_flight.clear()
        self._waiting.extendleft(reversed(repeated))

    def fail_all(self) -> None:
        """The session is over."""
        for call in (*self._in_flight, *self._waiting):
            if not call.answer.done():
                call.answer.set_result(SessionExpiredError("the ZooKeeper session is over"))
        self._in_flight.clear()
        self._waiting.clear()


class ClientWatches:
    """Absolute paths where a client believes to have watches, to be left again on a new connection.

    `since_zxid`, of the last answer: what changed later must be told then.
    """

    def __init__(self) -> None:
        self.data: set[str] = set()
        self.exists: set[str] = set()
        self.children: set[str] = set()
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


def in_requests(paths: Sequence[str]) -> list[Sequence[str]]:
    return [paths[start : start + READS_PER_REQUEST] for start in range(0, len(paths), READS_PER_REQUEST)]
