"""The two worlds in which the contract of logs is tried: files of the operating system, and the simulated disk."""

from itertools import pairwise
from random import Random
from typing import Protocol

from broker_agent.log.checkpoints import MetaProperties
from broker_agent.log.config import LogConfig
from broker_agent.log.disk import Disk
from broker_agent.log.file_disk import FileDisk
from broker_agent.log.log_directories import LogDirectories
from broker_agent.log.log_metrics import LogMetrics
from broker_agent.log.opening import LoadOptions, open_log_directories
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import find_damage, parse_header
from broker_agent.log.segments import LogDependencies
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from cluster.model.partition import TopicPartition
from simulator.disk import SimulatedDisk
from simulator.record_batches import encode_batch

OWNER = MetaProperties(BrokerId(1), "cluster-of-the-test")
TP = TopicPartition("orders-eu", 3)


class TestClock:
    """A wall clock that stands still until it is moved."""

    __test__ = False

    def __init__(self) -> None:
        self.at_ms = 1_000_000

    def now_ms(self) -> int:
        return self.at_ms


class LogWorld(Protocol):
    """A disk that outlives processes. `crash`: the process is gone, at its worst for this disk. `boot_id`: of the
    machine.
    """

    boot_id: str

    def new_disk(self) -> Disk: ...

    def crash(self) -> None: ...


class FileWorld:
    """kill -9 leaves the page cache: the files of an abandoned process are simply opened again."""

    boot_id = "boot"

    def __init__(self) -> None:
        self._disks: list[FileDisk] = []

    def new_disk(self) -> Disk:
        self._disks.append(FileDisk(2))
        return self._disks[-1]

    def crash(self) -> None:
        """The locks go with the process: see `Node.crash`."""


class InMemoryWorld:
    def __init__(self, seed: int = 0) -> None:
        self.disk = SimulatedDisk(TestClock(), Random(seed))
        self.boot_id = "boot-1"

    def new_disk(self) -> Disk:
        return self.disk

    def crash(self) -> None:
        self.disk.lose_power()
        self.boot_id = f"boot-{int(self.boot_id.removeprefix('boot-')) + 1}"


class Node:
    """One agent's log directories over process lives."""

    def __init__(self, world: LogWorld, *paths: str, config: LogConfig = LogConfig()) -> None:
        self.world, self.paths, self.config = world, paths, config
        self.clock = TestClock()
        self.failures: list[tuple[str, OSError]] = []
        self.logs: LogDirectories
        self.metrics: LogMetrics

    async def start(self, owner: MetaProperties = OWNER) -> LogDirectories:
        self.metrics = LogMetrics(Metrics(), per_partition=False)
        dependencies = LogDependencies(self.world.new_disk(), self.clock, Random(7), self.metrics)
        options = LoadOptions(default_config=self.config, boot_id=self.world.boot_id)
        self.logs = await open_log_directories(
            dependencies, self.paths, owner, lambda path, error: self.failures.append((path, error)), options=options
        )
        return self.logs

    async def stop(self) -> None:
        await self.logs.close(BrokerEpoch(42))

    async def restart(self) -> LogDirectories:
        await self.stop()
        return await self.start()

    async def crash_and_restart(self) -> LogDirectories:
        for directory in self.logs.directories.values():
            directory.unlock()
        self.world.crash()
        return await self.start()

    async def log(self, config: LogConfig | None = None, tp: TopicPartition = TP) -> PartitionLog:
        return await self.logs.get_or_create(tp, topic_id=None, is_new=True, config=config or self.config)


def batch(count: int = 1, *, size: int = 100, timestamp: int = 5, **fields: int) -> bytes:
    """A batch of `count` records whose records region has `size` bytes."""
    return encode_batch(b"r" * size, count, base_timestamp=timestamp, max_timestamp=timestamp, **fields)


def fetched(base_offset: int, count: int = 1, *, epoch: int = 0, size: int = 100, **fields: int) -> bytes:
    """A batch as a leader sends it."""
    return batch(count, size=size, base_offset=base_offset, leader_epoch=epoch, **fields)


def fill(log: PartitionLog, *epochs: int, count: int = 10, size: int = 100) -> None:
    """Append one batch of `count` records per given leader epoch."""
    for epoch in epochs:
        log.append_as_leader(batch(count, size=size), LeaderEpoch(epoch), 1_000_000)


def extents(log: PartitionLog) -> list[tuple[int, int, int]]:
    """(base offset, last offset, leader epoch) of every batch."""
    return [(header.base_offset, header.last_offset, header.leader_epoch) for header in log.batches()]


def check_invariants(log: PartitionLog) -> None:
    """What holds on every replica at any instant: offsets in order, batches in order, epochs that fit the batches."""
    assert 0 <= log.log_start_offset <= log.high_watermark <= log.log_end_offset
    assert log.recovery_point <= log.log_end_offset
    headers = list(log.batches())
    for earlier, later in pairwise(headers):
        assert earlier.last_offset < later.base_offset
        assert earlier.leader_epoch <= later.leader_epoch
    assert all(header.last_offset < log.log_end_offset for header in headers)
    for header in headers:
        at = max(Offset(header.base_offset), log.log_start_offset)
        stored = log.read(at, header.size, log.log_end_offset, at_least_one=True)
        assert parse_header(stored) == header
        assert find_damage(header, stored) is None
    entries = log.epoch_entries
    for entry, following in pairwise(entries):
        assert entry.epoch < following.epoch
        assert entry.start_offset < following.start_offset
    assert all(entry.start_offset <= log.log_end_offset for entry in entries)
    for header in headers:
        at = max(header.base_offset, log.log_start_offset)
        assert log.epoch_at_offset(Offset(at)) == header.leader_epoch, (header, entries)
