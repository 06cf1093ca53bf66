"""Describes the progress of a long operation, with an estimate of the remaining time from the speed so far."""

from collections.abc import Iterable
from typing import Final

_NAMED: Final = 3


class Progress:
    """Counts the items done, of `total`. `now` is the event loop's time in seconds."""

    def __init__(self, total: int, now: float) -> None:
        self.total = total
        self.done = 0
        self._begun_at = now
        self._at_begin: int | None = None

    def update(self, done: int, now: float) -> None:
        """Set the number of items done; those done at the first call do not count for the speed."""
        if self._at_begin is None:
            self._at_begin, self._begun_at = done, now
        self.done = done
        self._now = now

    def remaining_s(self) -> float | None:
        """The estimated number of seconds until all is done; None until an item was done since the first call."""
        if self._at_begin is None or self.done <= self._at_begin:
            return None
        per_thing = (self._now - self._begun_at) / (self.done - self._at_begin)
        return per_thing * (self.total - self.done)

    def describe(self, what: str, hindrances: Iterable[tuple[str, str]]) -> str:
        """Describe the progress in a line of text: `3 of 7 partitions moved, about 2 s left`.

        The estimate is left out if any item is stuck. `hindrances`: each stuck item and its reason; items with the same
        reason are grouped.
        """
        text = f"{self.done} of {self.total} {what}"
        held: dict[str, list[str]] = {}
        for thing, why in hindrances:
            held.setdefault(why, []).append(thing)
        if held:
            return "; ".join([text, *(f"{some_of(sorted(things))}: {why}" for why, things in sorted(held.items()))])
        remaining = self.remaining_s()
        return text if remaining is None else f"{text}, about {remaining:.0f} s left"


def some_of(names: list[str], named: int = _NAMED) -> str:
    """Name at most three of the items, or `named`."""
    more = len(names) - named
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:named])} and {more} more"
