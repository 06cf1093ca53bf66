"""How much each target is fuzzed, and what was done: the same few inputs in every run, new ones for as long as asked.

`KLAMM_FUZZ_SECONDS`: for how long each target looks for new inputs in the deep suite, 60 if it is not set.
"""

import os
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from hypothesis import settings

SECONDS_VARIABLE: Final = "KLAMM_FUZZ_SECONDS"
_DEFAULT_SECONDS: Final = 60.0


class Run:
    """What one target has done in this run. `seconds` are those of this process's CPU time."""

    def __init__(self) -> None:
        self.cases = 0
        self.seconds = 0.0


RUNS: Final[dict[str, Run]] = {}
"""By name of the target; for the table at the end of a run."""


def count_case(target: str) -> None:
    RUNS.setdefault(target, Run()).cases += 1


def fuzz(*, examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a test of hypothesis: `examples` inputs a round; in the deep suite, rounds until the time is over."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        name = test.__name__.removeprefix("test_").replace("_", " ")
        bounded = settings(max_examples=examples)(test)

        @wraps(test)
        def run(*args: Any, **kwargs: Any) -> None:
            started, used = time.monotonic(), time.process_time()
            done = RUNS.setdefault(name, Run())
            try:
                while True:
                    bounded(*args, **kwargs)
                    if time.monotonic() - started >= fuzz_seconds():
                        break
            finally:
                done.seconds += time.process_time() - used

        return run

    return decorate


def fuzz_seconds() -> float:
    """For how long each target looks for new inputs in this run."""
    # The profile of tests/conftest.py: only the deep suite looks for new examples.
    return 0.0 if settings.default.derandomize else float(os.environ.get(SECONDS_VARIABLE, _DEFAULT_SECONDS))
