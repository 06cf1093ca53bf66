"""The stack of compose.yaml, in the deep suite; `tests/compose/run` runs the same alone, with its log."""

import pytest

from tests.compose.__main__ import check
from tests.compose.engine import NoEngineError


@pytest.mark.deep
@pytest.mark.real
@pytest.mark.timeout(3600)
def test_the_compose_stack_survives_faults_and_stops_gracefully() -> None:
    try:
        check(print)
    except NoEngineError as reason:
        pytest.skip(f"no compose stack: {reason}")
