"""Every command line that a document shows is one that `klamm` understands."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from launcher.__main__ import app

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = (ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md")))


def command_lines() -> list[str]:
    """What `klamm` is called with on the indented lines, at their start or behind a pipe."""
    shown = (
        part
        for document in DOCUMENTS
        for line in re.findall(r"^ {4}(.+)$", document.read_text("utf-8"), re.MULTILINE)
        for part in re.split(r" +# |[|>]", line)
    )
    return [match[1] for part in shown if (match := re.match(r" *(?:\./)?klamm (.*)", part))]


def test_the_documents_show_command_lines() -> None:
    assert len(command_lines()) > 25


@pytest.mark.parametrize("arguments", command_lines())
def test_a_documented_command_line_names_a_command_and_options_that_there_are(arguments: str) -> None:
    # Asked for its help, a command does nothing else, and still complains of what it does not know.
    answer = CliRunner().invoke(app, [*shlex.split(arguments), "--help"])
    assert answer.exit_code == 0, answer.output


@pytest.mark.parametrize("arguments", ["topics describ orders", "topics create orders --partition 3"])
def test_an_error_would_be_noticed(arguments: str) -> None:
    assert CliRunner().invoke(app, [*shlex.split(arguments), "--help"]).exit_code == 2
