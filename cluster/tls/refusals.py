"""Remembers whose handshakes were refused, for a while, so that an operator can ask about it."""

from collections import OrderedDict
from typing import Final, NamedTuple

KEPT: Final = 100
"""The hosts and reasons that are remembered: strangers cannot fill the memory."""
FORGOTTEN_AFTER_S: Final = 900.0
"""From the last refusal on."""


class Refusal(NamedTuple):
    """What one host was refused for at one listener. `first_s`, `last_s`: in seconds since 1970."""

    listener: str
    host: str
    why: str
    first_s: float
    last_s: float
    times: int


class RefusedHandshakes:
    """Counts refusals by listener, host and reason, those of the last minutes."""

    def __init__(self) -> None:
        self._refusals: OrderedDict[tuple[str, str, str], Refusal] = OrderedDict()

    def add(self, listener: str, host: str, why: str, now_s: float) -> None:
        """Count a refusal; the one that is the longest ago makes room for it."""
        key = (listener, host, why)
        known = self._refusals.pop(key, None)
        first_s, times = (now_s, 0) if known is None or _is_over(known, now_s) else (known.first_s, known.times)
        self._refusals[key] = Refusal(listener, host, why, first_s, now_s, times + 1)
        if len(self._refusals) > KEPT:
            self._refusals.popitem(last=False)

    def recent(self, now_s: float) -> list[Refusal]:
        """List those of the last minutes, the latest first."""
        return [refusal for refusal in reversed(self._refusals.values()) if not _is_over(refusal, now_s)]


def _is_over(refusal: Refusal, now_s: float) -> bool:
    return refusal.last_s < now_s - FORGOTTEN_AFTER_S
