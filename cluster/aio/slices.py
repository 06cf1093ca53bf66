"""Runs long loops over the items of a request in slices: others have their turn on the event loop in between."""

import asyncio
from collections.abc import AsyncIterator, Iterable
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
