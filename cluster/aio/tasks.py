"""Runs a program: supervised tasks, ended by a signal or by the first task that fails."""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from cluster.aio import garbage
from cluster.model.errors import ClusterError, ConfigError, StartupError, StoppingError
from cluster.model.exit_codes import ExitCode

_GARBAGE_THRESHOLDS: Final = (2_000, 10, 1_000)
"""The thresholds of garbage collection. Full collections are rare: one takes 0.8 s while ten thousand requests wait.
Nearly everything is freed without.
"""
_T = TypeVar("_T")


class TaskSet:
    """Runs background tasks within an `async with` block.

    A task that raises cancels the block and every other task, and the block raises its exception (in an
    ExceptionGroup). Leaving the block cancels running tasks and waits for them.
    """

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        # A dict for its order: the order of a set must not affect a simulated run.
        self._running: dict[asyncio.Task[Any], None] = {}

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel_all()
        await self._group.__aexit__(kind, error, trace)

    async def leave(self, error: BaseException | None) -> None:
        """End the tasks of an object whose own block ended with `error`, which is not wrapped into a group."""
        own = error if isinstance(error, asyncio.CancelledError) else None
        await self.__aexit__(type(own) if own else None, own, None)

    def start(self, coroutine: Coroutine[Any, Any, _T], *, name: str) -> asyncio.Task[_T]:
        """Run a coroutine in the background. The returned task may be awaited or cancelled separately.

        Raises StoppingError, and drops the coroutine, once the block ends.
        """
        try:
            task = self._group.create_task(coroutine, name=name)
        except RuntimeError as error:
            coroutine.close()
            raise StoppingError(f"{name}: the process is ending") from error
        self._running[task] = None
        task.add_done_callback(self._forget)
        return task

    def cancel_all(self) -> None:
        """Cancel all tasks, without waiting for their ends."""
        for task in tuple(self._running):
            task.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        del self._running[task]


class Backoff:
    """Computes an exponential backoff: doubled up to a maximum, with a jitter of 20 %."""

    def __init__(self, initial_ms: float, max_ms: float, random: Random) -> None:
        self._initial_ms, self._max_ms, self._random = initial_ms, max_ms, random
        self._next_ms = initial_ms

    def next_ms(self) -> float:
        """The delay to wait now; the next one is longer."""
        pause_ms = self._next_ms
        self._next_ms = min(pause_ms * 2, self._max_ms)
        return pause_ms * self._random.uniform(0.8, 1.2)

    def reset(self) -> None:
        """Reset to the initial delay, after a success."""
        self._next_ms = self._initial_ms

    async def pause(self) -> None:
        """Wait before the next attempt."""
        await asyncio.sleep(self.next_ms() / 1000)


def run_program(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> int:
    """Run `main(stop)` until it returns; returns the exit code. SIGTERM and SIGINT set `stop`.

    A second SIGTERM has no effect: supervisors repeat it, and a clean shutdown avoids a recovery. A second SIGINT
    cancels the shutdown.

    ConfigError exits with 2 and StartupError with its own code, with the message on stderr and no traceback. Refuses to
    run under `python -O`: assertions are part of the protocol's safety.
    """
    if not __debug__:
        sys.stderr.write("klamm does not run under python -O: its assertions guard the data\n")
        return ExitCode.USAGE
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    # What was imported stays: no collection goes through it.
    gc.freeze()
    gc.enable()
    try:
        with garbage.pauses_allowed(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run_until_stopped(main))
    except* ConfigError as group:
        _report(group)
        return_code = ExitCode.USAGE
    except* StartupError as group:
        return_code = _report(group)
    else:
        return_code = ExitCode.OK
    return return_code


async def _run_until_stopped(main: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    stop = asyncio.Event()
    program = asyncio.current_task()
    assert program is not None, "coroutines run in tasks"

    def on_interrupt() -> None:
        if stop.is_set():
            program.cancel()
        stop.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    try:
        await main(stop)
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - it has no build for some platforms.
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _report(group: BaseExceptionGroup[ClusterError]) -> ExitCode:
    """Write each error to stderr; returns the exit code of the first StartupError."""
    errors = [*_leaves(group)]
    for error in errors:
        sys.stderr.write(f"{error}\n")
    return next((error.exit_code for error in errors if isinstance(error, StartupError)), ExitCode.REFUSED)


def _leaves(group: BaseExceptionGroup[ClusterError]) -> Iterator[ClusterError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
