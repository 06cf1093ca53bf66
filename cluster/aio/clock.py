"""Wall-clock time: the port, and the clock of a real process."""

import time
from typing import Protocol


class WallClock(Protocol):
    """Wall-clock time for timestamps. Durations are measured with the event loop's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""


class SystemClock:
    """A WallClock that reads the system's time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
