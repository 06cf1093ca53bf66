"""Runs many seeds in parallel; runs are independent of each other and of their order."""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from signal import SIG_DFL, SIGINT, signal
from typing import Final, TypeVar

from cluster.errors import ConfigError, StartupError

T = TypeVar("T")

SEEDS_MAX: Final = 1_000_000

_RANGE: Final = re.compile(r"(\d{1,18})\.\.(\d{1,18})")


def parse_seeds(text: str) -> range:
    """`1..200`, both included. Raises ConfigError, which names the option and the value."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ConfigError([f"--seeds: {text!r}: must be FIRST..LAST, as in 1..200"])
    first, last = int(match[1]), int(match[2])
    if last < first:
        raise ConfigError([f"--seeds: {text!r}: the last seed is smaller than the first"])
    if last - first >= SEEDS_MAX:
        raise ConfigError([f"--seeds: {text!r}: more than {SEEDS_MAX} seeds"])
    return range(first, last + 1)


def run_all(seeds: Sequence[int], work: Callable[[int], T], jobs: int) -> Iterator[T]:
    """Yield the result of `work` for each seed, in the order of completion; with `jobs` > 1 it must be picklable.

    Raises what `work` raises, and StartupError if the system has killed a worker process.
    """
    if jobs == 1 or len(seeds) == 1:
        yield from map(work, seeds)
        return
    # Not forked: a child must not inherit the threads and locks of the terminal's progress bar.
    context = get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(seeds)), context, initializer=_end_by_interrupt) as executor:
        futures = [executor.submit(work, seed) for seed in seeds]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise StartupError("a worker process was killed, perhaps for want of memory: try fewer --jobs") from None
        finally:
            executor.shutdown(wait=False, cancel_futures=True)


def _end_by_interrupt() -> None:
    """Ignore Ctrl-C in workers; the parent handles it."""
    signal(SIGINT, SIG_DFL)
