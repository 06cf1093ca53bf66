"""The pytest plugin that runs the files first that take longest, and records how long each took.

With whole files given to several processes, a long one that begins last leaves the others idle. A full run writes
build/durations.json; copy it to tests/durations.json when the order is no longer true.
"""

import json
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "tests" / "durations.json"
MEASURED = ROOT / "build" / "durations.json"
_SHORTEST_S = 2
"""Shorter files are not recorded: their order does not matter."""


class Durations:
    """Sums the seconds of set-up, call and teardown of the tests of each file."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        recorded: dict[str, int] = json.loads(RECORDED.read_text("utf-8"))
        # Stable: the tests of a file keep their order, and files that are not recorded theirs.
        items.sort(key=lambda item: -recorded.get(item.nodeid.split("::", 1)[0], 0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.split("::", 1)[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workerinput") or self._config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
            return
        long = {file: round(s) for file, s in self._seconds.items() if s >= _SHORTEST_S}
        MEASURED.parent.mkdir(exist_ok=True)
        MEASURED.write_text(json.dumps(dict(sorted(long.items())), indent=1) + "\n", "utf-8")
