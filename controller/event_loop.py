"""The controller's event loop: processes one event at a time, first in first out.

The only writer of controller state. Everything else (gRPC servicers, watches, responses of brokers) only enqueues
events. `error_disposition` decides what follows from an error. Source: Kafka ControllerEventManager.
"""

import asyncio
from collections import deque
from enum import Enum
from typing import Final, Protocol, assert_never

import structlog

from cluster.aio import garbage
from cluster.model.errors import (
    ApiError,
    ControllerMovedError,
    ErrorCode,
    MalformedZnodeError,
    SessionExpiredError,
    StartupError,
    ZooKeeperError,
)
from controller.active_controller import RecoveryInterruptedError, UnsentDecisionsError
from controller.controller_state import ControllerState
from controller.events import Event, ShutdownEventLoop
from controller.metrics import ControllerMetrics
from controller.request_events import RequestEvent
from state_log.record import Cause

QUEUE_TIME_RESET_S: Final = 300
_log = structlog.stdlib.get_logger()


class Disposition(Enum):
    """Names what the event loop does after an event failed. The event itself is always abandoned at the failing
    step.
    """

    RESIGN_IF_MOVED = "resign if moved"
    """A write was fenced: re-read `/controller` and resign if another controller was elected."""
    STEP_DOWN = "step down"
    """The in-memory state can no longer be trusted: resign, so that a candidate reloads it from ZooKeeper."""
    AWAIT_EXPIRY = "await expiry"
    """The session has expired; the `Expire` event follows."""
    CARRY_ON = "carry on"
    END = "end"
    """A fatal error at startup: end the process."""


def error_disposition(event: Event, error: Exception) -> Disposition:
    """Decide what follows from an error of an event: only those that make memory or the epoch doubtful end an active
    controller.
    """
    match error:
        case ControllerMovedError():
            return Disposition.RESIGN_IF_MOVED
        case SessionExpiredError():
            return Disposition.AWAIT_EXPIRY
        case StartupError():
            return Disposition.END
        case UnsentDecisionsError() | RecoveryInterruptedError() | AssertionError():
            return Disposition.STEP_DOWN
        case _ if event.state is ControllerState.CONTROLLER_CHANGE:
            # A failover that stopped halfway leaves the cluster without a working controller (EL-7).
            return Disposition.STEP_DOWN
        case _:
            return Disposition.CARRY_ON


class EventProcessor(Protocol):
    """Callbacks of the event loop. Source: Kafka ControllerEventProcessor."""

    async def process(self, event: Event, cause: Cause) -> None:
        """Process one event. `cause`: its name and number for the records that follow from it."""
        ...

    async def resign_if_moved(self) -> None:
        """Find out, after a refused write, whether another controller was elected."""
        ...

    async def step_down(self) -> None:
        """Stop being active, because memory may differ from ZooKeeper."""
        ...

    def after_event(self) -> None:
        """Called after every event, successful or not."""


class EventLoop:
    """The event queue and its only consumer."""

    def __init__(self, processor: EventProcessor, metrics: ControllerMetrics) -> None:
        self._processor = processor
        self._metrics = metrics
        self._queue: deque[tuple[Event, float]] = deque()
        self._filled = asyncio.Event()
        self._processed = 0
        self._closed = False

    def put(self, event: Event) -> None:
        """Append an event to the queue; after shutdown the event is preempted at once."""
        if self._closed:
            preempt(event)
            return
        now = _now()
        self._queue.append((event, now))
        if self._metrics.oldest_event_at is None:
            self._metrics.oldest_event_at = now
        self._metrics.queue_size.set(len(self._queue))
        self._filled.set()

    def clear_and_put(self, event: Event) -> None:
        """Preempt all queued events in order, then queue `event`. The event being processed continues (EV-5)."""
        waiting, self._queue = self._queue, deque()
        for preempted, _ in waiting:
            preempt(preempted)
        self.put(event)

    async def run(self) -> None:
        """Process events until `ShutdownEventLoop` was processed."""
        while True:
            event = await self._next()
            await self._process(event)
            self._metrics.oldest_event_at = self._queue[0][1] if self._queue else None
            if isinstance(event, ShutdownEventLoop):
                self._closed = True
                self.clear_and_put(event)
                return

    async def _next(self) -> Event:
        while not self._queue:
            self._filled.clear()
            try:
                async with asyncio.timeout(QUEUE_TIME_RESET_S):
                    await self._filled.wait()
            except TimeoutError:
                # Otherwise old queue times would be exposed as current ones while the queue is idle (EV-10).
                self._metrics.queue_time_ms.reset()
        event, since = self._queue.popleft()
        self._metrics.queue_size.set(len(self._queue))
        self._metrics.queue_time_ms.update((_now() - since) * 1000)
        return event

    async def _process(self, event: Event) -> None:
        state = event.state
        cause = Cause(event.name, self._processed)
        self._processed += 1
        self._metrics.show_state(state)
        began = _now()
        try:
            # What an event of many partitions makes, such as a failover, stays, so that there is nothing to collect.
            with garbage.paused():
                await self._processor.process(event, cause)
        except Exception as error:
            await self._dispose(event, error)
        finally:
            took_ms = (_now() - began) * 1000
            _log.debug("Event processed", event_name=event.name, number=cause.id, ms=round(took_ms, 3))
            self._metrics.time_state(state, took_ms)
            self._metrics.show_state(ControllerState.IDLE)
            self._processor.after_event()

    async def _dispose(self, event: Event, error: Exception) -> None:
        disposition = error_disposition(event, error)
        answer_with_error(event, error)
        if isinstance(event, RequestEvent) and isinstance(error, ApiError) and disposition is Disposition.CARRY_ON:
            # The request is refused and the response says why; this is not a fault of the controller.
            _log.info("Request refused", request=event.name, error=str(error))
            return
        expected = disposition in {Disposition.RESIGN_IF_MOVED, Disposition.AWAIT_EXPIRY, Disposition.END}
        _log.error(
            "Event processing failed",
            abandoned=event.name,
            error=str(error),
            disposition=disposition.value,
            exc_info=None if expected else _traceback_of(error),
        )
        if disposition is Disposition.END:
            raise error
        try:
            match disposition:
                case Disposition.RESIGN_IF_MOVED:
                    await self._processor.resign_if_moved()
                case Disposition.STEP_DOWN:
                    await self._processor.step_down()
                case Disposition.AWAIT_EXPIRY | Disposition.CARRY_ON:
                    pass
                case _:
                    assert_never(disposition)
        except SessionExpiredError:
            # `/controller` is deleted with the session; the `Expire` event follows.
            pass
        except Exception as second:
            _log.error("Resignation failed", error=str(second), exc_info=_traceback_of(second))


def _traceback_of(error: Exception) -> Exception | None:
    """Choose what to log besides the message: nothing where ZooKeeper's content or answer is the cause, which it
    names.
    """
    return None if isinstance(error, MalformedZnodeError | ZooKeeperError) else error


def preempt(event: Event) -> None:
    """Fail the request of an event that will not be processed with NOT_CONTROLLER (EV-6)."""
    _refuse(event, ApiError(ErrorCode.NOT_CONTROLLER, "this controller is not active"))


def answer_with_error(event: Event, error: Exception) -> None:
    """Complete the request of a failed event with the error, unless it was answered before (INV-12)."""
    match error:
        case ControllerMovedError() | SessionExpiredError():
            preempt(event)
        case ApiError():
            _refuse(event, error)
        case _:
            _refuse(event, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))


def _refuse(event: Event, error: ApiError) -> None:
    if isinstance(event, RequestEvent):
        event.refuse(error)


def _now() -> float:
    return asyncio.get_running_loop().time()
