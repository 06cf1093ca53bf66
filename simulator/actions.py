"""What may be done to a simulated cluster: actions by name, how often each is drawn, and what goes on beside them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import NamedTuple

from cluster.errors import ClusterError

Act = Callable[[], Awaitable[None]]
Weights = dict[Act, int]
"""Action -> how often it is drawn in proportion to the others."""


class Action(NamedTuple):
    """Something to do, under the name by which the run records it."""

    name: str
    act: Act


class Limit(NamedTuple):
    """When no more is done: after so many actions or so much virtual time, whichever comes first."""

    actions: int | None = None
    seconds: float | None = None

    def is_reached(self, actions: int, seconds: float) -> bool:
        return (self.actions is not None and actions >= self.actions) or (
            self.seconds is not None and seconds >= self.seconds
        )


class BackgroundRequests:
    """Requests that nobody waits for. They may fail while nodes do; what was done of them shows at the end."""

    def __init__(self, timeout_s: float | None = None) -> None:
        """`timeout_s`: after how long a request is given up, in virtual seconds."""
        self._timeout_s = timeout_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: list[Exception] = []

    def start(self, request: Awaitable[object]) -> None:
        task = asyncio.get_running_loop().create_task(self._run(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self) -> None:
        """Until all have been answered, have failed or were given up."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def raise_first_error(self) -> None:
        """What no fault explains: a violation, or an error of the program."""
        if self._errors:
            raise self._errors[0]

    async def _run(self, request: Awaitable[object]) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await request
        except (ClusterError, TimeoutError):
            return
        except Exception as error:
            self._errors.append(error)


def draw_action(random: Random, weights: Mapping[Act, int]) -> Action:
    [act] = random.choices(list(weights), list(weights.values()))
    return Action(act.__name__, act)
