"""Runs many seeds in parallel; runs are independent of each other and of their order."""

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from signal import SIG_DFL, SIGINT, signal
from typing import Final, TypeVar

from cluster.model.errors import ConfigError, StartupError

T = TypeVar("T")

SEEDS_MAX: Final = 1_000_000

_RANGE: Final = re.compile(r"([0-9]{1,18})\.\.([0-9]{1,18})")


def parse_seeds(text: str) -> range:
    """Parse `1..200`, both included. Raises ConfigError, which names the option and the value."""
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
    with ProcessPoolExecutor(min(jobs, len(seeds)), context, initializer=_end_with_parent) as executor:
        futures = [executor.submit(work, seed) for seed in seeds]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise StartupError("a worker process was killed, perhaps for want of memory: try fewer --jobs") from None
        finally:
            executor.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """End a worker at Ctrl-C without a traceback, and when its parent is gone, however that ended."""
    signal(SIGINT, SIG_DFL)
    parent = parent_process()
    assert parent is not None, "a worker has a parent"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
