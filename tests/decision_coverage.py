"""The pytest plugin that measures which branches of the decisions their own tests take, within the run of all tests.

It measures while modules are imported and collected, and then while tests of `DIRECTORIES` run: what tests of whole
processes happen to reach is no test of a decision, and measuring them would make them slow. Caches of decisions that an
earlier test filled are emptied before each measured test, as a cached answer runs no line. `klamm test` loads it with
`-p` and reads the data files (`[tool.coverage]` in pyproject.toml) when all tests have run.
"""

import sys
from collections.abc import Iterator
from functools import _lru_cache_wrapper

import pytest
from coverage import Coverage

from launcher.checks import TESTS_OF_DECISIONS
from launcher.installation import ROOT

DIRECTORIES = tuple(ROOT / folder for folder in TESTS_OF_DECISIONS)
_MEASURED = ("controller.decisions.", "broker_agent.decisions.", "audit.rules.")


def clear_caches() -> None:
    """Empty the caches of all functions of decisions that have been imported."""
    for name, module in sys.modules.copy().items():
        if name.startswith(_MEASURED):
            for member in vars(module).values():
                if isinstance(member, _lru_cache_wrapper):
                    member.cache_clear()


class DecisionCoverage:
    """Starts and stops the measurement. With pytest-xdist each process has one, and a data file of its own."""

    def __init__(self) -> None:
        self._coverage = Coverage(config_file=str(ROOT / "pyproject.toml"), data_suffix=True)
        self._coverage.start()

    def pytest_collection_finish(self) -> None:
        self._coverage.stop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if not any(item.path.is_relative_to(folder) for folder in DIRECTORIES):
            return (yield)
        clear_caches()
        self._coverage.start()
        try:
            return (yield)
        finally:
            self._coverage.stop()

    def pytest_unconfigure(self) -> None:
        self._coverage.stop()
        self._coverage.save()


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin before any conftest imports a decision, whose lines would else count as never run."""
    early_config.pluginmanager.register(DecisionCoverage())
