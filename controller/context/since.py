"""Since when members of a set are in it."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeVar

_K = TypeVar("_K")


class AddedSince(OrderedDict[_K, float]):
    """Member -> when it was added. Its first key is found at once however many were removed before it, unlike that of a
    dict.
    """

    oldest: float | None = None
    """When the first was added; read by the scraper's thread."""

    def add(self, keys: Iterable[_K], now: float) -> None:
        for key in keys:
            self.setdefault(key, now)
        self._find_oldest()

    def remove(self, keys: Iterable[_K]) -> None:
        for key in keys:
            self.pop(key, None)
        self._find_oldest()

    def _find_oldest(self) -> None:
        # The first was added first: a key that is there keeps its place.
        self.oldest = next(iter(self.values()), None)
