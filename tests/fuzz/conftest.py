"""The table of what each target did, at the end of a run, and how long a target may take."""

from pathlib import Path

import pytest

from tests.commits import described_commit
from tests.fuzz.budget import RUNS, fuzz_seconds, is_searching
from tests.fuzz.table import RUNS_FILE, keep, table

_LAST_ROUND_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(fuzz_seconds() + _LAST_ROUND_S))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not RUNS:
        return
    terminalreporter.section("fuzz targets")
    for line in table(RUNS.values()):
        terminalreporter.write_line(line)
    if is_searching():
        keep(RUNS.values(), described_commit())
        terminalreporter.write_line(f"kept in {RUNS_FILE}")
