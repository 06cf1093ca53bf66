"""Writes state-change logs that were made in memory to files."""

from collections.abc import Iterable
from pathlib import Path

from state_log.writer import SegmentName


def write_segment(directory: Path, name: SegmentName, lines: Iterable[bytes]) -> Path:
    """Write a whole segment at once, in a directory created if missing; `lines` without newlines."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / str(name)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path
