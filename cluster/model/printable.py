"""Texts as they can be printed: logs, requests and names of files may have any characters in them."""

import re
from pathlib import Path
from typing import Any, Final


def printable(text: str) -> str:
    r"""The text with escapes, as in Python (`\x1b`, `\n`, `\u202e`), for what is no visible character: nothing that was
    read can move the cursor, hide text or begin a line of its own.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def path_text(path: Path | str) -> str:
    r"""The path as `printable` text, and `\\` for a backslash: different paths have different texts, in UTF-8."""
    return printable(str(path).replace("\\", "\\\\"))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def printable_json(document: Any, indent: int | None = None) -> str:
    """JSON in which characters that are not visible have escapes, so that no text in it controls a terminal."""
    import json  # noqa: PLC0415 - What nobody asks for costs nothing.

    text = json.dumps(document, indent=indent, ensure_ascii=False)
    if text.isprintable():
        return text
    return _NOT_ASCII.sub(lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text)


_NOT_ASCII: Final = re.compile(r"[^\x20-\x7e\n]")
"""JSON has its own escapes for control characters of ASCII; DEL is none of these."""


def counted(number: int, thing: str, things: str | None = None) -> str:
    """Write `1 partition`, `2,000 partitions`. `things`: the plural that is not made with an s."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"
