"""Empty marker files: the log was truncated at this offset, and the recovery-point checkpoint may be above it.

A truncation must not wait for an fsync, but a recovery point above the truncation would let the next start skip what
was appended since. The marker is created before the truncation, as a name only, so that a file system that keeps the
order of its metadata changes never shows the truncation without it. It is deleted once the checkpoint was rewritten.
"""

from collections.abc import Iterable
from typing import Final

from broker_agent.log.disk import Disk
from cluster.bounds import parse_padded
from cluster.broker import Offset

MARKER_SUFFIX: Final = ".truncated"


def create_cut_marker(disk: Disk, directory: str, offset: Offset) -> str:
    """Create the marker; returns its path."""
    path = f"{directory}/{offset:020d}{MARKER_SUFFIX}"
    disk.open_file(path).close()
    return path


def find_cut_markers(disk: Disk, directory: str) -> dict[str, Offset]:
    """The markers in a partition's directory: path -> offset."""
    names = (name for name in disk.list_directory(directory) if name.endswith(MARKER_SUFFIX))
    found = ((f"{directory}/{name}", parse_padded(name.removesuffix(MARKER_SUFFIX))) for name in names)
    return {path: Offset(offset) for path, offset in found if offset is not None}


def remove_cut_markers(disk: Disk, paths: Iterable[str]) -> None:
    for path in paths:
        disk.remove_file(path)
