"""Numbering and hash chain of a log: nothing is missing, nothing was altered, nothing stands there twice.

Lines are first gathered into stretches (consecutive lines of one incarnation whose chain holds), which many
readers can do side by side; joining the stretches of an incarnation in order finds what is wrong between them.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from cluster.state_change_log import CHAIN_START, LoggedStateChange, line_digest

SEQUENCE_GAP: Final = "sequence-gap"
CHAIN_BREAK: Final = "chain-break"
DUPLICATE_SEQUENCE: Final = "duplicate-sequence"


class Stretch(Struct, frozen=True):
    """Consecutive lines of one incarnation, numbered without gaps and chained; both ends inclusive.

    `prev` is what the first line says of the line before it, `digest` the SHA-256 of the last line.
    """

    node: str
    incarnation: str
    first_seq: int
    last_seq: int
    prev: str
    digest: str

    @property
    def count(self) -> int:
        return self.last_seq - self.first_seq + 1


class IncarnationLog(Struct, frozen=True):
    """What is known of one incarnation's lines so far; `records` counts each number once."""

    next_seq: int = 0
    digest: str = CHAIN_START
    records: int = 0
    missing: tuple[tuple[int, int], ...] = ()
    """Ranges of numbers, both ends inclusive, that were passed over."""


def extend(stretch: Stretch | None, record: LoggedStateChange, line: bytes) -> Stretch | None:
    """The stretch with this line at its end; None where the line does not continue it. None begins a new one."""
    digest = line_digest(line)
    if stretch is None:
        return Stretch(record.node, record.incarnation, record.seq, record.seq, record.prev, digest)
    follows = (
        record.seq == stretch.last_seq + 1
        and record.prev == stretch.digest
        and record.incarnation == stretch.incarnation
        and record.node == stretch.node
    )
    return replace(stretch, last_seq=record.seq, digest=digest) if follows else None


def join(log: IncarnationLog, stretch: Stretch) -> tuple[IncarnationLog, list[tuple[str, str]]]:
    """Add the next stretch of an incarnation: the log so far, and (rule, words) of each thing found wrong.

    A stretch that comes late and fills numbers passed over before is counted; its gap was reported when it
    was passed over, because the files of one incarnation are read in their order and a gap there is a loss.
    """
    if stretch.first_seq < log.next_seq:
        return _join_late(log, stretch)
    found = []
    missing = log.missing
    if stretch.first_seq > log.next_seq:
        lost = (log.next_seq, stretch.first_seq - 1)
        missing = (*missing, lost)
        found.append((SEQUENCE_GAP, f"records {lost[0]} to {lost[1]} are missing"))
    elif stretch.prev != log.digest:
        found.append((CHAIN_BREAK, f"record {stretch.first_seq} does not follow from the line before it"))
    joined = IncarnationLog(stretch.last_seq + 1, stretch.digest, log.records + stretch.count, missing)
    return joined, found


def _join_late(log: IncarnationLog, stretch: Stretch) -> tuple[IncarnationLog, list[tuple[str, str]]]:
    new, missing = 0, []
    for first, last in log.missing:
        low, high = max(first, stretch.first_seq), min(last, stretch.last_seq)
        if low > high:
            missing.append((first, last))
            continue
        new += high - low + 1
        missing += [part for part in ((first, low - 1), (high + 1, last)) if part[0] <= part[1]]
    beyond = max(0, stretch.last_seq + 1 - log.next_seq)
    repeated = stretch.count - new - beyond
    joined = IncarnationLog(
        next_seq=log.next_seq + beyond,
        digest=stretch.digest if beyond else log.digest,
        records=log.records + new + beyond,
        missing=tuple(missing),
    )
    words = f"{repeated} of the records {stretch.first_seq} to {stretch.last_seq} were there before"
    return joined, [(DUPLICATE_SEQUENCE, words)] if repeated else []
