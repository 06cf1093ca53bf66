"""Runs long computations beside the event loop: pure functions of large requests, in a thread that takes turns with it.

Python runs one thread at a time and changes over every 5 ms, so that heartbeats and short requests continue. Without a
thread of the request, as in a simulation, the function runs where it is.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

THREAD: Final[ContextVar[ThreadPoolExecutor | None]] = ContextVar("THREAD", default=None)
"""The thread of the long computations of the request that this context handles; None: they run on the event loop."""


async def off_loop(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run a function that neither reads nor changes what others change, and return its result."""
    thread = THREAD.get()
    if thread is None:
        return function(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(thread, lambda: function(*args, **kwargs))
