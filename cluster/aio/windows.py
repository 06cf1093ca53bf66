"""Fetches many items in windows: the next window is on its way while one is worked on, and no more are held."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from itertools import pairwise
from typing import TypeVar

_Item = TypeVar("_Item")
_Fetched = TypeVar("_Fetched")


async def in_windows(
    items: Sequence[_Item], size: int, fetch: Callable[[Sequence[_Item]], Awaitable[_Fetched]]
) -> AsyncGenerator[tuple[Sequence[_Item], _Fetched], None]:
    """Yield each window of at most `size` items with what `fetch` returned for it, in order.

    If there is only one, it is fetched without a task of its own. Raises what `fetch` raises; a window that is on its
    way is then given up.
    """
    if len(items) <= size:
        yield items, await fetch(items)
        return
    windows = [items[start : start + size] for start in range(0, len(items), size)]
    fetching = asyncio.ensure_future(fetch(windows[0]))
    try:
        for window, following in pairwise(windows):
            fetched, fetching = fetching, asyncio.ensure_future(fetch(following))
            # It begins now, and not when whoever works on this window waits for something.
            await asyncio.sleep(0)
            yield window, await fetched
        yield windows[-1], await fetching
    finally:
        fetching.cancel()
