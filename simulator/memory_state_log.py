"""The state-change log of a simulated node, in memory until it is written to a file."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from cluster.aio.clock import WallClock
from cluster.requests.control import StateLogHead
from state_log.record import Boot, LoggedStateChange, Stamper, StateChange
from state_log.writer import SegmentName


class MemoryStateChangeLog:
    """A StateChangeLog that keeps its lines in memory, stamped as the files are."""

    def __init__(self, node: str, incarnation: str, clock: WallClock, boot: Callable[[], Boot] | None = None) -> None:
        self.node, self.incarnation = node, incarnation
        self._stamper = Stamper(node, incarnation, boot)
        self._clock = clock
        self.lines: list[bytes] = []

    def append(self, changes: Sequence[StateChange]) -> None:
        self.lines += self._stamper.stamp(changes, self._clock.now_ms())

    @property
    def flushed_head(self) -> StateLogHead | None:
        """The end of the lines: a crash loses none."""
        next_seq, digest = self._stamper.head
        if next_seq == 0:
            return None
        return StateLogHead(self.node, self.incarnation, next_seq - 1, digest, self._stamper.boot_id)

    def records(self) -> list[LoggedStateChange]:
        """The records so far, decoded from their lines."""
        return [_decoder.decode(line) for line in self.lines]


_decoder = msgspec.json.Decoder(LoggedStateChange)


def write_segment(directory: Path, name: SegmentName, lines: Iterable[bytes]) -> Path:
    """Write a whole segment at once, in a directory created if missing; `lines` without newlines."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / str(name)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path
