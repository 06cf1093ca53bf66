"""Writes results to stdout: tables for people, JSON or YAML documents for programs. The keys are an interface."""

import shutil
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

import typer

from cluster.cli.tables import table_lines
from cluster.model.printable import printable, printable_json

_INDENT: Final = 4


class Format(StrEnum):
    """Names the output format."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def write_document(document: dict[str, Any], form: Format) -> None:
    """Write a YAML document, or a JSON object: indented on a terminal, one line in a pipe."""
    if form is Format.YAML:
        import yaml  # noqa: PLC0415 - What nobody asks for costs nothing.

        typer.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
        return
    indent = 2 if sys.stdout is not None and sys.stdout.isatty() else None
    typer.echo(printable_json(document, indent))


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write aligned columns without borders, under headers without blanks, for awk.

    Characters that are not visible have escapes. On a terminal long cells are folded between words to fit it; in a pipe
    each row is a line. Values are never truncated, so that an address can be copied.
    """
    assert not any(" " in column for column in columns), columns
    cells = [[_cell(value) for value in row] for row in rows]
    header, *rest = table_lines([column.upper() for column in columns], cells, terminal_width())
    for line in header:
        typer.secho(line, bold=True)
    for lines in rest:
        typer.echo("\n".join(lines))


def write_line(text: str) -> None:
    """Write a line of text; on a terminal it is folded between words, further lines indented. Escapes as in tables."""
    width = terminal_width()
    _, (first, *others) = table_lines([""], [[printable(text)]], None if width is None else max(width - _INDENT, 1))
    typer.echo("\n".join((first, *(" " * _INDENT + line for line in others))))


def terminal_width() -> int | None:
    """The number of columns of the terminal that stdout is; None if it is none."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size().columns if on_terminal else None


def _cell(value: object) -> str:
    if isinstance(value, tuple | list):
        return printable(",".join(map(str, value))) if value else "-"
    return "-" if value is None or value == "" else printable(str(value))
