"""Sequence numbers and hash chain of a log: finds missing, altered and duplicate records.

Lines are first combined into segments (consecutive lines of one incarnation with an intact chain), which readers can do
in parallel. Joining the segments of an incarnation in order finds the faults between them.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from state_log.record import CHAIN_START, LoggedStateChange, line_digest

SEQUENCE_GAP: Final = "sequence-gap"
CHAIN_BREAK: Final = "chain-break"
DUPLICATE_SEQUENCE: Final = "duplicate-sequence"


class ChainSegment(Struct, frozen=True):
    """Consecutive lines of one incarnation, numbered without gaps and chained; both ends inclusive.

    `prev`: the digest of the preceding line, as stated in the first line; `digest`: the SHA-256 of the last line.
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
    """The lines of one incarnation checked so far; `records` counts each sequence number once."""

    next_seq: int = 0
    digest: str = CHAIN_START
    records: int = 0
    missing: tuple[tuple[int, int], ...] = ()
    """Ranges of missing sequence numbers, both ends inclusive."""


def extend(segment: ChainSegment | None, record: LoggedStateChange, line: bytes) -> ChainSegment | None:
    """The segment extended by this line; None if the line does not continue it. With None, starts a segment."""
    digest = line_digest(line)
    if segment is None:
        return ChainSegment(record.node, record.incarnation, record.seq, record.seq, record.prev, digest)
    follows = (
        record.seq == segment.last_seq + 1
        and record.prev == segment.digest
        and record.incarnation == segment.incarnation
        and record.node == segment.node
    )
    return replace(segment, last_seq=record.seq, digest=digest) if follows else None


def extend_many(
    segments: list[ChainSegment], records: Sequence[LoggedStateChange], lines: Sequence[bytes]
) -> list[str]:
    """Extend the last of these segments by consecutive lines, or append new ones where one does not continue it.

    Returns the digests of the lines.
    """
    if not records:
        return []
    digests = [line_digest(line) for line in lines]
    before = segments[-1] if segments else None
    prevs = ["" if before is None else before.digest, *digests]
    for index, (record, prev) in enumerate(zip(records, prevs, strict=False)):
        last = records[index - 1] if index else before
        follows = (
            last is not None
            and record.prev == prev
            and record.seq == (last.seq if isinstance(last, LoggedStateChange) else last.last_seq) + 1
            and record.incarnation == last.incarnation
            and record.node == last.node
        )
        if follows:
            continue
        if index:
            _close(segments, records, digests, index - 1)
        segments.append(
            ChainSegment(record.node, record.incarnation, record.seq, record.seq, record.prev, digests[index])
        )
    _close(segments, records, digests, len(records) - 1)
    return digests


def _close(
    segments: list[ChainSegment], records: Sequence[LoggedStateChange], digests: Sequence[str], last: int
) -> None:
    """The last segment ends with this record."""
    segments[-1] = replace(segments[-1], last_seq=records[last].seq, digest=digests[last])


def join(
    log: IncarnationLog, segment: ChainSegment, retained_from: int | None = 0
) -> tuple[IncarnationLog, list[tuple[str, str]]]:
    """Join the next segment of an incarnation: returns the new log, and (rule, message) of each fault found.

    `retained_from`: the first number that the name of the segment's file states, None if its name states none.
    Retention deletes whole files from the beginning of a log; what they had is missing, but no fault.

    A segment that arrives late and fills a gap is counted; the gap has been reported, because the files of an
    incarnation are read in order and a gap in them is a loss.
    """
    if segment.first_seq < log.next_seq:
        return _join_late(log, segment)
    found = []
    missing = log.missing
    if segment.first_seq > log.next_seq:
        lost = (log.next_seq, segment.first_seq - 1)
        missing = (*missing, lost)
        if lost[0] or retained_from not in {None, segment.first_seq}:
            found.append((SEQUENCE_GAP, f"records {lost[0]} to {lost[1]} are missing"))
    elif segment.prev != log.digest:
        found.append((CHAIN_BREAK, f"record {segment.first_seq} does not follow from the line before it"))
    joined = IncarnationLog(segment.last_seq + 1, segment.digest, log.records + segment.count, missing)
    return joined, found


def _join_late(log: IncarnationLog, segment: ChainSegment) -> tuple[IncarnationLog, list[tuple[str, str]]]:
    new, missing = 0, []
    for first, last in log.missing:
        low, high = max(first, segment.first_seq), min(last, segment.last_seq)
        if low > high:
            missing.append((first, last))
            continue
        new += high - low + 1
        missing += [part for part in ((first, low - 1), (high + 1, last)) if part[0] <= part[1]]
    beyond = max(0, segment.last_seq + 1 - log.next_seq)
    repeated = segment.count - new - beyond
    joined = IncarnationLog(
        next_seq=log.next_seq + beyond,
        digest=segment.digest if beyond else log.digest,
        records=log.records + new + beyond,
        missing=tuple(missing),
    )
    message = f"{repeated} of the records {segment.first_seq} to {segment.last_seq} were there before"
    return joined, [(DUPLICATE_SEQUENCE, message)] if repeated else []
