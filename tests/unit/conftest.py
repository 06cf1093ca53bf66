"""Loops that the tests of connections run on."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from tests.timeouts import TIMEOUT_S

Run = Callable[[Coroutine[Any, Any, None]], None]
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine to its end, on each kind of loop; fails if the loop met an exception that nobody caught."""

    def run_on_loop(main: Coroutine[Any, Any, None]) -> None:
        uncaught: list[dict[str, Any]] = []

        async def watched() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: uncaught.append(context))
            async with asyncio.timeout(TIMEOUT_S):
                await main

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(watched())
        assert uncaught == []

    return run_on_loop
