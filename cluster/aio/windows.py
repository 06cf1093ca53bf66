"""Works on many items in windows: the next window is on its way while one is worked on, and no more are held."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from itertools import chain, islice
from typing import TypeVar

_Item = TypeVar("_Item")
_Window = TypeVar("_Window")
_Done = TypeVar("_Done")


async def one_ahead(
    windows: Iterable[_Window], work: Callable[[_Window], Awaitable[_Done]]
) -> AsyncGenerator[tuple[_Window, _Done], None]:
    """Yield each window with what `work` returned for it, in order; the next one is worked on meanwhile.

    If there is only one, it has no task of its own. Raises what `work` raises; what is on its way is then given up, as
    it is when the generator is closed or cancelled. Each window is taken when the one before the last is done.
    """
    coming = iter(windows)
    two = list(islice(coming, 2))
    if len(two) < 2:
        for window in two:
            yield window, await work(window)
        return
    window = two[0]
    finished = working = asyncio.ensure_future(work(window))
    try:
        for following in chain(two[1:], coming):
            finished, working = working, asyncio.ensure_future(work(following))
            # It begins now, and not when whoever takes these results waits for something.
            await asyncio.sleep(0)
            yield window, await finished
            window = following
        yield window, await working
    finally:
        # The former has not ended either if this was cancelled before it was waited for.
        finished.cancel()
        working.cancel()
        # Their errors, if they had some too, are not the first one, which is raised.
        await asyncio.gather(finished, working, return_exceptions=True)


async def in_windows(
    items: Sequence[_Item], size: int, fetch: Callable[[Sequence[_Item]], Awaitable[_Done]]
) -> AsyncGenerator[tuple[Sequence[_Item], _Done], None]:
    """Do `one_ahead` for windows of at most `size` items; without items there is one empty window."""
    windows = (items[start : start + size] for start in range(0, max(len(items), 1), size))
    async with aclosing(one_ahead(windows, fetch)) as ahead:
        async for window, fetched in ahead:
            yield window, fetched
