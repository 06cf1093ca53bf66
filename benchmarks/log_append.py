"""Benchmarks an append: a batch through the whole log, with the checksum and the bare write as lower bounds.

Run as `python -m benchmarks.log_append [--size BYTES] [--count N] [--data DIR]`.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable
from random import Random

from broker_agent.log.checkpoints import MetaProperties
from broker_agent.log.config import LogConfig
from broker_agent.log.file_disk import FileDisk
from broker_agent.log.opening import open_log_directories
from broker_agent.log.record_batch import HEADER_SIZE, crc32c
from broker_agent.log.segments import LogDependencies
from cluster.aio.clock import SystemClock
from cluster.model.broker import BrokerId, LeaderEpoch, Offset
from cluster.model.partition import TopicPartition
from simulator.record_batches import encode_batch

ROUNDS = 5


def _raise(directory: str, error: OSError) -> None:
    raise error


def _median_us(operation: Callable[[int], object], count: int) -> float:
    """Median over rounds of the mean time of one operation, in microseconds."""
    means = []
    for _ in range(ROUNDS):
        started = time.perf_counter_ns()
        for index in range(count):
            operation(index)
        means.append((time.perf_counter_ns() - started) / count / 1000)
    return round(sorted(means)[ROUNDS // 2], 2)


async def measure(data: str, size: int, count: int) -> dict[str, float]:
    """Microseconds per append, per read of one batch, per checksum and per bare write."""
    dependencies = LogDependencies(FileDisk(), SystemClock(), Random(0))
    logs = await open_log_directories(dependencies, [f"{data}/logs"], MetaProperties(BrokerId(1), "benchmark"), _raise)
    log = await logs.get_or_create(TopicPartition("t", 0), topic_id=None, is_new=True, config=LogConfig())
    batch = encode_batch(bytes(size - HEADER_SIZE), 10, max_timestamp=1)
    epoch = LeaderEpoch(0)
    result = {
        "append_us": _median_us(lambda _: log.append_as_leader(batch, epoch, 1), count),
        "read_us": _median_us(lambda i: log.read(Offset(i * 10), size, log.log_end_offset, at_least_one=True), count),
        "checksum_us": _median_us(lambda _: crc32c(batch), count),
    }
    descriptor = os.open(f"{data}/floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    result["write_us"] = _median_us(lambda _: os.writev(descriptor, [batch]), count)
    os.close(descriptor)
    dependencies.disk.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=16 << 10)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--data", default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.data) as data:
        result = asyncio.run(measure(data, arguments.size, arguments.count))
    print(json.dumps({"size": arguments.size, **result}))  # noqa: T201 (the result of a command)


if __name__ == "__main__":
    main()
