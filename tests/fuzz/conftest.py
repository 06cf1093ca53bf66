"""The table of what each target did, at the end of a run, and how long a target may take."""

from pathlib import Path

import pytest

from tests.fuzz.budget import RUNS, fuzz_seconds

_LAST_ROUND_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(fuzz_seconds() + _LAST_ROUND_S))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if RUNS:
        terminalreporter.section("fuzz targets")
    for target, run in RUNS.items():
        terminalreporter.write_line(f"{target:40} {run.cases:8} cases {run.seconds:8.1f} s of CPU time")
