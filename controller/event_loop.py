"""One event at a time, first come first served: the single writer of all controller state.

Everything else (servicers, watches, answers of brokers) only puts events here. What an error of an event
leads to is decided in this one place. Source: Kafka ControllerEventManager.
"""

import asyncio
from collections import deque
from enum import Enum
from typing import Final, Protocol, assert_never

import structlog

from cluster.errors import ApiError, ControllerMovedError, ErrorCode, SessionExpiredError, StartupError
from controller.active_controller import UnsentDecisionsError
from controller.controller_state import ControllerState
from controller.events import Event, ShutdownEventLoop
from controller.metrics import ControllerMetrics
from controller.request_events import RequestEvent
from state_log.record import Cause

QUEUE_TIME_RESET_S: Final = 300
_log = structlog.stdlib.get_logger()


class Disposition(Enum):
    """What follows from an event that ended in an error. In every case the event is abandoned where it stood."""

    RESIGN_IF_MOVED = "resign if moved"
    """Another controller was elected: resign if that is so."""
    STEP_DOWN = "step down"
    """What is in memory can no longer be trusted: let some candidate start afresh from ZooKeeper."""
    AWAIT_EXPIRY = "await expiry"
    """The session is gone; the event that says so is on its way."""
    CARRY_ON = "carry on"
    END = "end"
    """The process cannot do what it was started for: nothing is left to try."""


def error_disposition(event: Event, error: Exception) -> Disposition:
    match error:
        case ControllerMovedError():
            return Disposition.RESIGN_IF_MOVED
        case SessionExpiredError():
            return Disposition.AWAIT_EXPIRY
        case StartupError():
            return Disposition.END
        case UnsentDecisionsError() | AssertionError():
            return Disposition.STEP_DOWN
        case _ if event.state is ControllerState.CONTROLLER_CHANGE:
            # A failover that broke off half way leaves nobody in charge (EL-7).
            return Disposition.STEP_DOWN
        case _:
            return Disposition.CARRY_ON


class EventProcessor(Protocol):
    """What the loop asks of the controller. Source: Kafka ControllerEventProcessor."""

    async def process(self, event: Event, cause: Cause) -> None: ...

    async def resign_if_moved(self) -> None: ...

    async def step_down(self) -> None: ...

    def after_event(self) -> None:
        """Called after every event, successful or not."""
        ...


class EventLoop:
    """The queue and its one consumer."""

    def __init__(self, processor: EventProcessor, metrics: ControllerMetrics) -> None:
        self._processor = processor
        self._metrics = metrics
        self._queue: deque[tuple[Event, float]] = deque()
        self._filled = asyncio.Event()
        self._processed = 0
        self._closed = False

    def put(self, event: Event) -> None:
        """Queue an event; after the shutdown it is preempted at once."""
        if self._closed:
            preempt(event)
            return
        self._queue.append((event, _now()))
        self._metrics.queue_size.set(len(self._queue))
        self._filled.set()

    def clear_and_put(self, event: Event) -> None:
        """Jump the queue: preempt all that waits, in order. The event in progress is not disturbed (EV-5)."""
        waiting, self._queue = self._queue, deque()
        for preempted, _ in waiting:
            preempt(preempted)
        self.put(event)

    async def run(self) -> None:
        """Process events until ShutdownEventLoop has been."""
        while True:
            event = await self._next()
            await self._process(event)
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
                # Old waiting times would otherwise look like present ones for as long as nothing happens (EV-10).
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
            await self._processor.process(event, cause)
        except Exception as error:
            await self._dispose(event, error)
        finally:
            self._metrics.time_state(state, (_now() - began) * 1000)
            self._metrics.show_state(ControllerState.IDLE)
            self._processor.after_event()

    async def _dispose(self, event: Event, error: Exception) -> None:
        disposition = error_disposition(event, error)
        answer_with_error(event, error)
        if isinstance(event, RequestEvent) and isinstance(error, ApiError) and disposition is Disposition.CARRY_ON:
            # What somebody asked for cannot be had, and the answer says so: nothing is wrong here.
            _log.info("A request was refused", request=event.name, error=str(error))
            return
        expected = disposition in {Disposition.RESIGN_IF_MOVED, Disposition.AWAIT_EXPIRY, Disposition.END}
        _log.error(
            "An event was abandoned",
            abandoned=event.name,
            error=str(error),
            disposition=disposition.value,
            exc_info=None if expected else error,
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
            # Whatever office there was is gone with the session; its event follows.
            pass
        except Exception as second:
            _log.error("Resigning failed", error=str(second), exc_info=second)


def preempt(event: Event) -> None:
    """Answer the caller of an event that will not be processed (EV-6)."""
    _refuse(event, ApiError(ErrorCode.NOT_CONTROLLER, "this controller is not active"))


def answer_with_error(event: Event, error: Exception) -> None:
    """Answer the caller of an event that ended in an error, unless it was answered before (INV-12)."""
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
