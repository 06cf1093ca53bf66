"""Callers who wait for what their request leads to, while the event loop goes on (TP-4)."""

import asyncio
from collections.abc import Mapping


async def late(waiting: Mapping[str, asyncio.Future[bool]], timeout_ms: int) -> set[str]:
    """Which of the topics did not get there within `timeout_ms`, or whose controller stopped being active before.

    Without a positive time, none does.
    """
    if waiting and timeout_ms > 0:
        await asyncio.wait(waiting.values(), timeout=timeout_ms / 1000)
    return {topic for topic, there in waiting.items() if timeout_ms <= 0 or not (there.done() and there.result())}
