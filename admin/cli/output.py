"""Writing results: a table for people, JSON and YAML for programs. The keys of JSON are an interface."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer

from admin.cli.options import Format


def write(document: dict[str, Any], form: Format, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write `document` as JSON or YAML, or `rows` under `columns` as a table."""
    match form:
        case Format.JSON:
            write_json(document)
        case Format.YAML:
            import yaml

            sys.stdout.write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
        case Format.TABLE:
            write_table(columns, rows)


def write_json(document: dict[str, Any]) -> None:
    """One JSON object on stdout."""
    import json

    indent = 2 if sys.stdout.isatty() else None
    sys.stdout.write(json.dumps(document, indent=indent, ensure_ascii=False) + "\n")


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Plain columns without lines, as other command-line tools write them; never cut when piped."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for column in columns:
        table.add_column(column.upper(), no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    # A pipe has no width: what reads it must get whole lines.
    Console(width=None if sys.stdout.isatty() else 10_000, highlight=False).print(table)


def say(message: str) -> None:
    """A message for the person at the terminal, on stderr."""
    typer.echo(message, err=True)


def _cell(value: object) -> str:
    from rich.markup import escape

    if isinstance(value, tuple | list):
        return escape(",".join(map(str, value))) if value else "-"
    return "-" if value is None or value == "" else escape(str(value))
