"""Documents agree with the code."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.rule_coverage import BOOKS, read_book

ROOT = Path(__file__).resolve().parents[2]
MADE_BY_TOOLS = ("build/", "mutants/")
"""Folders that are there or not, whatever they hold."""


@pytest.mark.parametrize(
    ("tool", "document"),
    [
        ("make_state_tables", "ARCHITECTURE.md"),
        ("make_audit_tables", "docs/audit-tables.md"),
        ("make_audit_faults", "docs/audit-faults.md"),
        ("make_metrics_table", "docs/metrics.md"),
        ("make_deviations_table", "docs/recorded-deviations.md"),
        ("make_security_requests", "docs/security-requests.md"),
    ],
)
def test_tables_in_documents_are_the_codes_own(tool: str, document: str) -> None:
    spec = importlib.util.spec_from_file_location(tool, ROOT / "docs" / f"{tool}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / document).read_text("utf-8")
    assert module.with_tables(text) == text, f"run .venv/bin/python docs/{tool}.py"


def test_every_rule_that_a_test_cites_is_in_the_rule_book() -> None:
    known = {rule.id for book in BOOKS.values() for rule in read_book(book.read_text("utf-8"))}
    cited = {
        rule
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for marks in re.findall(r"pytest\.mark\.rule\(([^)]*)\)", path.read_text())
        for rule in re.findall(r'"([A-Z]+-?[0-9.]+[a-z]?)"', marks)
    }
    assert sorted(rule for rule in cited if rule not in known) == []


def test_every_path_that_a_document_names_is_there() -> None:
    documents = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = {
        (document.name, path)
        for document in documents
        for path in re.findall(r"`(\w+/[\w./*-]*)`", document.read_text("utf-8"))
        if (ROOT / path.partition("/")[0]).is_dir() and not path.startswith(MADE_BY_TOOLS)
    }
    assert len(named) > 20
    assert sorted((document, path) for document, path in named if not any(ROOT.glob(path))) == []


def test_every_test_that_a_document_names_is_there() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs" / "robustness.md").read_text("utf-8"))
    assert len(named) > 30
    missing = [
        (path, test)
        for path, test in named
        if not (file := ROOT / "tests" / path).is_file() or f"def {test}(" not in file.read_text("utf-8")
    ]
    assert missing == []


def test_no_document_promises_flags_for_the_fields_of_a_configuration() -> None:
    pages = [ROOT / "docs" / "configuration.md", *sorted((ROOT / "deploy" / "config").glob("*.toml"))]
    assert [page.name for page in pages if "flags" in page.read_text("utf-8").lower()] == []
