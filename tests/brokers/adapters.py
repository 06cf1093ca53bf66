"""Adapters of an agent under test: what it writes its state changes to, and the clock for what its requests take."""

from collections.abc import Sequence

from cluster.requests.control import StateLogHead
from state_log.record import StateChange


class Records:
    """A sink that keeps what was appended, one list per call."""

    def __init__(self) -> None:
        self.writes: list[list[StateChange]] = []
        self.flushed_head: StateLogHead | None = None

    def append(self, changes: Sequence[StateChange]) -> None:
        if changes:
            self.writes.append(list(changes))

    @property
    def all(self) -> list[StateChange]:
        return [change for write in self.writes for change in write]


class SteppedStopwatch:
    """By it, whatever is measured takes `step_s`."""

    def __init__(self) -> None:
        self.step_s = self._now_s = 0.0

    def __call__(self) -> float:
        self._now_s += self.step_s
        return self._now_s
