"""When a candidate may compete for `/controller`: not at once after it failed, nor again and again with a broker."""

from typing import Final

from msgspec.structs import replace

from controller import events
from controller.decisions.controller_epochs import KnownEpochs, after_refusal

NEXT_ATTEMPT_S: Final = 1
"""Delay between attempts to open a session, and before a controller that stepped down takes part in an election."""
TAKE_OVER_PAUSE_MIN_S: Final = 1.0
REFUSED_EPOCH_PAUSE_MIN_S: Final = 0.1
"""Mostly few elections lead to an epoch that the broker obeys; but it may refuse whatever the epoch is."""
PAUSE_MAX_S: Final = 32.0
CALM_S: Final = 60.0
"""After so long without an attempt the next one is not delayed."""


class _DoublingPause:
    """The first attempt is immediate; each further one waits twice as long as the one before, `min_s` at first."""

    def __init__(self, min_s: float) -> None:
        self._min_s, self._pause_s = min_s, 0.0
        self._last = -CALM_S

    def left_s(self, now: float) -> float:
        """Seconds until the next attempt; not positive for at once."""
        return 0.0 if self.is_calm(now) else self._last + self._pause_s - now

    def attempted(self, now: float) -> None:
        self._pause_s = self._min_s if self.is_calm(now) else min(PAUSE_MAX_S, self._pause_s * 2)
        self._last = now

    def is_calm(self, now: float) -> bool:
        return now - self._last >= CALM_S


class ElectionPauses:
    """Take-overs from a broker have pauses that double (TO-7); a controller that stepped down has one."""

    def __init__(self) -> None:
        self._compete_from = 0.0
        self._take_overs = _DoublingPause(TAKE_OVER_PAUSE_MIN_S)

    def forbids(self, now: float, *, from_broker: bool) -> bool:
        """Whether it is too early to compete; `from_broker`: for what a Kafka broker holds."""
        return now < self._compete_from or (from_broker and self.take_over_pause(now) > 0)

    def take_over_pause(self, now: float) -> float:
        """Seconds until the next take-over may be tried; not positive for at once."""
        return self._take_overs.left_s(now)

    def stepped_down(self, now: float) -> None:
        """The candidate failed as the active controller, so others get the first attempt."""
        self._compete_from = now + NEXT_ATTEMPT_S

    def took_over(self, now: float) -> None:
        """Count that `/controller` was taken from a broker."""
        self._take_overs.attempted(now)


class RefusedEpochs:
    """Brokers refused the controller epoch: elections with a higher one have pauses that double (D-94)."""

    def __init__(self) -> None:
        self._elections = _DoublingPause(REFUSED_EPOCH_PAUSE_MIN_S)

    def next_attempt(
        self, event: events.ControllerEpochRefused, known: KnownEpochs, now: float
    ) -> tuple[KnownEpochs | None, float]:
        """The epochs known to have been used after this refusal, None if no higher epoch would help; and the seconds
        until the next election, not positive for at once. A calm refusal is followed by the smallest step.
        """
        if self._elections.is_calm(now):
            known = replace(known, refusals=0)
        return after_refusal(known, event.epoch, event.named), self._elections.left_s(now)

    def elected(self, now: float) -> None:
        """A refusal leads to an election."""
        self._elections.attempted(now)
