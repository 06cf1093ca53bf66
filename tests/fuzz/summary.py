"""The pytest plugin that shows the table of what each target did at the end of a run."""

import msgspec
import pytest

from tests.commits import described_commit
from tests.fuzz.budget import RUNS, is_searching
from tests.fuzz.table import RUNS_FILE, Run, keep, table


class FuzzSummary:
    """With pytest-xdist several processes run targets, and another one shows the table."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is None:
            self._runs += RUNS.values()
        else:
            output["fuzz"] = msgspec.to_builtins(list(RUNS.values()))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        done = getattr(node, "workeroutput", {}).get("fuzz", [])
        self._runs += msgspec.convert(done, list[Run])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._runs:
            return
        terminalreporter.section("fuzz targets")
        for line in table(self._runs):
            terminalreporter.write_line(line)
        if is_searching():
            keep(self._runs, described_commit())
            terminalreporter.write_line(f"kept in {RUNS_FILE}")
