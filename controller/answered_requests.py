"""Deduplicates mutations by request id: a repeated request gets the first response.

A client that lost its connection cannot know whether its request was carried out. It repeats the request with the same
id, and the mutation is carried out once. The decision is stored, and does not depend on the caller; each caller waits
for its effects (leaders elected, topic deleted) separately. The store is local to this process: after a failover the
next controller answers from the cluster state.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cluster.model.errors import ApiError, ErrorCode

ANSWERS_MAX: Final = 1_000
"""Far more than clients have in flight; the oldest is removed first."""

Ask = Callable[[asyncio.Future[Any]], None]
"""Makes sure that the future is completed: by an event in the queue, or at once if that is not possible."""


class _Answered(NamedTuple):
    request: object
    answer: asyncio.Future[Any]


class AnsweredRequests:
    """Decisions by request id, including pending ones. Not thread-safe: used from one event loop."""

    def __init__(self) -> None:
        self._answered: dict[str, _Answered] = {}

    async def first_answer(self, request_id: str, request: object, ask: Ask) -> Any:
        """The response to `request`, enqueued unless it was before. Without an id nothing is stored.

        A failure is not stored, since then nothing was decided. Raises ApiError(INVALID_REQUEST) if the id was used by
        another request.
        """
        known = self._answered.get(request_id)
        if known is None:
            known = _Answered(request, asyncio.get_running_loop().create_future())
            ask(known.answer)
            if request_id:
                self._remember(request_id, known)
        elif known.request != request:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "another request had this id", field="x-request-id", value=request_id
            )
        # The event is queued whatever happens to this caller, so its response must not be cancelled with the caller.
        return await asyncio.shield(known.answer)

    def _remember(self, request_id: str, answered: _Answered) -> None:
        while len(self._answered) >= ANSWERS_MAX:
            del self._answered[next(iter(self._answered))]
        self._answered[request_id] = answered

        def forget_failure(answer: asyncio.Future[Any]) -> None:
            if (answer.cancelled() or answer.exception() is not None) and self._answered.get(request_id) is answered:
                del self._answered[request_id]

        answered.answer.add_done_callback(forget_failure)
