"""Metrics of a process as such: its event loop, its use of the disk, its threads.

Everything is either kept up to date by a task or one read of `/proc`: a scrape costs the same however many partitions
there are. CPU time, memory and descriptors come from prometheus_client's ProcessCollector. Sources: Kafka
LinuxIoMetricsCollector (KIP-551), SocketServer, KafkaRequestHandlerPool.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

from cluster.metrics.registry import Metrics, Samples

_PROBE_S: Final = 1.0
_DISK_PROBE_S: Final = 10.0
_IO_NAMES: Final = {b"read_bytes": "linux-disk-read-bytes", b"write_bytes": "linux-disk-write-bytes"}
_log = structlog.stdlib.get_logger()


def expose_process(metrics: Metrics, proc: Path = Path("/proc/self")) -> None:
    """Register what `proc` says of this process; nothing where it does not exist."""

    def io(field: bytes) -> Samples:
        for line in (proc / "io").read_bytes().splitlines():
            name, _, value = line.partition(b": ")
            if name == field:
                yield {}, int(value)

    def threads() -> Samples:
        yield {}, len(os.listdir(proc / "task"))

    def reader(field: bytes) -> Callable[[], Samples]:
        return lambda: io(field)

    if _is_readable(proc / "io"):
        for field, name in _IO_NAMES.items():
            metrics.readings("kafka.server", "KafkaServer", name, reader(field))
    if (proc / "task").is_dir():
        metrics.readings("klamm.process", "Process", "Threads", threads)


class EventLoopMonitor:
    """How late the event loop runs what is due, and how much of its time it is idle."""

    def __init__(self, metrics: Metrics) -> None:
        self._lag = metrics.timer("klamm.process", "EventLoop", "LagMs")
        # One thread does what Kafka's network processors and request handlers do.
        self._network_idle = metrics.gauge("kafka.network", "SocketServer", "NetworkProcessorAvgIdlePercent")
        self._network_idle.set(1)
        self._handler_idle_ns = metrics.meter("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent")
        self._turned_at = time.monotonic()
        metrics.readings("klamm.process", "EventLoop", "TimeSinceLastTurnMs", self._since_last_turn)

    async def run(self) -> None:
        """Measure once a second until cancelled."""
        while True:
            began, cpu_before = time.monotonic(), time.thread_time()
            await asyncio.sleep(_PROBE_S)
            self._turned_at = time.monotonic()
            elapsed = self._turned_at - began
            self._lag.update_ms(max(0.0, elapsed - _PROBE_S) * 1000)
            idle = max(0.0, elapsed - (time.thread_time() - cpu_before))
            self._network_idle.set(idle / elapsed)
            self._handler_idle_ns.mark(int(idle * 1e9))

    def _since_last_turn(self) -> Samples:
        # On the scraper's thread: this is what shows an event loop that hangs.
        yield {}, (time.monotonic() - self._turned_at) * 1000


class DiskSpaceMonitor:
    """Free and total bytes of the file systems of some directories."""

    def __init__(self, metrics: Metrics, directories: Sequence[str]) -> None:
        self._gauges = {
            directory: (
                metrics.gauge("klamm.process", "Disk", "FreeBytes", directory=directory),
                metrics.gauge("klamm.process", "Disk", "TotalBytes", directory=directory),
            )
            for directory in directories
        }

    async def run(self) -> None:
        """Measure every ten seconds until cancelled. A directory that cannot be read keeps its last values."""
        while True:
            for directory, (free, total) in self._gauges.items():
                try:
                    usage = await asyncio.to_thread(shutil.disk_usage, _existing(directory))
                except OSError as error:
                    _log.warning("Free disk space cannot be read", directory=directory, error=str(error))
                    continue
                free.set(usage.free)
                total.set(usage.total)
            await asyncio.sleep(_DISK_PROBE_S)


def _existing(directory: str) -> Path:
    """The directory, or the nearest above it that exists: a controller makes its own with the first record."""
    path = Path(directory).absolute()
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _is_readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True
