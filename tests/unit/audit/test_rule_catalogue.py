"""Every rule is explained, in the program and in its document."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit.cli import app
from audit.report.rule_catalogue import EXPLANATIONS
from state_log.invariants import RECORD_RULES

_DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "audit.md"


def test_every_rule_on_single_records_is_explained() -> None:
    assert set(RECORD_RULES) <= set(EXPLANATIONS)


def test_the_document_lists_the_rules_as_they_are() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (critical|error|log) \| (.*) \|$", _DOCUMENT.read_text(), re.MULTILINE)
    assert {name: (severity, says) for name, severity, says in rows} == {
        name: (rule.severity, rule.says) for name, rule in EXPLANATIONS.items()
    }


@pytest.mark.parametrize("rule", sorted(EXPLANATIONS))
def test_a_rule_is_explained_by_its_id(rule: str) -> None:
    result = CliRunner().invoke(app, ["explain", rule])
    assert result.exit_code == 0
    assert EXPLANATIONS[rule].says in result.output


def test_an_unknown_rule_is_named() -> None:
    result = CliRunner().invoke(app, ["explain", "no-such-rule"])
    assert result.exit_code == 2
    assert "no-such-rule" in result.output
