"""Producer snapshots in a partition's directory: `<offset>.snapshot` holds the state up to that offset."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Final

import structlog

from broker_agent.log.directory_names import offset_name, parse_offset_name
from broker_agent.log.disk import Disk
from broker_agent.log.producer_state import ProducerStates, decode_snapshot
from broker_agent.log.segments import Segments
from cluster.model.broker import Offset

SNAPSHOT_SUFFIX: Final = ".snapshot"
_KEPT: Final = 2
_log = structlog.stdlib.get_logger()


def write_snapshot(
    disk: Disk, directory: str, states: ProducerStates, offset: Offset, *, is_flushed: bool = False
) -> None:
    """Write the state up to `offset`; of the older snapshots only the latest is kept. Without `is_flushed` there is no
    fsync: the batches tell the same.
    """
    path = _path(directory, offset)
    disk.remove_file(path)
    try:
        with closing(disk.open_file(path)) as file:
            file.append([states.encode()])
            if is_flushed:
                file.flusher()()
    except OSError:
        # A part of one would be taken for damage, and its name for an offset that the log had.
        disk.remove_file(path)
        raise
    for older in sorted(_offsets(disk.list_directory(directory)))[:-_KEPT]:
        disk.remove_file(_path(directory, older))


def remove_snapshots_after(disk: Disk, directory: str, offset: Offset, names: Iterable[str]) -> None:
    """Delete the snapshots that include batches at or after `offset`. `names`: those in the directory."""
    for later in _offsets(names):
        if later > offset:
            disk.remove_file(_path(directory, later))


def rebuild_producers(
    disk: Disk, directory: str, segments: Segments, end: Offset, *, trusted_up_to: Offset, names: Iterable[str]
) -> ProducerStates:
    """The state up to `end`: from the latest snapshot not above `trusted_up_to` and the batch headers after it.

    `names`: those in the directory.
    """
    states, start = ProducerStates(), Offset(0)
    for offset in sorted(_offsets(names), reverse=True):
        if offset > trusted_up_to:
            continue
        snapshot = decode_snapshot(disk.read_file(_path(directory, offset)))
        if snapshot is not None:
            states, start = snapshot, offset
            states.snapshot_end = offset
            if len(states):
                states.markers_end = offset  # It has no markers: there may be one just before.
            break
        _log.warning("Producer snapshot is not valid; an earlier one is used", file=_path(directory, offset))
    for header in segments.headers(start):
        if start <= header.base_offset and header.last_offset < end:
            states.update(header)
    return states


def latest_snapshot(names: Iterable[str]) -> Offset:
    """The offset of the latest snapshot among the names in a directory, 0 without one."""
    return max(_offsets(names), default=Offset(0))


def _offsets(names: Iterable[str]) -> Iterator[Offset]:
    for name in names:
        offset = parse_offset_name(name.removesuffix(SNAPSHOT_SUFFIX)) if name.endswith(SNAPSHOT_SUFFIX) else None
        if offset is not None:
            yield offset


def _path(directory: str, offset: Offset) -> str:
    return f"{directory}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"
