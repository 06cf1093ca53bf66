"""The wall clock of a real process."""

import time


class SystemClock:
    """A WallClock that reads the system's time."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
