"""Files that are not as they were when they were read: shorter, gone, rewritten; and those with nothing to read.

What a file is compared with: the position that was read; and of segments before that, which nobody writes any more,
size, inode and time of the last change as this process has seen them first, or the last change that an earlier run has
read. Where these differ, the hash chain of the segment decides, for a copy of a folder is the same log. Who changes a
segment while no audit runs and sets its time back is not noticed here; `klamm audit verify` reads everything.

The last segment of a log has no next one that names its end. Its last line that was read is compared with the digest
that the audit has kept: who rewrites a log with a chain that is whole gets another last line.

A retention that deletes what was read is no change: only the newest segment of the newest run of a node must be there.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from audit.reading.log_files import START, FileSegment, Position, Positions
from cluster.model.printable import path_text
from state_log.chain import ChainSegment, extend
from state_log.kafka.files import KAFKA_LOG, is_compressed
from state_log.reader import complete_lines
from state_log.record import LINE_BYTES_MAX, MalformedLine, decode_line, line_digest
from state_log.writer import SEGMENT_SUFFIX, parse_segment_name

_OLDER_PER_CHECK: Final = 200
_TAIL_BYTES: Final = 1 << 16
_RUN: Final = re.compile(r"(?P<node>.+)-(?P<incarnation>[0-9]{13}\.[0-9]+)")


class FaultKind(StrEnum):
    EMPTY = "empty"
    SHRANK = "shrank"
    VANISHED = "vanished"
    CHANGED = "changed"
    COMPRESSED = "compressed"
    NO_FILE = "no-file"
    UNREADABLE = "unreadable"
    LINK = "link"


class FileFault(Struct, frozen=True):
    """Holds what is wrong with a file. `read`: the byte up to which it was read; `size`: its size now.

    `log`: the file itself where it cannot be read.
    """

    fault: FaultKind
    log: str
    file: str
    read: int
    size: int


class _Status(NamedTuple):
    inode: int
    modified_ns: int
    size: int


class ReadFiles:
    """Looks after the files that were read. `since_ns`: the last change of files that earlier runs read; 0: none.

    `ends`: by log, the number of the last line that they read, and its digest.
    """

    def __init__(self, since_ns: int, ends: Mapping[str, tuple[int, str]] | None = None) -> None:
        self._since_ns = since_ns
        self._ends = {log: (seq, digest) for log, (seq, digest) in (ends or {}).items()}
        self._seen: dict[Path, _Status] = {}
        self._seen_last: dict[Path, _Status] = {}
        self._next = 0
        self._active: dict[str, Path] = {}

    def faults(
        self, logs: Mapping[str, Sequence[FileSegment]], ignored: Sequence[Path], read: Positions, *, everything: bool
    ) -> list[FileFault]:
        """Find what is wrong now. `ignored`: files beside the logs that were not read. `everything`: look at all
        files; else at some of the older ones, in turn.
        """
        found = ignored_faults(ignored)
        for log, segments in logs.items():
            unreadable = list(_unreadable(segments, read.get(log, START)))
            found += unreadable
            if log not in read and not unreadable and not _has_rotated(segments[0], logs):
                found += _without_lines(log, segments)
        newest = _newest_runs(logs)
        for log, position in read.items():
            has_ended = _has_ended(log, newest)
            found += _newest(log, logs.get(log, ()), position, has_ended=has_ended)
            found += self._last(log, logs.get(log, ()), position, has_ended=has_ended)
        found += self._emptied(logs, read)
        older = [
            (log, before, after)
            for log, segments in logs.items()
            for before, after in pairwise(segments)
            if before.first_seq < read.get(log, START).first_seq and not before.is_kafka
        ]
        for log, before, after in older if everything else self._in_turn(older):
            found += self._older(log, before, after)
        return found

    def _last(
        self, log: str, segments: Sequence[FileSegment], position: Position, *, has_ended: bool
    ) -> Iterator[FileFault]:
        """The segment up to which a log was read, if it is the last one and still ends as it did."""
        segment = segments[-1] if segments else None
        status = None if segment is None else _status(segment.path)
        if segment is None or status is None or segment.is_kafka or segment.first_seq != position.first_seq:
            return
        seen = self._seen_last.get(segment.path)
        # The segment of a running process changes all the time: that one is looked at once.
        if status == seen or (seen is not None and not has_ended) or not 0 < position.byte <= status.size:
            return
        self._seen_last[segment.path] = status
        with suppress(OSError):
            tail = _tail(segment.path, position.byte)
            if tail.records:
                self._ends.setdefault(log, max(tail.records))
            if log in self._ends and tail.lacks(*self._ends[log]):
                yield FileFault(FaultKind.CHANGED, log, path_text(segment.path), 0, status.size)

    def _emptied(self, logs: Mapping[str, Sequence[FileSegment]], read: Positions) -> Iterator[FileFault]:
        """Logs of Kafka that were cut without being copied or renamed before: another log begins in their place."""
        for log, path in list(self._active.items()):
            if log not in logs:
                del self._active[log]
                status = _status(path)
                if status is not None and log in read:
                    yield FileFault(FaultKind.SHRANK, log, path_text(path), read[log].byte, status.size)
        for log, (first, *_) in logs.items():
            if first.is_kafka:
                self._active.pop(log, None)
                if first.path.name.endswith(KAFKA_LOG):
                    self._active[log] = first.path

    def _in_turn(
        self, older: Sequence[tuple[str, FileSegment, FileSegment]]
    ) -> Sequence[tuple[str, FileSegment, FileSegment]]:
        """The files that are looked at in this round: all are within a few rounds, however many there are."""
        if len(older) <= _OLDER_PER_CHECK:
            return older
        self._next %= len(older)
        chosen = older[self._next : self._next + _OLDER_PER_CHECK]
        self._next += _OLDER_PER_CHECK
        return chosen

    def _older(self, log: str, before: FileSegment, after: FileSegment) -> Iterator[FileFault]:
        status = _status(before.path)
        if status is None:
            return
        seen = self._seen.get(before.path)
        self._seen[before.path] = status
        is_new = seen is None and bool(self._since_ns) and status.modified_ns > self._since_ns
        if (is_new or (seen is not None and seen != status)) and not _is_whole(before, after):
            yield FileFault(FaultKind.CHANGED, log, path_text(before.path), 0, status.size)


def ignored_faults(paths: Sequence[Path]) -> list[FileFault]:
    """Say why each of these files is not read."""
    return [FileFault(_why_ignored(path), path_text(path), path_text(path), 0, 0) for path in paths]


def _why_ignored(path: Path) -> FaultKind:
    if path.is_symlink() and path.is_dir():
        return FaultKind.LINK
    if path.is_dir() and not parse_segment_name(path.name):
        return FaultKind.UNREADABLE
    return FaultKind.COMPRESSED if is_compressed(path.name) and path.is_file() else FaultKind.NO_FILE


def _unreadable(segments: Sequence[FileSegment], position: Position) -> Iterator[FileFault]:
    """Segments with something that was not read, and cannot be."""
    for segment in segments:
        if segment.first_seq < position.first_seq:
            continue
        status = _status(segment.path)
        done = position.byte if segment.first_seq == position.first_seq else 0
        if status is None or (done and status.size <= done and os.access(segment.path, os.R_OK)):
            continue
        try:
            with segment.path.open("rb") as file:
                file.read(1)
        except FileNotFoundError:
            continue
        except OSError:
            name = path_text(segment.path)
            yield FileFault(FaultKind.UNREADABLE, name, name, done, status.size)


def _has_rotated(segment: FileSegment, logs: Mapping[str, Sequence[FileSegment]]) -> bool:
    """Whether it is a log of Kafka that others come from: it may be empty until the broker writes again."""
    rotated = f"{segment.path}."
    return segment.is_kafka and any(str(other[0].path).startswith(rotated) for other in logs.values())


def _without_lines(log: str, segments: Sequence[FileSegment]) -> Iterator[FileFault]:
    """Find logs with nothing to read in any segment: they are not read, and that must be said."""
    first = segments[0].path
    status = _status(first)
    if status is not None and not any(complete_lines_present(segment.path) for segment in segments):
        yield FileFault(FaultKind.EMPTY, log, path_text(first), 0, status.size)


def complete_lines_present(path: Path) -> bool:
    """Whether the file has a newline: it is read until there is one."""
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                if b"\n" in block:
                    return True
    except OSError:
        return False
    return False


def _newest(log: str, segments: Sequence[FileSegment], position: Position, *, has_ended: bool) -> Iterator[FileFault]:
    """The segment up to which a log was read. `has_ended`: its node has started again since."""
    current = next((segment for segment in segments if segment.first_seq == position.first_seq), None)
    if current is not None:
        status = _status(current.path)
        if status is not None and status.size < position.byte:
            yield FileFault(FaultKind.SHRANK, log, path_text(current.path), position.byte, status.size)
        return
    run = _RUN.fullmatch(log)
    if run is None:
        if log.endswith(SEGMENT_SUFFIX):
            # Not named by a node, so that no retention deletes it.
            yield FileFault(FaultKind.VANISHED, log, log, position.byte, 0)
        return
    if any(segment.first_seq > position.first_seq for segment in segments):
        return
    if not has_ended:
        yield FileFault(FaultKind.VANISHED, log, log, position.byte, 0)


def _newest_runs(logs: Iterable[str]) -> dict[str, str]:
    """The newest incarnation of each node."""
    runs = sorted((run["node"], run["incarnation"]) for log in logs if (run := _RUN.fullmatch(log)))
    return dict(runs)


def _has_ended(log: str, newest: Mapping[str, str]) -> bool:
    """Whether the process that wrote a log has ended: its node has started again."""
    run = _RUN.fullmatch(log)
    return run is not None and newest.get(run["node"], "") > run["incarnation"]


class _Tail(NamedTuple):
    """The records among the last lines before a byte: number and digest of each.

    `is_all`: there are no lines before them. `is_cut`: that byte is within a line.
    """

    records: list[tuple[int, str]]
    is_all: bool
    is_cut: bool

    def lacks(self, seq: int, digest: str) -> bool:
        """Whether a line that was the last one to be read is not what it was."""
        known = {found for number, found in self.records if number == seq}
        return self.is_cut or (digest not in known if known else self.is_all)


def _tail(path: Path, end: int) -> _Tail:
    length = 0
    with path.open("rb") as file:
        while True:
            length = min(end, max(_TAIL_BYTES, 4 * length))
            file.seek(end - length)
            data = file.read(length)
            if b"\n" in data[:-1] or length == end or length > LINE_BYTES_MAX:
                break
    is_all = length == end
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")[0 if is_all else 1 :]]
    decoded = [(line, decode_line(line)) for line in lines if line]
    records = [(record.seq, line_digest(line)) for line, record in decoded if not isinstance(record, MalformedLine)]
    return _Tail(records, is_all, not data.endswith(b"\n"))


def _is_whole(before: FileSegment, after: FileSegment) -> bool:
    """Whether the lines of a segment are one chain, from its first number to the line before the next segment."""
    segment: ChainSegment | None = None
    for line in complete_lines(before.path):
        record = decode_line(line)
        longer = None if isinstance(record, MalformedLine) else extend(segment, record, line)
        if longer is None:
            return False
        segment = longer
    follower = next(complete_lines(after.path), None)
    if segment is None or follower is None or segment.first_seq != before.first_seq:
        return False
    record = decode_line(follower)
    return not isinstance(record, MalformedLine) and record.prev == segment.digest


def _status(path: Path) -> _Status | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return _Status(found.st_ino, found.st_mtime_ns, found.st_size)


# In the offsets of the stream a fault stands beside the positions, so that it starts a batch, and the same one again.
# Names of logs and files have no tabs (`path_text`).


def to_offsets(faults: Sequence[FileFault]) -> dict[str, Position]:
    """The faults as entries of an offset."""
    return {f"!{fault.fault}\t{fault.log}\t{fault.file}": Position(fault.read, fault.size) for fault in faults}


def is_fault(name: str) -> bool:
    """Whether an entry of an offset is a fault."""
    return name.startswith("!") and "\t" in name


def new_faults(start: Positions, end: Positions) -> list[FileFault]:
    """The faults of `end` that `start` does not have."""
    found = []
    for name, (read, size) in sorted(end.items()):
        if is_fault(name) and name not in start:
            fault, log, file = name[1:].split("\t", 2)
            found.append(FileFault(FaultKind(fault), log, file, read, size))
    return found
