"""Writes results: a table for people, JSON and YAML for programs; and help. The keys of JSON are an interface."""

from collections.abc import Iterable, Sequence
from typing import Any

import typer

from admin.connecting.waiting import Notice
from cluster.cli.documents import Format, write_document, write_table
from cluster.cli.typed_command import as_typed


def write(document: dict[str, Any], form: Format, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write `document` as JSON or YAML, or `rows` under `columns` as a table."""
    if form is Format.TABLE:
        write_table(columns, rows)
    else:
        write_document(document, form)


def say(message: str) -> None:
    """Print a message to stderr. Commands in it, such as 'klamm up', are named as this one was typed."""
    typer.echo(as_typed(message), err=True)


def say_wait(notice: Notice) -> None:
    """Say what a command waits for, and which of its options changes for how long."""
    say(wait_line(notice))


def wait_line(notice: Notice) -> str:
    return f"{notice.text}; --timeout changes it" if notice.has_limit else notice.text


def source(why_of_brokers: str) -> str:
    """The key `source` of documents, which says who described the cluster."""
    return "brokers" if why_of_brokers else "controller"


def say_source(why_of_brokers: str) -> None:
    """Say why a description is not the controller's; "": it is."""
    if why_of_brokers:
        say(f"warning: {why_of_brokers}; this is from the metadata of the brokers, and may be out of date")


def examples(*lines: str, exit_codes: str = "0 done; 1 refused, failed or timed out; 2 wrong usage.") -> str:
    """Make the end of a command's help: a line for each example, and the exit codes."""
    return "\n".join(("Examples:", *(f"  {line}" for line in lines), f"Exit codes: {exit_codes}"))
