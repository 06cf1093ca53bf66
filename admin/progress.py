"""How long something that goes on will still take, judged by how fast it went so far."""

from collections.abc import Iterable
from typing import Final

_NAMED: Final = 3


class Progress:
    """Of `total` things, how many are done; `now` is the event loop's time in seconds."""

    def __init__(self, total: int, now: float) -> None:
        self.total = total
        self.done = 0
        self._begun_at = now
        self._at_begin: int | None = None

    def update(self, done: int, now: float) -> None:
        """Tell how many are done by now. What was done at the first call says nothing about the speed."""
        if self._at_begin is None:
            self._at_begin, self._begun_at = done, now
        self.done = done
        self._now = now

    def remaining_s(self) -> float | None:
        """Seconds until all is done at the speed so far; None while nothing was seen to be done."""
        if self._at_begin is None or self.done <= self._at_begin:
            return None
        per_thing = (self._now - self._begun_at) / (self.done - self._at_begin)
        return per_thing * (self.total - self.done)

    def describe(self, what: str, hindrances: Iterable[tuple[str, str]]) -> str:
        """In words: `3 of 7 partitions have arrived, about 2 s left`; what is stuck has no time of arrival.

        `hindrances`: each thing that is stuck, and why. A reason is told once, however many things it holds.
        """
        text = f"{self.done} of {self.total} {what}"
        held: dict[str, list[str]] = {}
        for thing, why in hindrances:
            held.setdefault(why, []).append(thing)
        if held:
            return "; ".join([text, *(f"{_some(sorted(things))}: {why}" for why, things in sorted(held.items()))])
        remaining = self.remaining_s()
        return text if remaining is None else f"{text}, about {remaining:.0f} s left"


def _some(names: list[str]) -> str:
    """At most three of them by name."""
    more = len(names) - _NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_NAMED])} and {more} more"
