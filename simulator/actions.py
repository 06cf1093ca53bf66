"""Actions on a simulated cluster: their names and weights, the limit of a run, and requests in the background."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import NamedTuple

from cluster.model.errors import ClusterError

Act = Callable[[], Awaitable[None]]
Weights = dict[Act, int]
"""Action -> its relative frequency."""


class Action(NamedTuple):
    """An action, with the name under which the run records it."""

    name: str
    act: Act


class Limit(NamedTuple):
    """The end of a run's actions: after this number or this virtual time, whichever comes first."""

    actions: int | None = None
    seconds: float | None = None

    def is_reached(self, actions: int, seconds: float) -> bool:
        """Whether a run has had this many actions, or these virtual seconds."""
        return (self.actions is not None and actions >= self.actions) or (
            self.seconds is not None and seconds >= self.seconds
        )


class BackgroundRequests:
    """Requests without a waiting caller. They may fail during faults; their effects are checked at the end."""

    def __init__(self, timeout_s: float | None = None) -> None:
        """Send requests with the timeout `timeout_s`, in virtual seconds."""
        self._timeout_s = timeout_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: list[Exception] = []

    def start(self, request: Awaitable[object]) -> None:
        """Send a request without waiting for its response; its error is kept."""
        task = asyncio.get_running_loop().create_task(self._run(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self) -> None:
        """Wait until all requests are answered, have failed or timed out."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def raise_first_error(self) -> None:
        """Raise the first error that no fault explains: a violation, or a bug."""
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
    """Draw an action by its weight."""
    [act] = random.choices(list(weights), list(weights.values()))
    return Action(act.__name__, act)
