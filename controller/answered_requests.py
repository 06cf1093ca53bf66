"""Mutations that were asked for before: who asks again under the same request id gets the first answer.

A client whose connection broke cannot know whether its request was carried out. It sends it again with the
id it had, and the mutation happens once. What is remembered is the decision, which goes on without the
caller; each caller waits for consequences (leaders, the end of a deletion) by itself. The memory is this
process's own: after a failover the next controller answers from the state of the cluster.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from cluster.errors import ApiError, ErrorCode

ANSWERS_MAX: Final = 1_000
"""Far more than clients have under way; the oldest is forgotten first."""

Ask = Callable[[asyncio.Future[Any]], None]
"""Sees to it that the future is resolved: by an event in the queue, or at once where there can be none."""


class _Answered(NamedTuple):
    request: object
    answer: asyncio.Future[Any]


class AnsweredRequests:
    """Decisions by request id, those not yet taken included. For one event loop."""

    def __init__(self) -> None:
        self._answered: dict[str, _Answered] = {}

    async def first_answer(self, request_id: str, request: object, ask: Ask) -> Any:
        """The answer to `request`, asked for unless it was before. Without an id nothing is remembered.

        A failure is not remembered: it means that nothing was decided here. Raises ApiError(INVALID_REQUEST)
        when the id came with another request.
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
        # The event is in the queue whatever becomes of this caller, so its answer must survive him.
        return await asyncio.shield(known.answer)

    def _remember(self, request_id: str, answered: _Answered) -> None:
        while len(self._answered) >= ANSWERS_MAX:
            del self._answered[next(iter(self._answered))]
        self._answered[request_id] = answered

        def forget_failure(answer: asyncio.Future[Any]) -> None:
            if (answer.cancelled() or answer.exception() is not None) and self._answered.get(request_id) is answered:
                del self._answered[request_id]

        answered.answer.add_done_callback(forget_failure)
