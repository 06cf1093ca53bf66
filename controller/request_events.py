"""Requests to the active controller: each an event whose answer somebody waits for.

Source: Kafka ControllerEvent, those with a callback.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from cluster.errors import ApiError, ErrorCode
from cluster.requests.context import RequestContext
from cluster.rpc.apis import Api, Request
from controller.active_controller import ActiveController
from controller.context import ControllerContext
from controller.controller_state import ControllerState
from controller.events import Event

Answer = TypeVar("Answer")


class ControllerApi(Api[Request], Generic[Request, Answer], frozen=True):
    """An API that the active controller answers from its event loop.

    `event`, `state`: the name of the cause in the state-change log, and what the controller is busy with meanwhile.
    `refuse` puts an error code into a response; without it a request is refused with an ApiError.
    `follow_up` is carried out in the same turn of the event loop, once the caller has the answer.
    `finish` makes the response of the answer outside the event loop, after what the caller is to wait for.
    `dry_run_topics`: the topics that a dry run (`validate_only`) is rehearsed with; None where there is none.
    """

    handler: Callable[[ActiveController, Request], Awaitable[Answer]]
    event: str = "QueryReceived"
    state: ControllerState = ControllerState.IDLE
    refuse: Callable[[ErrorCode], Answer] | None = None
    follow_up: Callable[[ActiveController, Answer], Awaitable[object]] | None = None
    finish: Callable[[Answer, Request], Awaitable[object]] | None = None
    dry_run_topics: Callable[[ControllerContext, Request], Iterable[str]] | None = None


class RequestEvent(Event, frozen=True):
    """`reply` is answered or refused exactly once, and done before that when the caller went away (INV-12).

    `context`: who asks, as the wire says; of a repeated mutation, who asked first.
    """

    api: ControllerApi[Any, Any]
    request: Any
    reply: "Future[Any]"
    context: RequestContext = RequestContext()

    @property
    def name(self) -> str:
        return self.api.event

    @property
    def state(self) -> ControllerState:
        return self.api.state

    def answer(self, answer: object) -> None:
        if not self.reply.done():
            self.reply.set_result(answer)

    def refuse(self, error: ApiError) -> None:
        """Administrators get an error; between nodes it is a code in the answer."""
        if self.api.refuse is not None:
            self.answer(self.api.refuse(error.code))
        elif not self.reply.done():
            self.reply.set_exception(error)
