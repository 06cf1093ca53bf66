"""Makes aligned tables of text, which fit a terminal where words allow it: words are never broken, values never
truncated.
"""

import re
from collections.abc import Sequence
from typing import Final

_GAPS: Final = ("  ", " ")
"""The gaps between columns; the narrow one if it makes the table fit."""
_BREAKS: Final = re.compile(r"(?<=[ ,;])(?<!\d{4}-\d\d-\d\d )(?=[^ ])")
"""The places where a cell may continue in the next line: behind a blank, except that between date and time, and between
the items of a list.
"""
_BREAKS_OF_HEADERS: Final = re.compile(r"(?<=_)")


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> list[list[str]]:
    """Make the lines of each row, those of the header first.

    Without `width` each row is one line. Otherwise the widest cells are folded until the lines fit, if they can: an
    address that is wider than its share makes its line longer.
    """
    pieces = [[_BREAKS_OF_HEADERS.split(cell) for cell in header], *([_BREAKS.split(c) for c in row] for row in rows)]
    whole = [max(len("".join(row[i])) for row in pieces) for i in range(len(header))]
    gap, widths = (_GAPS[0], whole) if width is None else _fitting(whole, pieces, width)
    return [_row_lines([_folded(cell, w) for cell, w in zip(row, widths, strict=True)], widths, gap) for row in pieces]


def _fitting(widths: list[int], pieces: Sequence[Sequence[Sequence[str]]], width: int) -> tuple[str, list[int]]:
    """Choose the gap and the widths of columns that fit, or nearly."""
    for gap in _GAPS:
        room = width - len(gap) * (len(widths) - 1)
        if sum(shrunk := _shrunk(widths, pieces, room)) <= room:
            return gap, shrunk
    return _GAPS[0], _shrunk(widths, pieces, width)


def _shrunk(widths: list[int], pieces: Sequence[Sequence[Sequence[str]]], room: int) -> list[int]:
    """Narrow the widest columns until the sum fits; no column becomes narrower than its longest word."""
    least = [max(len(piece.rstrip()) for row in pieces for piece in row[i]) for i in range(len(widths))]
    shrunk = list(widths)
    while sum(shrunk) > room:
        foldable = [i for i in range(len(shrunk)) if shrunk[i] > least[i]]
        if not foldable:
            break
        shrunk[max(foldable, key=lambda i: shrunk[i])] -= 1
    return shrunk


def _folded(pieces: Sequence[str], width: int) -> list[str]:
    lines = [""]
    for piece in pieces:
        if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _row_lines(cells: Sequence[Sequence[str]], widths: Sequence[int], gap: str) -> list[str]:
    height = max((len(cell) for cell in cells), default=0)
    return [
        gap.join((cell[n] if n < len(cell) else "").ljust(w) for cell, w in zip(cells, widths, strict=True)).rstrip()
        for n in range(height)
    ]
