"""Counts how often others have their turn on the event loop while something is done."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def turns_during(work: Coroutine[Any, Any, object]) -> int:
    """How often others could run until this was done."""
    task, turns = asyncio.ensure_future(work), 0
    while not task.done():
        turns += 1
        # Virtual time, which the work may wait for, advances only when nothing else is ready.
        await asyncio.sleep(0 if turns % 100 else 0.001)
    await task
    return turns
