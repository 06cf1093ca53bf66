"""Interrupts put off until the program asks: SIGINT, as of Ctrl-C, and SIGTERM.

py4j, through which Spark is called, prints a traceback of its own for an exception that a signal raises in the
midst of a call, and the connection is of no use afterwards.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def deferred_interrupts() -> Iterator[Event]:
    """Let a signal set the event instead of raising; raise KeyboardInterrupt at the end if it is still set.

    Whoever has done what the interrupt asked for clears it. A second signal raises at once, so that a Spark that
    does not answer can be left. Main thread only.
    """
    interrupted = Event()

    def remember(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    before = {number: signal.signal(number, remember) for number in _SIGNALS}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if interrupted.is_set():
        raise KeyboardInterrupt
