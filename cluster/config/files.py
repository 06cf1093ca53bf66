"""Reading files that people write, within the bound of their size (BD-7), and naming what is wrong in them."""

import sys
from pathlib import Path
from typing import Final

from cluster.model import bounds
from cluster.model.errors import ConfigError

_SHOWN_LENGTH: Final = 200


def read_file(path: Path | str) -> bytes:
    """The content of a file, or of the standard input for `-`. Raises OSError; ConfigError if it is too large."""
    limit = bounds.FILE_BYTES.maximum
    if str(path) == "-":
        content = sys.stdin.buffer.read(limit + 1)
    else:
        with open(path, "rb") as file:
            content = file.read(limit + 1)
    if len(content) > limit:
        raise ConfigError([f"{path}: has more than {limit >> 20} MiB"])
    return content


def first_line(error: Exception) -> str:
    """The message of an error about a file, on one line and not as long as the file."""
    return cut((str(error) or type(error).__name__).splitlines()[0])


def shown(value: object) -> str:
    """The value as Python writes it; shortened if it is long."""
    return cut(bounds.shortened(value) if isinstance(value, int) else repr(value))


def cut(text: str) -> str:
    """The text, for one line of a message; its first 200 characters if it is longer."""
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}…"
