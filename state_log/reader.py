"""Reads state-change logs: finds segments, merges nodes, filters by partition.

Only complete lines count. Bytes after the last newline of a segment are a torn tail: still being written, or left by a
crash. Malformed lines are skipped here; the audit keeps and counts them.
"""

import heapq
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from cluster.model.broker import ControllerEpoch
from cluster.model.errors import DECODE_ERRORS
from cluster.requests.cluster import ReadStateChangesResponse
from state_log.chain import ChainSegment, IncarnationLog, extend, join
from state_log.record import LINE_BYTES_MAX, Kind, LoggedStateChange, MalformedLine, decode_line, start_state
from state_log.writer import SEGMENT_SUFFIX, parse_segment_name

_LINE_READ: Final = LINE_BYTES_MAX + 2
"""With its newline: more than any record has."""


class Break(Struct, frozen=True):
    """A fault in the sequence or the hash chain: `rule` as in the audit, and its location."""

    rule: str
    node: str
    incarnation: str
    message: str


def find_segments(directories: Iterable[Path]) -> list[Path]:
    """Find all segments in these directory trees, each once, sorted by directory and name: oldest first for a node.

    Links to directories are not followed, and directories that cannot be listed are left out. Whoever opened a FIFO of
    such a name would wait for its writer.
    """
    return files_below(directories, lambda name: name.endswith(SEGMENT_SUFFIX))


def files_below(directories: Iterable[Path], is_wanted: Callable[[str], bool]) -> list[Path]:
    """The files of wanted names in these directory trees, found as `find_segments` does."""
    found: set[Path] = set()
    waiting = [os.fspath(directory) for directory in directories]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif is_wanted(entry.name) and os.path.isfile(entry.path):
                    found.add(Path(entry.path).resolve())
    return sorted(found)


def complete_lines(path: Path) -> Iterator[bytes]:
    """The complete lines of a segment without newlines; blank ones are skipped."""
    return (line for _, line in numbered_lines(path))


def numbered_lines(path: Path, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """(byte offset, line) of the complete lines between two byte offsets; `start` must be the start of a line.

    Empty for a segment that was deleted meanwhile. Of a line that is too long to be a record only the beginning, which
    is too long as well: a line may be longer than there is memory.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(start)
        position = start
        while line := file.readline(_LINE_READ):
            rest, following = line, position + len(line)
            while not rest.endswith(b"\n"):
                rest = file.readline(_LINE_READ)
                following += len(rest)
                if not rest:
                    return
            if end is not None and following > end:
                return
            if len(line) > 1:
                yield position, line.removesuffix(b"\n")
            position = following


def read_state_changes(
    directories: Iterable[Path], topic: str | None = None, partition: int | None = None
) -> Iterator[LoggedStateChange]:
    """Records of all nodes in these directories, in the order of `merge`; of a topic or one partition, if given."""
    lines = (line for path in find_segments(directories) for line in complete_lines(path))
    return iter(merge(lines, topic, partition))


def read_lines(
    directory: Path, topic: str = "", partition: int = -1, limit_bytes: int = 16 << 20
) -> ReadStateChangesResponse:
    """The latest lines of one node's directory that concern a partition, oldest first, as in the files.

    An empty topic selects everything, partition -1 the whole topic. `truncated`: older lines did not fit.
    """
    chosen: list[bytes] = []
    size = 0
    for path in reversed(find_segments([directory])):
        lines = [line for line in complete_lines(path) if _concerns(line, topic, partition)]
        for line in reversed(lines):
            size += len(line)
            if size > limit_bytes:
                return ReadStateChangesResponse(tuple(reversed(chosen)), truncated=True)
            chosen.append(line)
    return ReadStateChangesResponse(tuple(reversed(chosen)))


def newest_roles(directory: Path) -> list[LoggedStateChange]:
    """Read from an agent's own log the newest record of a role for each replica, and the last of each segment.

    A later topic of the same name is another replica. The last ones have the latest controller epoch.
    """
    found: dict[tuple[str | None, str | None, int | None], LoggedStateChange] = {}
    last: list[LoggedStateChange] = []
    for path in find_segments([directory]):
        records = [decode_line(line) for line in complete_lines(path) if b'"role"' in line]
        roles = [r for r in records if isinstance(r, LoggedStateChange) and r.kind is Kind.ROLE]
        for record in roles:
            replica = (record.topic, record.topic_id, record.partition)
            present = found.get(replica)
            if present is None or _epochs(record) >= _epochs(present):
                found[replica] = record
        last += roles[-1:]
    return [*found.values(), *last]


def _epochs(record: LoggedStateChange) -> tuple[int, int]:
    return record.leader_epoch or 0, record.partition_epoch or 0


def merge(
    lines: Iterable[bytes], topic: str | None = None, partition: int | None = None
) -> Iterator[LoggedStateChange]:
    """Records of several nodes in one order: by controller epoch, node, incarnation and sequence number.

    A record without a controller epoch gets the highest one its incarnation had recorded before, so that every
    incarnation keeps its own order.
    """
    incarnations: dict[tuple[str, str], list[LoggedStateChange]] = {}
    for line in lines:
        record = decode_line(line)
        if isinstance(record, LoggedStateChange):
            incarnations.setdefault((record.node, record.incarnation), []).append(record)
    streams = [_with_epochs(records) for _, records in sorted(incarnations.items(), key=itemgetter(0))]
    for _, record in heapq.merge(*streams, key=itemgetter(0)):
        chosen = narrow(record, topic, partition)
        if chosen is not None:
            yield chosen


def narrow(record: LoggedStateChange, topic: str | None, partition: int | None) -> LoggedStateChange | None:
    """The part of a record that concerns a topic or partition (None: any); None if there is none.

    A record of a whole topic concerns each of its partitions; the initial states of other partitions are removed.
    """
    if topic is None or record.topic != topic:
        return record if topic is None else None
    if partition is None or record.partition == partition:
        return record
    if record.partition is not None:
        return None
    if record.kind is not Kind.LOADED:
        return record
    loaded = next((item for item in record.partitions or () if item.partition == partition), None)
    return None if loaded is None else start_state(record, loaded)


def verify(directories: Iterable[Path]) -> list[Break]:
    """Check sequence numbers and hash chain of every incarnation in these directories; empty if intact.

    `audit.verification` also compares the logs with one another.
    """
    segments: list[tuple[ChainSegment, int | None]] = []
    for path in find_segments(directories):
        current: ChainSegment | None = None
        name = parse_segment_name(path.name)
        retained_from = None if name is None else name.first_seq
        for line in complete_lines(path):
            record = decode_line(line)
            if isinstance(record, MalformedLine):
                continue
            longer = extend(current, record, line)
            if longer is None:
                assert current is not None, "a segment can always begin"
                segments.append((current, retained_from))
                longer = extend(None, record, line)
            current = longer
        if current is not None:
            segments.append((current, retained_from))
    return join_all(segments)[1]


def join_all(
    segments: Iterable[tuple[ChainSegment, int | None]],
) -> tuple[dict[str, IncarnationLog], list[Break]]:
    """Join segments, each with the first number that its file's name states: the logs by node/incarnation, and the
    faults between their segments.
    """
    logs: dict[str, IncarnationLog] = {}
    breaks = []
    by_incarnation = sorted(segments, key=lambda s: (s[0].node, s[0].incarnation, s[0].first_seq))
    for (node, incarnation), group in groupby(by_incarnation, key=lambda s: (s[0].node, s[0].incarnation)):
        logs[f"{node}/{incarnation}"], found = join(IncarnationLog(), group)
        breaks += [Break(fault.rule, node, incarnation, fault.message) for fault in found]
    return logs, breaks


def _with_epochs(records: list[LoggedStateChange]) -> Iterator[tuple[tuple[int, str, str, int], LoggedStateChange]]:
    newest = ControllerEpoch(0)
    for record in sorted(records, key=lambda r: r.seq):
        if record.controller_epoch is not None:
            newest = max(newest, record.controller_epoch)
        yield (newest, record.node, record.incarnation, record.seq), record


class _Subject(Struct):
    topic: str | None = None
    partition: int | None = None


_subject_decoder = msgspec.json.Decoder(_Subject)


def _concerns(line: bytes, topic: str, partition: int) -> bool:
    if not topic:
        return True
    try:
        subject = _subject_decoder.decode(line)
    except DECODE_ERRORS:
        return False
    return subject.topic == topic and (partition == -1 or subject.partition in {None, partition})
