"""Requests to the active controller as events, each with a reply that a caller awaits.

Source: Kafka ControllerEvent, those with a callback.
"""

from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.context import RequestContext
from cluster.rpc.apis import Api, ApiKind, Request
from controller.active_controller import ActiveController
from controller.context.controller_context import ControllerContext
from controller.controller_state import ControllerState
from controller.events import Event

Answer = TypeVar("Answer")


class ControllerApi(Api[Request], Generic[Request, Answer], frozen=True):
    """An API that the active controller handles in its event loop.

    `event_name`, `state`: the cause in the state-change log, and the controller state while it is processed.
    `gather` runs before the event is queued, and returns what the handler gets in place of the request.
    `refuse` puts an error code into a response; without it a request is refused with an ApiError. `follow_up` runs in
    the same turn of the event loop, after the reply. `finish` builds the response outside the event loop, after what
    the caller waits for. `dry_run_topics`: the topics with which a dry run (`validate_only`) is rehearsed; None if it
    has no dry run.
    """

    handler: Callable[[ActiveController, Request], Awaitable[Answer]]
    event_name: str | None = None
    state: ControllerState = ControllerState.IDLE
    gather: Callable[[ActiveController, Request], Awaitable[object]] | None = None
    refuse: Callable[[ErrorCode], Answer] | None = None
    follow_up: Callable[[ActiveController, Answer], Awaitable[object]] | None = None
    finish: Callable[[Answer, Request], Awaitable[object]] | None = None
    dry_run_topics: Callable[[ControllerContext, Request], Iterable[str]] | None = None

    @property
    def event(self) -> str:
        """The name of the event, which is the cause in the records that follow from it."""
        return self.event_name or ("QueryReceived" if self.kind is ApiKind.QUERY else f"{self.name}Received")

    def is_dry_run(self, request: Any) -> bool:
        """Whether the request asks only what it would change."""
        return self.dry_run_topics is not None and bool(request.validate_only)


class RequestEvent(Event, frozen=True):
    """`reply` is answered or refused exactly once; it is done earlier if the caller cancelled (INV-12).

    `context`: the caller; for a repeated mutation, the first caller. `thread`: of the request's long computations, for
    which the event loop of the controller waits, so that nothing changes meanwhile.
    """

    api: ControllerApi[Any, Any]
    request: Any
    reply: "Future[Any]"
    context: RequestContext = RequestContext()
    thread: ThreadPoolExecutor | None = None

    @property
    def name(self) -> str:
        return self.api.event

    @property
    def state(self) -> ControllerState:
        return self.api.state

    @property
    def changes_cluster(self) -> bool:
        """Whether the event may have left something undone if it fails."""
        return self.api.kind is not ApiKind.QUERY and not self.api.is_dry_run(self.request)

    def answer(self, answer: object) -> None:
        """Answer the caller, unless it has gone."""
        if not self.reply.done():
            self.reply.set_result(answer)

    def refuse(self, error: ApiError) -> None:
        """Fail the reply: an exception for administrative requests, an error code in the response between nodes."""
        if self.api.refuse is not None:
            self.answer(self.api.refuse(error.code))
        elif not self.reply.done():
            self.reply.set_exception(error)
