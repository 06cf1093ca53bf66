"""The segments that one group of segments is cleaned into: one, or more if what stays does not fit."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import BatchHeader, parse_header
from broker_agent.log.segment import PlacedBatch, Segment
from cluster.model.broker import Offset


class RetainedBatch(NamedTuple):
    header: BatchHeader
    batch: bytes | memoryview

    @classmethod
    def of(cls, batch: bytes | memoryview) -> "RetainedBatch":
        return cls(parse_header(batch), batch)


class SegmentRun(NamedTuple):
    """Batches that are written into one segment."""

    segment: Segment
    batches: list[RetainedBatch]


class CleanedOutput:
    """Files with the suffix `.cleaned`, until the log puts them to use. `write` and flushers run in a worker thread,
    everything else, which goes by the path of the log, on the event loop, where that cannot change meanwhile.
    """

    def __init__(self, log: PartitionLog, base_offset: Offset) -> None:
        self._log = log
        self.segments = [log.create_cleaned_segment(base_offset)]
        self._end = base_offset

    def room_for(self, batches: Sequence[RetainedBatch]) -> list[SegmentRun]:
        """Distribute batches over the last segment and as many new ones as they need."""
        runs = [SegmentRun(self.segments[-1], [])]
        pending = 0
        for retained in batches:
            segment, size = runs[-1].segment, len(retained.batch)
            is_empty = segment.size + pending == 0
            if not is_empty and not segment.has_room(pending + size, retained.header.last_offset, self._log.config):
                # Where the one before ends, so that no offset is missing between the two.
                segment = self._log.create_cleaned_segment(self._end)
                self.segments.append(segment)
                runs.append(SegmentRun(segment, []))
                pending = 0
            runs[-1].batches.append(retained)
            pending += size
            self._end = Offset(retained.header.last_offset + 1)
        return runs

    def discard(self) -> None:
        """Remove the files. Raises OSError."""
        for segment in reversed(self.segments):
            segment.discard()

    def close(self) -> None:
        """Close the files, which are left: their directory is going to be removed, or the next start removes them."""
        for segment in self.segments:
            segment.close()

    def complete(self, modified_ms: int) -> list[Callable[[], None]]:
        """Save the indexes, and when the newest of the old segments was written: expiry without timestamps goes by it.
        Returns functions that flush all files, each to be called once. Raises OSError.
        """
        flushers = []
        for segment in self.segments:
            flushers += segment.complete()
            segment.set_modified(modified_ms)
        return flushers


def write(runs: Sequence[SegmentRun]) -> int:
    """Append batches to their segments; returns the bytes. Blocks; raises OSError."""
    written = 0
    for segment, batches in runs:
        placed, position = [], 0
        for header, batch in batches:
            placed.append(PlacedBatch(position, header))
            position += len(batch)
        if placed:
            segment.append([b"".join(batch for _, batch in batches)], placed)
            written += position
    return written
