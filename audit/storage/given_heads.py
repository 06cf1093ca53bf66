"""What an audit was given beside the logs: heads of the nodes, and how far behind the logs it may be.

Kept in the output folder, so that a later report has the same verdict.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.json import decode, encode

from audit.storage.committed_state import OutputError
from audit.storage.output_folder import OutputFolder
from cluster.config.files import first_line
from cluster.model.errors import DECODE_ERRORS
from state_log.heads_file import GivenHead

FILE: Final = "heads.json"


class Given(Struct, frozen=True):
    """Holds what was given. `lag_ms`: how far a log may be beyond what was read of it."""

    heads: tuple[GivenHead, ...] = ()
    lag_ms: int = 0


def read_given(folder: OutputFolder) -> Given:
    """Read what the runs on this output were given; nothing if there was none. Raises OutputError."""
    try:
        return decode(folder.files.read(FILE).to_pybytes(), type=Given)
    except FileNotFoundError:
        return Given()
    except (OSError, *DECODE_ERRORS) as error:
        path = folder.path(FILE)
        raise OutputError(f"{path}: is not what an audit has written: {first_line(error)}; remove it") from error


def add_given(folder: OutputFolder, heads: Sequence[GivenHead], *, lag_ms: int) -> None:
    """Keep the heads beside those of earlier runs. Raises OutputError."""
    known = read_given(folder)
    # A head that has not moved is the same one, whenever it was read: its first time counts.
    lines = {(head.node, head.incarnation, head.seq, head.digest): head for head in reversed((*known.heads, *heads))}
    given = Given(tuple(reversed(lines.values())), lag_ms)
    if given == known:
        return
    try:
        folder.files.write(FILE, encode(given))
    except OSError as error:
        raise OutputError(f"{folder.path(FILE)}: cannot be written: {first_line(error)}") from error
