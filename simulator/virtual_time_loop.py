"""An asyncio event loop on virtual time; deterministic.

Time stops while any callback is ready and then jumps to the next timer, so a simulated hour takes as long as its
callbacks. Callbacks run in the order in which they became ready (FIFO, as in asyncio); timers of the same instant in
the order in which they were set. There is no I/O, no thread and no signal: methods that need one fail.

Several processes may share the loop. The process of a callback is stored in its context, which asyncio passes on to
everything it schedules; a paused process runs none of its callbacks.
"""

import asyncio
import heapq
from asyncio import AbstractEventLoop, Future, Handle, Task, TimerHandle, events
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START_MS: Final = 1_700_000_000_000
"""Wall-clock time at the start of a simulation; in ms since 1970."""


class DeadlockError(AssertionError):
    """Something is awaited, and no callback or timer is left."""


class StepLimitError(AssertionError):
    """The run exceeded its limit of callbacks: most likely a busy loop without time passing."""


class Process:
    """A unit that is paused and resumed: every callback, timer and task scheduled in `context`, transitively.

    Input from elsewhere (a response, a watch event) must be scheduled in `context` by its sender.
    """

    def __init__(self) -> None:
        self.is_paused = False
        self.paused_s = 0.0
        """Total duration of completed pauses; in virtual seconds."""
        self.paused_since = 0.0
        self.held: deque[Handle] = deque()
        """Callbacks that became ready while it was paused, in that order."""
        self.context = Context()
        self.context.run(_process.set, self)


_process: Final[ContextVar[Process | None]] = ContextVar("process", default=None)

OUTSIDE: Final = Context()
"""Context of what no process can pause, such as messages in flight."""


class VirtualTimeLoop(AbstractEventLoop):
    """An event loop with a virtual clock. `steps` counts the callbacks that ran.

    `max_steps` limits one `run_until_complete`; `after_step` is called after each callback, for checkers that observe
    every visible state. Unretrieved exceptions are collected in `unhandled`, in the form of asyncio's exception
    handler.
    """

    def __init__(self, *, max_steps: int | None = None) -> None:
        self.steps = 0
        self.unhandled: list[dict[str, Any]] = []
        self.after_step: Callable[[], None] | None = None
        self._max_steps = max_steps
        self._now = 0.0
        self._ready: deque[Handle] = deque()
        # Ordered by time, then by the order of setting; handles themselves are never compared.
        self._timers: list[tuple[float, int, TimerHandle]] = []
        self._timers_set = 0
        self._paused: list[Process] = []
        self._running = self._closed = False
        self._task_factory: Any = None

    def time(self) -> float:
        """Virtual seconds since the loop was created."""
        return self._now

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run until the future is done and return its result.

        Raises DeadlockError if nothing is left to run, and StepLimitError.
        """
        assert not self._closed, "the loop is closed"
        assert not self._running, "the loop is already running"
        awaited: Future[T] = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type]
        last_step = None if self._max_steps is None else self.steps + self._max_steps
        outer = events._get_running_loop()
        events._set_running_loop(self)
        self._running = True
        try:
            while not awaited.done():
                if last_step is not None and self.steps >= last_step:
                    raise StepLimitError(f"not done after {self._max_steps} steps, at {self._now:.3f} s")
                self._step(awaited)
        finally:
            self._running = False
            events._set_running_loop(outer)
        return awaited.result()

    def _step(self, awaited: "Future[Any]") -> None:
        """Run one callback; if none is ready, advance the time first."""
        while not self._ready:
            if not self._timers:
                raise DeadlockError(f"nothing is left to happen at {self._now:.3f} s, and this is awaited: {awaited!r}")
            self._pass_time()
        handle = self._ready.popleft()
        if handle.cancelled():
            return
        process = handle._context.get(_process)  # type: ignore[attr-defined] # Typeshed does not tell of it.
        if process is not None and process.is_paused:
            process.held.append(handle)
            return
        self.steps += 1
        handle._run()
        if self.after_step is not None:
            self.after_step()

    def _pass_time(self) -> None:
        """Advance to the time of the next timer, and make all timers of that instant ready."""
        when = self._timers[0][0]
        while self._timers and self._timers[0][0] == when:
            _, _, timer = heapq.heappop(self._timers)
            if not timer.cancelled():
                self._now = when
                self._ready.append(timer)

    def pause(self, process: Process) -> None:
        """Run nothing of this process until `resume`, as after SIGSTOP. Its timers do not fire, but time passes."""
        assert not process.is_paused, "it is paused already"
        process.is_paused, process.paused_since = True, self._now
        self._paused.append(process)

    def resume(self, process: Process) -> None:
        """Make everything ready that became due meanwhile, in that order."""
        self._paused.remove(process)
        process.is_paused = False
        process.paused_s += self._now - process.paused_since
        self._ready.extend(process.held)
        process.held.clear()

    def resume_all(self) -> None:
        for process in list(self._paused):
            self.resume(process)

    def call_soon(self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None) -> Handle:
        assert not self._closed, "the loop is closed"
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> TimerHandle:
        assert not self._closed, "the loop is closed"
        timer = TimerHandle(when, callback, args, self, context)
        if when <= self._now:
            self._ready.append(timer)
            return timer
        self._timers_set += 1
        heapq.heappush(self._timers, (when, self._timers_set, timer))
        return timer

    def create_future(self) -> "Future[Any]":
        return Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> "Task[T]":
        if name is None:
            # asyncio's default names are numbered per interpreter; a name in a trace must not depend on that.
            name = getattr(coro, "__qualname__", "task")
        if self._task_factory is not None:
            task: Task[T] = self._task_factory(self, coro, context=context)
            task.set_name(name)
            return task
        return Task(coro, loop=self, name=name, context=context)

    def set_task_factory(self, factory: Any) -> None:
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        return self._task_factory

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Drop what is left. Tasks of crashed nodes are left as they are: their `finally` blocks must not run."""
        assert not self._running, "the loop is running"
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        assert not enabled, "asyncio's debug mode measures real time"

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.unhandled.append(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.unhandled.append(context)

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        """Called when a timer is cancelled; it is skipped when it is due."""

    async def shutdown_asyncgens(self) -> None:
        """No effect: asynchronous generators are not tracked."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """No effect: there is no executor."""


def virtual_loop() -> VirtualTimeLoop:
    """The running loop, which must be a VirtualTimeLoop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop), "only on virtual time"
    return loop
