"""Limits how often log lines repeat: retries over hours must not fill the disk, nor hide the line that matters.

The first line after a pause says how many were left out.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

WINDOW_S: Final = 10.0
SAME_MAX: Final = 3
"""The number of lines with the same fields that are written in a window."""
ALIKE_MAX: Final = 50
"""The number of lines with the same message in a window, whatever their fields; errors, which name different things,
are not limited by it.
"""
_TEXTS_MAX: Final = 10_000
_OF_THE_LINE: Final = frozenset({"timestamp", "level", "logger", "role", "node", "exc_info"})


class _Window(Struct):
    """Counts the lines of one text since `start`, in seconds."""

    start: float
    written: int = 0
    left_out: int = 0


class RepeatedLines(logging.Filter):
    """Filters the lines of the handler of all; any thread may call it."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._windows: dict[str, _Window] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Decide whether the line is written, and add to it how many like it were not."""
        message, fields = _parts(record)
        limits = {f"{record.name} {message} {fields}": SAME_MAX}
        if record.levelno < logging.ERROR:
            limits[f"{record.name} {message}"] = ALIKE_MAX
        with self._lock:
            windows = {text: self._window(text) for text in limits}
            if any(window.written >= limits[text] for text, window in windows.items()):
                for window in windows.values():
                    window.left_out += 1
                return False
            left_out = max(window.left_out for window in windows.values())
            for window in windows.values():
                window.written, window.left_out = window.written + 1, 0
        if left_out:
            _add(record, f"{left_out} similar lines suppressed")
        return True

    def _window(self, text: str) -> _Window:
        now = self._now_s()
        window = self._windows.get(text)
        if window is None:
            if len(self._windows) >= _TEXTS_MAX:
                self._windows = {t: w for t, w in self._windows.items() if now - w.start < WINDOW_S}
            window = self._windows[text] = _Window(now)
        elif now - window.start >= WINDOW_S:
            window.start, window.written = now, 0
        return window


def _parts(record: logging.LogRecord) -> tuple[str, str]:
    """Find the message and the fields of a line of structlog or another library."""
    event = record.msg
    if not isinstance(event, Mapping):
        return str(event), str(record.args)
    fields = {key: value for key, value in event.items() if key not in _OF_THE_LINE and key != "event"}
    return str(event.get("event")), repr(fields)


def _add(record: logging.LogRecord, text: str) -> None:
    if isinstance(record.msg, Mapping):
        record.msg = {**record.msg, "repeated": text}
    else:
        record.msg = f"{record.msg} ({text})"
