"""How long a target may take."""

from pathlib import Path

import pytest

from tests.fuzz.budget import fuzz_seconds

_LAST_ROUND_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(fuzz_seconds() + _LAST_ROUND_S))
