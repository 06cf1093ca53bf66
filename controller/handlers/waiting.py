"""Waits for the effects of a request outside the event loop (TP-4)."""

import asyncio
from collections.abc import Mapping


async def late(waiting: Mapping[str, asyncio.Future[bool]], timeout_ms: int) -> set[str]:
    """The topics whose future was not True within `timeout_ms`, including those whose controller resigned.

    With a timeout of 0 or less, all of them.
    """
    if waiting and timeout_ms > 0:
        await asyncio.wait(waiting.values(), timeout=timeout_ms / 1000)
    return {topic for topic, there in waiting.items() if timeout_ms <= 0 or not (there.done() and there.result())}
