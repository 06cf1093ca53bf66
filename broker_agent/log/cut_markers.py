"""Empty files that say "the log was cut at this offset, and the recovery-point checkpoint may not know".

A truncation must not wait for the device, yet a recovery point above the cut would let the next start skip
what was appended since. The marker is made before the cut, as a name only, so that a file system which
keeps the order of its own changes never shows the cut without it. It goes when the checkpoint was rewritten.
"""

from collections.abc import Iterable
from typing import Final

from broker_agent.log.disk import Disk
from cluster.broker import Offset

MARKER_SUFFIX: Final = ".truncated"


def create_cut_marker(disk: Disk, directory: str, offset: Offset) -> str:
    """Returns the path of the marker."""
    path = f"{directory}/{offset:020d}{MARKER_SUFFIX}"
    disk.open_file(path).close()
    return path


def find_cut_markers(disk: Disk, directory: str) -> dict[str, Offset]:
    """Paths of the markers in a partition's directory, with their offsets."""
    names = (name for name in disk.list_directory(directory) if name.endswith(MARKER_SUFFIX))
    return {f"{directory}/{name}": Offset(int(name.removesuffix(MARKER_SUFFIX))) for name in names}


def remove_cut_markers(disk: Disk, paths: Iterable[str]) -> None:
    for path in paths:
        disk.remove_file(path)
