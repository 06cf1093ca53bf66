"""The files of state-change logs, by node and incarnation, wherever they lie; and positions in them.

A position names a segment by the sequence number of its first line, not by its path: a folder that was moved is the
same log, and sealed segments before the position need not be looked at any more.
"""

import os
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from cluster.model.printable import path_text
from state_log.kafka.files import KafkaFiles, is_compressed, is_kafka_name, may_be_kafka_log
from state_log.record import LINE_BYTES_MAX
from state_log.writer import SEGMENT_SUFFIX, parse_segment_name

_TAIL_BYTES: Final = 1 << 16
_MTIME_NS: Final = 2_000_000_000
"""How long a folder may change without a new time after its last change: the resolution of the times of files."""


_LEAST_PART: Final = 16
"""A log has at least this part of an equal share."""


class Position(NamedTuple):
    """Everything before `byte` of the segment whose first line has this number has been read."""

    first_seq: int
    byte: int


START: Final = Position(-1, 0)
Positions = Mapping[str, Position]
"""Keyed by log: the name of node and incarnation, or of a file that is named otherwise."""


class FileSegment(NamedTuple):
    """A segment of a log. `is_kafka`: it is a state-change.log of Apache Kafka, which is a log of its own."""

    first_seq: int
    path: Path
    is_kafka: bool = False


class FileContent(Struct, frozen=True):
    """The whole content of a file that Spark has read."""

    url: str
    data: bytes
    modified_ns: int


def file_text(path: Path | FileContent) -> str:
    """The name of a file in results: its URL, or its path with escapes."""
    return path.url if isinstance(path, FileContent) else path_text(path)


class Range(NamedTuple):
    """Bytes of a file: whole lines."""

    log: str
    path: Path | FileContent
    first: int
    end: int
    is_kafka: bool = False


class _Listing(NamedTuple):
    """Holds what a folder has: when it was changed last, files that may be logs, folders, links to folders, and what
    only has the name of a log.
    """

    modified_ns: int
    files: list[Path]
    below: list[Path]
    links: list[Path]
    ignored: list[Path]


def _listing(directory: Path, modified_ns: int) -> _Listing:
    found = _Listing(modified_ns, [], [], [], [])
    with os.scandir(directory) as entries:
        present = sorted(entries, key=lambda entry: entry.name)
    for entry in present:
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            found.below.append(path)
            found.ignored.extend([path] if parse_segment_name(entry.name) else [])
        elif entry.is_symlink() and os.path.isdir(path):
            found.links.append(path)
        elif may_be_kafka_log(entry.name) or is_compressed(entry.name):
            if os.path.isfile(path):  # A link to itself is none, and no error.
                found.files.append(path)
            elif entry.name.endswith(SEGMENT_SUFFIX) or is_kafka_name(entry.name):
                found.ignored.append(path)
    return found


class LogFiles:
    """The segments in some folders and those below. Folders are read again only when they have changed."""

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = directories
        self._listed: dict[Path, _Listing] = {}
        self._kafka_files = KafkaFiles()
        self.ignored: list[Path] = []
        """What the last listing has that is named as a log and cannot be read, folders that cannot be listed, and links
        to folders that are not searched: who may write a link must not choose what else is read.
        """

    def logs(self) -> dict[str, list[FileSegment]]:
        """The segments of each log, the oldest first; of several copies of a segment the longest."""
        found: dict[str, dict[int, FileSegment]] = {}
        self.ignored = []
        for path in self._files():
            log, segment = self._segment(path)
            if not log:
                self.ignored += [path] if is_compressed(path.name) else []
                continue
            segments = found.setdefault(log, {})
            other = segments.get(segment.first_seq)
            if other is None or _size(path) > _size(other.path):
                segments[segment.first_seq] = segment
        return {log: [segments[n] for n in sorted(segments)] for log, segments in sorted(found.items())}

    def _segment(self, path: Path) -> tuple[str, FileSegment]:
        """The log of which a file is a segment; empty if it is none."""
        name = parse_segment_name(path.name)
        if name is not None:
            return path_text(f"{name.node}-{name.incarnation}"), FileSegment(name.first_seq, path)
        kafka_log = self._kafka_files.identify(path)
        if kafka_log is not None:
            return kafka_log, FileSegment(0, path, is_kafka=True)
        return (path_text(path.name) if path.name.endswith(SEGMENT_SUFFIX) else ""), FileSegment(0, path)

    def _files(self) -> Iterable[Path]:
        waiting = [path.resolve() for path in self._directories]
        seen: set[Path] = set()
        links: list[Path] = []
        while waiting:
            directory = waiting.pop()
            if directory in seen:
                continue
            seen.add(directory)
            listing = self._list(directory)
            self.ignored += listing.ignored
            links += listing.links
            yield from listing.files
            waiting += listing.below
        self.ignored += [link for link in links if link.resolve() not in seen]

    def _list(self, directory: Path) -> "_Listing":
        """List what is in a folder; nothing if it is gone."""
        try:
            now, changed = time.time_ns(), directory.stat().st_mtime_ns
            known = self._listed.pop(directory, None)
            if known is None or known.modified_ns != changed:
                known = _listing(directory, changed)
            if now - changed > _MTIME_NS:
                self._listed[directory] = known
        except (FileNotFoundError, NotADirectoryError):
            return _Listing(0, [], [], [], [])
        except OSError:
            return _Listing(0, [], [], [], [directory])
        return known


def ends(logs: Mapping[str, Sequence[FileSegment]], start: Positions) -> dict[str, list[tuple[FileSegment, int, int]]]:
    """Find what can be read of each log: segments with the first byte and the end of the last complete line.

    `logs` were listed before: a segment with a successor among them is complete.
    """
    found = {}
    for log, segments in logs.items():
        position = start.get(log, START)
        at = bisect_left(segments, position.first_seq, key=lambda segment: segment.first_seq)
        parts = []
        for segment in segments[at:]:
            first = position.byte if segment.first_seq == position.first_seq else 0
            size = _size(segment.path)
            end = line_end(segment.path, first, size) if size > first else first
            if end > first:
                parts.append((segment, first, end))
        if parts:
            found[log] = parts
    return found


def advance(
    start: Positions, available: Mapping[str, Sequence[tuple[FileSegment, int, int]]], budget: int | None
) -> dict[str, Position]:
    """The positions after a batch of about `budget` bytes, of which each log has a share by what is left of it.

    So logs that begin and end together are read side by side, whatever their sizes are: records of all nodes of the
    same time are judged together, and few wait for another log. A log that has little left beside a long backlog is
    read to its end soon all the same.
    """
    positions = dict(start)
    left = {log: sum(end - first for _, first, end in parts) for log, parts in available.items()}
    whole = sum(left.values())
    for log in sorted(available):
        share = None if budget is None or budget >= whole else _share(budget, left[log], whole, len(left))
        taken = 0
        for segment, first, last in available[log]:
            end = last
            if share is not None and last - first > share - taken:
                end = line_end(segment.path, first, first + share - taken, at_least_until=None if taken else last)
            if end > first:
                positions[log] = Position(segment.first_seq, end)
                taken += end - first
            if share is not None and taken >= share:
                break
    return positions


def _share(budget: int, left: int, whole: int, logs: int) -> int:
    """The bytes of a log in a batch. `left`: its bytes that were not read yet, `whole`: those of all logs."""
    return max(1, budget * left // whole, budget // (_LEAST_PART * logs))


def ranges(logs: Mapping[str, Sequence[FileSegment]], start: Positions, end: Positions) -> list[Range]:
    """The bytes between two positions, segment by segment."""
    found = []
    for log, last in end.items():
        first = start.get(log, START)
        if last <= first:
            continue
        for segment in logs.get(log, ()):
            if not first.first_seq <= segment.first_seq <= last.first_seq:
                continue
            low = first.byte if segment.first_seq == first.first_seq else 0
            # The sealed segments between are read to their ends, wherever these are now.
            high = (
                last.byte if segment.first_seq == last.first_seq else line_end(segment.path, low, _size(segment.path))
            )
            if high > low:
                found.append(Range(log, segment.path, low, high, segment.is_kafka))
    return found


def line_end(path: Path, first: int, wanted: int, at_least_until: int | None = None) -> int:
    """The end of the last line that ends at or before `wanted`; otherwise, up to `at_least_until`, of the next line
    after it.

    `first` if there is none, or the file cannot be read. A line of more than LINE_BYTES_MAX is taken in parts.
    """
    try:
        return _line_end(path, first, wanted, at_least_until)
    except OSError:
        return first


def _line_end(path: Path, first: int, wanted: int, at_least_until: int | None) -> int:
    with path.open("rb") as file:
        high = wanted
        while high > first:
            low = max(first, high - _TAIL_BYTES)
            file.seek(low)
            newline = file.read(high - low).rfind(b"\n")
            if newline >= 0:
                return low + newline + 1
            high = low
        if at_least_until is None:
            return first
        file.seek(wanted)
        # A single line is longer than the share of a log may be: it is taken all the same.
        return min(wanted + len(file.readline(LINE_BYTES_MAX)), at_least_until)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
