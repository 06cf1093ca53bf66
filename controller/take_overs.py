"""Pauses between take-overs of `/controller` from Kafka's brokers, so that the two do not fight over it in a loop."""

from typing import Final

PAUSE_MIN_S: Final = 1.0
PAUSE_MAX_S: Final = 32.0
CALM_S: Final = 60.0
"""After so long without a take-over the next one is not delayed."""


class TakeOvers:
    """The first take-over is immediate; each further one waits twice as long as the one before."""

    def __init__(self) -> None:
        self._last = -CALM_S
        self._pause = 0.0

    def pause(self, now: float) -> float:
        """Seconds until the next take-over may be tried; not positive for at once."""
        return 0.0 if self._is_calm(now) else self._last + self._pause - now

    def took(self, now: float) -> None:
        """`/controller` was taken from a broker."""
        self._pause = PAUSE_MIN_S if self._is_calm(now) else min(PAUSE_MAX_S, self._pause * 2)
        self._last = now

    def _is_calm(self, now: float) -> bool:
        return now - self._last >= CALM_S
