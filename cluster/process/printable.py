"""Texts as they can be printed: logs, requests and names of files may have any characters in them."""

from pathlib import Path


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
