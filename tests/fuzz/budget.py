"""How much each target is fuzzed, and what was done: the same few inputs in every run, new ones for as long as asked.

`KLAMM_FUZZ_SECONDS`: for how long each target looks for new inputs in the deep suite, 60 if it is not set.
`KLAMM_FUZZ_CORPUS`: the folder in which the deep suite keeps inputs that failed, which it tries first the next time.
"""

import os
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.fuzz.table import RUNS_FILE, Run

SECONDS_VARIABLE: Final = "KLAMM_FUZZ_SECONDS"
CORPUS_VARIABLE: Final = "KLAMM_FUZZ_CORPUS"
_DEFAULT_SECONDS: Final = 60.0

RUNS: Final[dict[str, Run]] = {}
"""By name of the target; for the table at the end of a run."""


def count_case(target: str) -> None:
    _run_of(target).cases += 1


def fuzz(*, examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a test of hypothesis: `examples` inputs a round; in the deep suite, rounds until the time is over."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        name = test.__name__.removeprefix("test_").replace("_", " ")
        bounded = settings(max_examples=examples, **_corpus())(test)

        @wraps(test)
        def run(*args: Any, **kwargs: Any) -> None:
            started, used = time.monotonic(), time.process_time()
            done = _run_of(name)
            try:
                while True:
                    bounded(*args, **kwargs)
                    if time.monotonic() - started >= fuzz_seconds():
                        break
            except Exception as error:
                done.found = f"{type(error).__name__}: {error}".partition("\n")[0]
                raise
            finally:
                done.seconds += time.process_time() - used

        return run

    return decorate


def is_searching() -> bool:
    """Whether this run looks for new inputs: the profile of tests/conftest.py says so in the deep suite only."""
    return not settings.default.derandomize


def fuzz_seconds() -> float:
    """For how long each target looks for new inputs in this run."""
    return float(os.environ.get(SECONDS_VARIABLE, _DEFAULT_SECONDS)) if is_searching() else 0.0


def _corpus() -> dict[str, Any]:
    if not is_searching():
        return {}
    folder = os.environ.get(CORPUS_VARIABLE, RUNS_FILE.with_name("corpus"))
    return {"database": DirectoryBasedExampleDatabase(folder), "print_blob": True}


def _run_of(target: str) -> Run:
    return RUNS.setdefault(target, Run(target=target))
