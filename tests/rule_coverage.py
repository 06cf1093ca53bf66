"""Which rules of docs/rules the tests hold: a table made from the tests that ran and passed.

A full run writes build/rules.md and build/rules.json and fails when no passing test holds a rule of the controller,
unless the row of the rule in the book says why it needs none. A run of selected tests only collects.
"""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
BOOKS = {"controller": ROOT / "docs/rules/controller.md", "broker agent": ROOT / "docs/rules/broker_agent.md"}
# A rule of the agent without a test is shown in the table; only those of the controller fail the run.
STRICT = ("controller",)
UNTESTED = "untested:"
# Rows that explain deviations and worked examples may be cited like rules, but are not counted as such.
_EDGE = re.compile(r"[CD]-\d+|E\d+")
_RULE_ID = re.compile(r"[A-Z]+(-\d+[a-h]?|\d+(\.\d+[a-z]?)?)")
_FULL_RUNS = ("", "not deep")


class Rule(NamedTuple):
    id: str
    text: str
    source: str
    note: str
    """Empty; or a deviation; or "untested: " and why no test can or need hold the rule."""

    @property
    def edge(self) -> bool:
        return _EDGE.fullmatch(self.id) is not None

    @property
    def exempt(self) -> bool:
        return self.note.startswith(UNTESTED)

    @property
    def deviating(self) -> bool:
        return bool(self.note) and not self.exempt


def read_book(text: str) -> list[Rule]:
    """The rows of all tables whose first cell is the id of a rule, in their order.

    Raises:
        ValueError: a row has not four cells, or a rule has two rows.
    """
    rules: dict[str, Rule] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else [""]
        if not _RULE_ID.fullmatch(cells[0]):
            continue
        if len(cells) != len(Rule._fields):
            raise ValueError(f"a row of the rule book has four cells: {line}")
        if cells[0] in rules:
            raise ValueError(f"rule {cells[0]} has two rows")
        rules[cells[0]] = Rule(*cells)
    return list(rules.values())


class Coverage(NamedTuple):
    """One book and the passing tests of each of its rules."""

    rows: list[Rule]
    tests: dict[str, list[str]]

    def untested(self) -> list[Rule]:
        return [rule for rule in self.rows if not rule.edge and not self.tests.get(rule.id)]

    def missing(self) -> list[Rule]:
        """Rules that neither a passing test holds nor the book excuses."""
        return [rule for rule in self.untested() if not rule.exempt]

    def summary(self) -> str:
        rules = [rule for rule in self.rows if not rule.edge]
        deviating = sum(rule.deviating for rule in rules)
        untested = len(self.untested())
        return f"{len(rules)}, tested {len(rules) - untested}, deviating {deviating}, untested {untested}"

    def table(self) -> str:
        lines = ["| id | rule | tests that passed | note |", "|---|---|---|---|"]
        for rule in self.rows:
            tests = "<br>".join(self.tests.get(rule.id, ())) or "none"
            lines.append(f"| {rule.id} | {rule.text} | {tests} | {rule.note} |")
        return "\n".join(lines)


class RuleCoverage:
    """The pytest plugin. Rules travel with the reports: with pytest-xdist other processes than this one run tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._rules_of: dict[str, list[str]] = {}
        self._failed: set[str] = set()
        self._passed: dict[str, None] = {}
        self._problems: list[str] = []
        self._books: dict[str, Coverage] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            rules = [rule for mark in item.iter_markers("rule") for rule in mark.args]
            if rules:
                item.user_properties.append(("rules", list(dict.fromkeys(rules))))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self._passed[report.nodeid] = None
            self._rules_of[report.nodeid] = dict(report.user_properties).get("rules", [])

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if not self._ran_everything(exitstatus):
            return
        self._books = self.coverage()
        self._problems = self._find_problems()
        self._write_tables()
        if self._problems and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for problem in self._problems:
            terminalreporter.write_line(problem, red=True)
        for name, coverage in self._books.items():
            of_whom = "" if name in STRICT else f" of the {name}"
            terminalreporter.write_line(f"rules{of_whom}: {coverage.summary()}")

    def coverage(self) -> dict[str, Coverage]:
        """The books with what passed until now."""
        tests: defaultdict[str, list[str]] = defaultdict(list)
        for nodeid in self._passed:
            if nodeid not in self._failed:
                # Cases of one table are one test here.
                name = nodeid.split("[", 1)[0]
                for rule in self._rules_of.get(nodeid, ()):
                    if name not in tests[rule]:
                        tests[rule].append(name)
        return {name: Coverage(read_book(path.read_text("utf-8")), dict(tests)) for name, path in BOOKS.items()}

    def _ran_everything(self, exitstatus: int) -> bool:
        if hasattr(self._config, "workerinput"):
            return False
        option = self._config.getoption
        # Those of plugins that are switched off have no value.
        narrowing = ("keyword", "lf", "stepwise", "collectonly", "maxfail", "deselect", "ignore")
        selected = any(option(name, None) for name in narrowing)
        whole_tree = self._config.args_source is pytest.Config.ArgsSource.TESTPATHS
        finished = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        return whole_tree and finished and not selected and option("markexpr") in _FULL_RUNS

    def _find_problems(self) -> list[str]:
        return [f"no passing test holds rule {r.id}: {r.text}" for n in STRICT for r in self._books[n].missing()]

    def _write_tables(self) -> None:
        build = ROOT / "build"
        build.mkdir(exist_ok=True)
        parts = [f"# Rules of the {n}: {c.summary()}\n\n{c.table()}\n" for n, c in self._books.items()]
        (build / "rules.md").write_text("\n".join(parts), "utf-8")
        document = {
            name: {r.id: {"note": r.note, "tests": coverage.tests.get(r.id, [])} for r in coverage.rows}
            for name, coverage in self._books.items()
        }
        (build / "rules.json").write_text(json.dumps(document, indent=1), "utf-8")
