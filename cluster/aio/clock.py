"""Tells the wall-clock time: the port, and the clock of a real process."""

import time
from typing import Protocol


class WallClock(Protocol):
    """Tells the wall-clock time for timestamps. Durations are measured with the event loop's clock."""

    def now_ms(self) -> int:
        """The time in milliseconds since the Unix epoch."""


class SystemClock:
    """Reads the system's time as a WallClock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
