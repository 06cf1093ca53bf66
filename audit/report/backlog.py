"""How much of the logs an audit has still to read."""

from pathlib import Path
from typing import Final

from audit.reading.log_files import LogFiles, Position, ends
from audit.storage.commits import Commit
from state_log.writer import parse_segment_name

NOTHING_READ: Final = Commit(0, -1, "", {})


def positions_of(commit: Commit) -> dict[str, Position]:
    """The byte up to which each log was read, wherever its files are now."""
    found = {}
    for log, (file, end) in commit.taken.items():
        name = parse_segment_name(Path(file).name)
        found[log] = Position(0 if name is None else name.first_seq, end)
    return found


def backlog_bytes(files: LogFiles, commit: Commit | None) -> dict[str, int]:
    """The bytes of whole lines that were written and not yet read, by log; logs without any are left out."""
    unread = ends(files.logs(), positions_of(commit or NOTHING_READ))
    return {log: sum(end - first for _, first, end in parts) for log, parts in unread.items()}
