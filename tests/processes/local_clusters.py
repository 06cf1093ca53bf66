"""A cluster of real processes on this machine: from its start to its end, and what tests of the whole wait for."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.local.cluster import LocalCluster
from launcher.serving import wait_until_serving
from tests.processes.commands import as_json
from tests.timeouts import TIMEOUT_S


@contextmanager
def serving_cluster(folder: Path, **options: Any) -> Iterator[LocalCluster]:
    """Started and serving; stopped in the end, whatever happened. `options` are those of its creation."""
    cluster = LocalCluster.create_or_open(folder, **options)
    try:
        cluster.start_all(TIMEOUT_S)
        wait_until_serving(cluster, TIMEOUT_S)
        yield cluster
    finally:
        cluster.stop_all()


def eventually(condition: Callable[[], object], what: str) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S} s: {what}"
        time.sleep(0.1)


def log_directory(cluster: LocalCluster, broker: int) -> Path:
    """The only log directory of a broker."""
    [directory] = next(b["log_dirs"] for b in as_json(cluster, "status")["brokers"] if b["id"] == broker)
    return Path(directory)


def partitions(cluster: LocalCluster, topic: str) -> list[dict[str, Any]]:
    """The partitions of a topic, as `topics describe` shows them to a program."""
    found: list[dict[str, Any]] = as_json(cluster, "topics", "describe", topic)["topics"][0]["partitions"]
    return found
