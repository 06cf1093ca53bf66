"""When a candidate may compete for `/controller`: not at once after it failed, nor again and again with a broker."""

from typing import Final

NEXT_ATTEMPT_S: Final = 1
"""Delay between attempts to open a session, and before a controller that stepped down takes part in an election."""
TAKE_OVER_PAUSE_MIN_S: Final = 1.0
TAKE_OVER_PAUSE_MAX_S: Final = 32.0
CALM_S: Final = 60.0
"""After so long without a take-over the next one is not delayed."""


class ElectionPauses:
    """The first take-over from a broker is immediate; each further one waits twice as long as the one before (TO-7)."""

    def __init__(self) -> None:
        self._compete_from = 0.0
        self._last_take_over = -CALM_S
        self._take_over_pause = 0.0

    def forbids(self, now: float, *, from_broker: bool) -> bool:
        """Whether it is too early to compete; `from_broker`: for what a Kafka broker holds."""
        return now < self._compete_from or (from_broker and self.take_over_pause(now) > 0)

    def take_over_pause(self, now: float) -> float:
        """Seconds until the next take-over may be tried; not positive for at once."""
        return 0.0 if self._is_calm(now) else self._last_take_over + self._take_over_pause - now

    def stepped_down(self, now: float) -> None:
        """The candidate failed as the active controller, so others get the first attempt."""
        self._compete_from = now + NEXT_ATTEMPT_S

    def took_over(self, now: float) -> None:
        """`/controller` was taken from a broker."""
        doubled = min(TAKE_OVER_PAUSE_MAX_S, self._take_over_pause * 2)
        self._take_over_pause = TAKE_OVER_PAUSE_MIN_S if self._is_calm(now) else doubled
        self._last_take_over = now

    def _is_calm(self, now: float) -> bool:
        return now - self._last_take_over >= CALM_S
