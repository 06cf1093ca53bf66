"""Empty marker files: the log was truncated at this offset, and the checkpoints may be above it.

A truncation must not wait for an fsync, but a recovery point above the truncation would let the next start skip what
was appended since, and by a high watermark above it the log would look damaged. The marker is created before the
truncation, as a name only, so that a file system that keeps the order of its metadata changes never shows the
truncation without it. It is deleted once the checkpoints were rewritten.
"""

from collections.abc import Iterable
from typing import Final

from broker_agent.log.directory_names import offset_name, parse_offset_name
from broker_agent.log.disk import Disk
from cluster.model.broker import Offset

MARKER_SUFFIX: Final = ".truncated"


def create_marker(disk: Disk, directory: str, name: str) -> None:
    """Create an empty file durably."""
    disk.open_file(f"{directory}/{name}").close()
    disk.sync_directory(directory)


def create_cut_marker(disk: Disk, directory: str, offset: Offset) -> str:
    """Create the marker; returns its path."""
    path = f"{directory}/{offset_name(offset)}{MARKER_SUFFIX}"
    disk.open_file(path).close()
    return path


def find_cut_markers(directory: str, names: Iterable[str]) -> dict[str, Offset]:
    """The markers among the names in a partition's directory: path -> offset."""
    stems = (name.removesuffix(MARKER_SUFFIX) for name in names if MARKER_SUFFIX in name)
    offsets = {stem: parse_offset_name(stem) for stem in stems}
    return {f"{directory}/{stem}{MARKER_SUFFIX}": at for stem, at in offsets.items() if at is not None}


def lowest_cuts(markers: Iterable[str]) -> dict[str, Offset]:
    """The lowest offset of the markers in each partition's directory."""
    lowest: dict[str, Offset] = {}
    for path in markers:
        directory, _, name = path.rpartition("/")
        offset = parse_offset_name(name.removesuffix(MARKER_SUFFIX))
        if offset is not None:
            lowest[directory] = min(offset, lowest.get(directory, offset))
    return lowest


def remove_cut_markers(disk: Disk, paths: Iterable[str]) -> None:
    for path in paths:
        disk.remove_file(path)
