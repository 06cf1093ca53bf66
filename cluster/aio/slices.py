"""Runs long loops over the items of a request in slices: others have their turn on the event loop in between."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final, TypeVar

SLICE: Final = 50
"""The number of items that are handled before others have their turn: a few milliseconds of work."""
_T = TypeVar("_T")


async def in_slices(items: Iterable[_T]) -> AsyncIterator[_T]:
    """Yield each of the items. State that the loop reads may change between two slices, as between two requests."""
    for number, item in enumerate(items, 1):
        yield item
        if number % SLICE == 0:
            await asyncio.sleep(0)


async def each_slice(items: Sequence[_T]) -> AsyncIterator[Sequence[_T]]:
    """Consecutive parts of the items. Others have their turn between two parts, not before the first or after the
    last: what is handled in one part is handled without interruption.
    """
    for start in range(0, len(items), SLICE):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + SLICE]
