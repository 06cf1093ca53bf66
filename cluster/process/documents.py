"""Writes results to stdout: tables for people, JSON or YAML documents for programs. The keys are an interface."""

import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import typer

from cluster.process.printable import printable


class Format(StrEnum):
    """The output format."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def write_document(document: dict[str, Any], form: Format) -> None:
    """Write a YAML document, or a JSON object: indented on a terminal, one line in a pipe."""
    if form is Format.YAML:
        import yaml  # noqa: PLC0415 - What nobody asks for costs nothing.

        typer.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
        return
    import json  # noqa: PLC0415

    indent = 2 if sys.stdout is not None and sys.stdout.isatty() else None
    typer.echo(json.dumps(document, indent=indent, ensure_ascii=False))


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write aligned columns without borders, under headers without blanks, for awk.

    Characters that are not visible have escapes. Values are never truncated, so that an address can be copied from a
    narrow terminal, where long lines wrap.
    """
    assert not any(" " in column for column in columns), columns
    cells = [[_cell(value) for value in row] for row in rows]
    header = [column.upper() for column in columns]
    widths = [max(len(row[i]) for row in (header, *cells)) for i in range(len(header))]
    lines = ["  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip() for row in (header, *cells)]
    typer.secho(lines[0], bold=True)
    for line in lines[1:]:
        typer.echo(line)


def _cell(value: object) -> str:
    if isinstance(value, tuple | list):
        return printable(",".join(map(str, value))) if value else "-"
    return "-" if value is None or value == "" else printable(str(value))
