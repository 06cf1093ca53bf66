"""How often an epoch is refused by brokers, and how soon another one is tried (D-94)."""

from typing import Final

from msgspec.structs import replace

from controller import events
from controller.decisions.controller_epochs import KnownEpochs, after_refusal

PAUSE_MIN_S: Final = 0.1
"""Mostly few elections lead to an epoch that the broker obeys; but it may refuse whatever the epoch is."""
PAUSE_MAX_S: Final = 32.0
CALM_S: Final = 60.0
"""After so long without a refusal the next one leads to an election at once, and to the smallest step."""


class RefusedEpochs:
    """The first refusal leads to an election at once; each further one waits twice as long as the one before."""

    def __init__(self) -> None:
        self._last = -CALM_S
        self._pause_s = 0.0

    def next_attempt(
        self, event: events.ControllerEpochRefused, known: KnownEpochs, now: float
    ) -> tuple[KnownEpochs | None, float]:
        """What is known to have been used by this refusal, None if no higher epoch would help; and the seconds until
        the next election, not positive for at once.
        """
        if self._is_calm(now):
            return after_refusal(replace(known, refusals=0), event.epoch, event.named), 0
        return after_refusal(known, event.epoch, event.named), self._last + self._pause_s - now

    def elected(self, now: float) -> None:
        """A refusal leads to an election."""
        self._pause_s = PAUSE_MIN_S if self._is_calm(now) else min(PAUSE_MAX_S, self._pause_s * 2)
        self._last = now

    def _is_calm(self, now: float) -> bool:
        return now - self._last >= CALM_S
