"""Verifies the stored batches of one log in a worker thread, piece by piece, while the log is in use.

Of the active segment only what is flushed is verified: of the rest the page cache has the truth. Source: klamm; the
check is that of recovery.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from broker_agent.log.batch_check import CheckedBatch
from broker_agent.log.disk import Disk
from broker_agent.log.segment import Segment
from broker_agent.log_damage import LogDamage
from cluster.model.broker import Offset

PIECE_BYTES: Final = 1 << 20

Pace = Callable[[int], Awaitable[None]]
"""Awaited after each piece with its size in bytes; limits the rate."""


class Extent(NamedTuple):
    """Offsets that are to be verified: not deleted, and in the active segment flushed."""

    log_start: Offset
    flushed: Offset


async def verify_segments(
    disk: Disk, segments: Sequence[Segment], extent: Extent, is_current: Callable[[Segment], bool], pace: Pace
) -> LogDamage | None:
    """The first damage found; None if there is none. Raises OSError.

    `is_current`: whether the segment is still part of the log, which was not truncated since; others are left out.
    """
    for segment, following in pairwise((*segments, None)):
        assert segment is not None, "only the last one has no successor"
        end = extent.flushed if following is None else following.base_offset
        if end <= max(extent.log_start, segment.base_offset) or not is_current(segment):
            continue
        size = segment.size if following is not None else segment.size_below(end)
        walk = segment.walk(size, None if following is None else end)
        batches = iter(walk)
        try:
            while taken := await disk.run(partial(_take_piece, batches)):
                await pace(taken)
                if not is_current(segment):
                    break
        except OSError:
            if is_current(segment):
                raise
        if walk.fault is not None and is_current(segment):
            why = f"{segment.path} at byte {walk.fault.position}: {walk.fault.why}"
            return LogDamage(Offset(walk.expected.next_offset), end, 0, why, is_cut=False)
    return None


def _take_piece(batches: Iterator[CheckedBatch]) -> int:
    """Verify about `PIECE_BYTES` more; returns the bytes verified, 0 at the end or at a fault."""
    taken = 0
    for checked in batches:
        taken += checked.header.size
        if taken >= PIECE_BYTES:
            break
    return taken
