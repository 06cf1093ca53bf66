"""The state-change log of a simulated node, in memory."""

from collections.abc import Sequence

import msgspec

from cluster.process.clock import WallClock
from state_log.record import LoggedStateChange, Stamper, StateChange


class MemoryStateChangeLog:
    """A StateChangeSink that keeps its lines in memory, stamped as the files are."""

    def __init__(self, node: str, incarnation: str, clock: WallClock) -> None:
        self.node, self.incarnation = node, incarnation
        self._stamper = Stamper(node, incarnation)
        self._clock = clock
        self.lines: list[bytes] = []

    def append(self, changes: Sequence[StateChange]) -> None:
        self.lines += self._stamper.stamp(changes, self._clock.now_ms())

    def records(self) -> list[LoggedStateChange]:
        """All records so far, decoded from their lines."""
        return [_decoder.decode(line) for line in self.lines]


_decoder = msgspec.json.Decoder(LoggedStateChange)
