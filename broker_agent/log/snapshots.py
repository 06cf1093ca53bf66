"""Producer snapshots in a partition's directory: `<offset>.snapshot` holds the state up to that offset."""

from collections.abc import Iterator
from typing import Final

from broker_agent.log.disk import Disk
from broker_agent.log.producer_state import ProducerStates, decode_snapshot
from broker_agent.log.segments import Segments
from cluster.bounds import parse_padded
from cluster.broker import Offset

SNAPSHOT_SUFFIX: Final = ".snapshot"
_KEPT: Final = 2


def write_snapshot(disk: Disk, directory: str, states: ProducerStates, offset: Offset) -> None:
    """Write the state up to `offset`, without fsync; of the older snapshots only the latest is kept."""
    path = _path(directory, offset)
    disk.remove_file(path)
    file = disk.open_file(path)
    file.append([states.encode()])
    file.close()
    for older in sorted(_offsets(disk, directory))[:-_KEPT]:
        disk.remove_file(_path(directory, older))


def remove_snapshots_after(disk: Disk, directory: str, offset: Offset) -> None:
    """Delete the snapshots that include batches at or after `offset`."""
    for later in _offsets(disk, directory):
        if later > offset:
            disk.remove_file(_path(directory, later))


def rebuild_producers(
    disk: Disk, directory: str, segments: Segments, end: Offset, *, trusted_up_to: Offset
) -> ProducerStates:
    """The state up to `end`: from the latest snapshot not above `trusted_up_to` and the batch headers after it."""
    states, start = ProducerStates(), Offset(0)
    for offset in sorted(_offsets(disk, directory), reverse=True):
        snapshot = decode_snapshot(disk.read_file(_path(directory, offset))) if offset <= trusted_up_to else None
        if snapshot is not None:
            states, start = snapshot, offset
            break
    for header in segments.headers(start):
        if header.last_offset >= end:
            break
        states.update(header)
    return states


def _offsets(disk: Disk, directory: str) -> Iterator[Offset]:
    for name in disk.list_directory(directory):
        stem = name.removesuffix(SNAPSHOT_SUFFIX)
        offset = parse_padded(stem)
        if stem != name and offset is not None:
            yield Offset(offset)


def _path(directory: str, offset: Offset) -> str:
    return f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"
