"""Sequence numbers and hash chain of a log: finds missing, altered and duplicate records.

Lines are first combined into segments (consecutive lines of one incarnation with an intact chain), which readers can do
in parallel. Joining the segments of an incarnation in order finds the faults between them.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from state_log.record import CHAIN_START, LoggedStateChange, line_digest, line_digests

SEQUENCE_GAP: Final = "sequence-gap"
CHAIN_BREAK: Final = "chain-break"
DUPLICATE_SEQUENCE: Final = "duplicate-sequence"
OUT_OF_ORDER: Final = "records-out-of-order"


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
    digests = line_digests(lines)
    for first, last in _runs(records, digests):
        record = records[first]
        run = ChainSegment(record.node, record.incarnation, record.seq, records[last].seq, record.prev, digests[last])
        before = segments[-1] if segments else None
        if before is not None and _continues(run, before):
            segments[-1] = replace(before, last_seq=run.last_seq, digest=run.digest)
        else:
            segments.append(run)
    return digests


def _continues(later: ChainSegment, before: ChainSegment) -> bool:
    return (
        later.first_seq == before.last_seq + 1
        and later.prev == before.digest
        and later.incarnation == before.incarnation
        and later.node == before.node
    )


def _runs(records: Sequence[LoggedStateChange], digests: Sequence[str]) -> list[tuple[int, int]]:
    """The first and last index of each run of records that continue one another."""
    if not records:
        return []
    if _is_one_run(records, digests):
        return [(0, len(records) - 1)]
    starts = [0]
    for index, (last, record) in enumerate(pairwise(records), 1):
        follows = (
            record.prev == digests[index - 1]
            and record.seq == last.seq + 1
            and record.incarnation == last.incarnation
            and record.node == last.node
        )
        if not follows:
            starts.append(index)
    return list(zip(starts, [start - 1 for start in starts[1:]] + [len(records) - 1], strict=True))


def _is_one_run(records: Sequence[LoggedStateChange], digests: Sequence[str]) -> bool:
    """Whether they are one run, as almost always, without a step of Python for each record and field."""
    count, first = len(records), records[0]
    return (
        [record.seq for record in records] == list(range(first.seq, first.seq + count))
        and [record.prev for record in records[1:]] == digests[:-1]
        and [record.incarnation for record in records].count(first.incarnation) == count
        and [record.node for record in records].count(first.node) == count
    )


def out_of_order(segments: Iterable[ChainSegment]) -> Iterator[tuple[ChainSegment, str]]:
    """Find the segments of one file that stand behind later numbers of their incarnation, each with a message.

    To join segments does not show it, for it sorts them.
    """
    for before, segment in pairwise(segments):
        same = (before.node, before.incarnation) == (segment.node, segment.incarnation)
        if same and segment.first_seq < before.first_seq:
            yield segment, f"record {segment.first_seq} stands behind record {before.last_seq}"


def named_too_late(segment: ChainSegment, named: int) -> str:
    """The message about a file whose first segment begins before the number in the name of the file."""
    return f"record {segment.first_seq} is in a file named for {named} and later ones"


class Joint(NamedTuple):
    """A fault between segments: `rule` and message; `seq`: the first number of the later one."""

    rule: str
    message: str
    seq: int


def join(
    log: IncarnationLog, segments: Iterable[tuple[ChainSegment, int | None]]
) -> tuple[IncarnationLog, list[Joint]]:
    """Join segments to the log of their incarnation, sorted by their first numbers: the new log, and the faults.

    With each segment the first number that the name of its file states, None if its name states none. Retention deletes
    whole files from the beginning of a log; what they had is missing, but no fault.

    A segment that arrives late and fills a gap is counted; the gap has been reported, because the files of an
    incarnation are read in order and a gap in them is a loss. The time is linear, also where every other line is
    missing.
    """
    joining = _Joining(log)
    for segment, retained_from in segments:
        joining.add(segment, retained_from)
    return joining.log(), joining.found


class _Joining:
    """Takes in segments. `found`: the faults."""

    def __init__(self, log: IncarnationLog) -> None:
        self.found: list[Joint] = []
        self._next_seq, self._digest, self._records = log.next_seq, log.digest, log.records
        self._missing = deque(log.missing)
        self._passed: list[tuple[int, int]] = []
        """Ranges that are missing before the segment; later ones begin no earlier."""

    def add(self, segment: ChainSegment, retained_from: int | None) -> None:
        while self._missing and self._missing[0][1] < segment.first_seq:
            self._passed.append(self._missing.popleft())
        if segment.first_seq < self._next_seq:
            self._add_late(segment)
            return
        if segment.first_seq > self._next_seq:
            lost = (self._next_seq, segment.first_seq - 1)
            self._missing.append(lost)
            if lost[0] or retained_from not in {None, segment.first_seq}:
                self._report(SEQUENCE_GAP, f"records {lost[0]} to {lost[1]} are missing", segment)
        elif segment.prev != self._digest:
            message = f"record {segment.first_seq} does not follow from the line before it"
            self._report(CHAIN_BREAK, message, segment)
        self._records += segment.count
        self._next_seq, self._digest = segment.last_seq + 1, segment.digest

    def _add_late(self, segment: ChainSegment) -> None:
        new = 0
        while self._missing and self._missing[0][0] <= segment.last_seq:
            first, last = self._missing.popleft()
            low, high = max(first, segment.first_seq), min(last, segment.last_seq)
            new += high - low + 1
            if first < low:
                self._passed.append((first, low - 1))
            if high < last:
                self._missing.appendleft((high + 1, last))
        beyond = max(0, segment.last_seq + 1 - self._next_seq)
        repeated = segment.count - new - beyond
        self._records += new + beyond
        if beyond:
            self._next_seq, self._digest = self._next_seq + beyond, segment.digest
        if repeated:
            message = f"{repeated} of the records {segment.first_seq} to {segment.last_seq} were there before"
            self._report(DUPLICATE_SEQUENCE, message, segment)

    def _report(self, rule: str, message: str, segment: ChainSegment) -> None:
        self.found.append(Joint(rule, message, segment.first_seq))

    def log(self) -> IncarnationLog:
        return IncarnationLog(self._next_seq, self._digest, self._records, (*self._passed, *self._missing))
