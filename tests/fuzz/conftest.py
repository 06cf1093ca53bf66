"""The table of what each target did, at the end of a run."""

import pytest

from tests.fuzz.budget import RUNS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if RUNS:
        terminalreporter.section("fuzz targets")
    for target, run in RUNS.items():
        terminalreporter.write_line(f"{target:40} {run.cases:8} cases {run.seconds:8.1f} s")
