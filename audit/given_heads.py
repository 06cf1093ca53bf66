"""What an audit was given beside the logs: heads of the nodes, and whether it follows the logs while they grow.

Kept in the output folder, so that a later report has the same verdict.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.json import decode, encode

from audit.output_folder import OutputError, OutputFolder
from cluster.errors import DECODE_ERRORS
from cluster.process.files import first_line
from state_log.heads_file import GivenHead

FILE: Final = "heads.json"


class Given(Struct, frozen=True):
    """`follows`: a log may go on behind what was read of it."""

    heads: tuple[GivenHead, ...] = ()
    follows: bool = False


def read_given(folder: OutputFolder) -> Given:
    """What the runs on this output were given; nothing if there was none. Raises OutputError."""
    try:
        return decode(folder.files.read(FILE).to_pybytes(), type=Given)
    except FileNotFoundError:
        return Given()
    except (OSError, *DECODE_ERRORS) as error:
        path = folder.path(FILE)
        raise OutputError(f"{path}: is not what an audit has written: {first_line(error)}; remove it") from error


def add_given(folder: OutputFolder, heads: Sequence[GivenHead], *, follows: bool) -> None:
    """Keep the heads beside those of earlier runs. Raises OutputError."""
    known = read_given(folder)
    given = Given(tuple(dict.fromkeys((*known.heads, *heads))), follows)
    if given == known:
        return
    try:
        folder.files.write(FILE, encode(given))
    except OSError as error:
        raise OutputError(f"{folder.path(FILE)}: cannot be written: {first_line(error)}") from error
