"""Completes or undoes the replacement of segments by cleaned ones that a crash has interrupted.

While a cleaning writes, its files are named `.cleaned`; when they are complete and flushed they are renamed to `.swap`,
the last segment first. As long as one is still `.cleaned`, the old segments are all there, and what the cleaning wrote
is removed. Afterwards the old ones may be gone, and the replacement is completed. Source: Kafka LogLoader; KAFKA-6264.
"""

from collections.abc import Iterable, Iterator

import structlog

from broker_agent.log.directory_names import parse_offset_name
from broker_agent.log.disk import Disk, DiskFile
from broker_agent.log.record_batch import HEADER_SIZE, parse_header
from broker_agent.log.segment import CLEANED_SUFFIX, LOG_SUFFIX, SUFFIXES, SWAP_SUFFIX, segment_stem
from cluster.model.broker import Offset

_log = structlog.stdlib.get_logger()


def finish_swaps(disk: Disk, directory: str) -> list[str]:
    """Leave no file of an interrupted replacement in a partition's directory; returns the names in it. Blocks; raises
    OSError.

    It may be interrupted itself, and is repeated then.
    """
    names = disk.list_directory(directory)
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    unfinished = min(_bases(cleaned), default=None)
    undone = [
        name for name in swaps if unfinished is not None and min(_bases([name]), default=unfinished) >= unfinished
    ]
    # Those of higher offsets first: until no file is `.cleaned`, the next attempt must find the same.
    for name in (*undone, *sorted(cleaned, reverse=True)):
        disk.remove_file(f"{directory}/{name}")
    complete = sorted(_bases(name for name in swaps if name not in undone and name.endswith(LOG_SUFFIX + SWAP_SUFFIX)))
    if complete:
        _complete(disk, directory, complete)
    return disk.list_directory(directory) if swaps or cleaned else names


def _bases(names: Iterable[str]) -> Iterator[Offset]:
    for name in names:
        base = parse_offset_name(name.partition(".")[0])
        if base is not None:
            yield base


def _complete(disk: Disk, directory: str, bases: list[Offset]) -> None:
    """Remove the segments that were replaced, then give the cleaned ones their names."""
    end = max(_end_of(disk, directory, base) for base in bases)
    names = disk.list_directory(directory)
    old = [base for base in _bases(name for name in names if name.endswith(LOG_SUFFIX)) if bases[0] <= base < end]
    _log.info("Completes an interrupted cleaning", directory=directory, segments=old, cleaned=bases)
    for base in (*reversed(old), *bases):
        for suffix in reversed(SUFFIXES):
            disk.remove_file(segment_stem(directory, base) + suffix)
    for base in bases:
        for suffix in reversed(SUFFIXES):
            if f"{segment_stem(directory, base)}{suffix}{SWAP_SUFFIX}".rpartition("/")[2] in names:
                stem = segment_stem(directory, base)
                disk.rename(stem + suffix + SWAP_SUFFIX, stem + suffix)


def _end_of(disk: Disk, directory: str, base: Offset) -> Offset:
    """The offset after the last batch of a cleaned segment that is not in use yet."""
    file = disk.open_file(segment_stem(directory, base) + LOG_SUFFIX + SWAP_SUFFIX)
    try:
        return _end_of_batches(file, base)
    finally:
        file.close()


def _end_of_batches(file: DiskFile, base: Offset) -> Offset:
    end, position = base, 0
    while position + HEADER_SIZE <= file.size:
        header = parse_header(file.read(position, HEADER_SIZE))
        if header.size < HEADER_SIZE or position + header.size > file.size:
            break
        end, position = Offset(header.last_offset + 1), position + header.size
    return end
