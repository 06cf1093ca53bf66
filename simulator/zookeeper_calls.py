"""What a client of the simulated ZooKeeper puts on the line: requests, and what will become of them."""

import asyncio
from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Any, Final

from cluster.errors import ZooKeeperAccessError
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


def list_children(session: ServerSession, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
    return [session.children(path, watch=False) for path in paths]


def in_requests(paths: Sequence[str]) -> list[Sequence[str]]:
    return [paths[start : start + READS_PER_REQUEST] for start in range(0, len(paths), READS_PER_REQUEST)]
