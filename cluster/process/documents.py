"""Results as documents for programs: JSON or YAML on stdout. The keys are an interface."""

import sys
from enum import StrEnum
from typing import Any

import typer


class Format(StrEnum):
    """How results are written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def write_document(document: dict[str, Any], form: Format) -> None:
    """One YAML document, or else one JSON object: indented for people, in one line for a pipe."""
    if form is Format.YAML:
        import yaml  # noqa: PLC0415 - What nobody asks for costs nothing.

        typer.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
        return
    import json  # noqa: PLC0415

    indent = 2 if sys.stdout is not None and sys.stdout.isatty() else None
    typer.echo(json.dumps(document, indent=indent, ensure_ascii=False))
