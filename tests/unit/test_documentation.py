"""What documents say about the code is what the code says."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_state_tables_in_the_architecture_are_the_codes_own() -> None:
    spec = importlib.util.spec_from_file_location("make_state_tables", ROOT / "docs" / "make_state_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert module.with_tables(text) == text, "run .venv/bin/python docs/make_state_tables.py"


def test_every_rule_that_a_test_cites_is_in_the_rule_book() -> None:
    book = "\n".join((ROOT / "docs" / "rules" / name).read_text() for name in ("controller.md", "broker_agent.md"))
    known = expand(re.findall(r"^\| ([^|]+) \|", book, re.MULTILINE))
    cited = {
        rule
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for marks in re.findall(r"pytest\.mark\.rule\(([^)]*)\)", path.read_text())
        for rule in re.findall(r'"([A-Z]+-?[0-9.]+[a-z]?)"', marks)
    }
    assert sorted(rule for rule in cited if rule not in known) == []


def expand(cells: list[str]) -> set[str]:
    """Rule ids of table cells such as "ZC-4, ZC-5" and "CX-1..3" and "R1.5..R1.9"."""
    known: set[str] = set()
    for cell in cells:
        prefix = ""
        for part in (part.strip() for part in cell.split(",")):
            first, _, last = part.partition("..")
            match = re.fullmatch(r"([A-Z]+-?(?:[0-9]+\.)?)?([0-9]+)([a-z]?)", first)
            if match is None:
                continue
            prefix = match[1] or prefix
            low = int(match[2])
            high = int(re.findall(r"[0-9]+", last)[-1]) if last else low
            known |= {f"{prefix}{number}" for number in range(low, high + 1)} | {first}
            known |= {f"{prefix}{number}{letter}" for number in range(low, high + 1) for letter in "abcdefgh"}
    return known
