"""Benchmarks the log cleaner: klamm's, and that of Apache Kafka beside it, on the same segments.

    python -m benchmarks.compaction [--records 10000000] [--keys 100000] [--compression lz4] [--only klamm] [-o json]

One log of one partition, of which all but the active segment is dirty, is cleaned once by each, by one thread without
a limit of bytes per second. klamm's cleaner has a process of its own, as it would have among the work of a broker; for
Kafka a whole broker runs, whose topic gets `cleanup.policy=compact`.

| measure | what |
|---|---|
| seconds | from the beginning of the cleaning until the cleaner's offset is checkpointed, after the last swap |
| cpu_seconds | of the process meanwhile |
| peak_mb | the largest resident memory of the process, and what it was before the cleaning |
| survivors | records that are left; both must be the same |
"""

import argparse
import asyncio
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from msgspec import Struct
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.compaction_by_kafka import CleaningBroker
from benchmarks.compaction_data import DataSize, Survivors, survivors, write_log
from benchmarks.report import describe_machine
from broker_agent.compaction.log_cleaner import LogCleaner
from broker_agent.log.checkpoints import MetaProperties
from broker_agent.log.config import LogConfig
from broker_agent.log.file_disk import FileDisk
from broker_agent.log.opening import LoadOptions, open_log_directories
from broker_agent.log.segments import LogDependencies
from cluster.aio.clock import SystemClock
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerId
from cluster.model.compression import CompressionCodec
from cluster.model.partition import TopicPartition
from deploy.local.kafka_jars import NEWEST

TOPIC: Final = "compacted"
TP: Final = TopicPartition(TOPIC, 0)
KLAMM, KAFKA = "klamm", "Kafka"


class Cleaning(Struct, frozen=True):
    """One cleaning, by whom; memory in MB. See the module."""

    by: str
    seconds: float
    cpu_seconds: float
    peak_mb: float
    before_mb: float
    left: Survivors


class Report(Struct, frozen=True):
    """All that was measured; `version` of Kafka, `bytes` of the segments before."""

    machine: str
    size: DataSize
    version: str
    bytes: int
    cleanings: list[Cleaning]


async def clean_once(data: str, segment_bytes: int) -> dict[str, float]:
    """Clean the log in this process, as an agent does; returns the measures, memory in MB."""
    config = LogConfig(cleanup_policy="compact", segment_bytes=segment_bytes, min_cleanable_dirty_ratio=0.01)
    dependencies = LogDependencies(FileDisk(), SystemClock(), Random(0))
    logs = await open_log_directories(
        dependencies,
        [data],
        MetaProperties(BrokerId(1), "benchmark"),
        _raise,
        options=LoadOptions(default_config=config),
    )
    log = logs.get(TP)
    assert log is not None, f"{data} has no {TP}"
    log.set_high_watermark(log.log_end_offset)
    values: dict[str, Any] = {"log_cleaner_io_max_bytes_per_second": 1e15}
    cleaner = LogCleaner(BrokerId(1), logs, Settings(**values), Metrics(), SystemClock())
    await log.flush()
    before_mb, began_s, cpu_s = _peak_mb(), time.perf_counter(), time.process_time()
    assert await cleaner.clean_dirtiest(), "nothing was dirty"
    found = {"seconds": time.perf_counter() - began_s, "cpu_seconds": time.process_time() - cpu_s}
    assert log.first_dirty_offset == log.segments.active.base_offset, "its keys did not fit into the memory for them"
    dependencies.disk.close()
    return {**found, "peak_mb": _peak_mb(), "before_mb": before_mb}


def _raise(directory: str, error: OSError) -> None:
    raise error


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def clean_by_klamm(data: Path, size: DataSize) -> dict[str, float]:
    """Clean the log in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.compaction", "--clean", str(data), str(size.segment_bytes)]
    cleaned = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(cleaned.stdout.splitlines()[-1])
    return found


def measure(folder: Path, size: DataSize, version: str, who: list[str]) -> Report:
    """Make the log, and let each of `who` clean a copy of it."""
    whole = folder / "whole"
    active = write_log(whole, size, _say)
    before = sum(path.stat().st_size for path in whole.glob("*.log"))
    cleanings = []
    for by in who:
        data = folder / by / "data"
        _say(f"{by} cleans {before:,} bytes")
        if by == KLAMM:
            shutil.copytree(whole, data / str(TP))
            found = clean_by_klamm(data, size)
        else:
            stand = CleaningBroker(folder / by, version, TP, size.segment_bytes)
            found = asyncio.run(stand.clean(whole, active))
        cleanings.append(Cleaning(by, left=survivors(data / str(TP), active), **found))
        shutil.rmtree(data)
    return Report(describe_machine(), size, version, before, cleanings)


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 (progress of a command)


def show(report: Report) -> Table:
    """Make the table of a report."""
    size = report.size
    title = f"{size.records:,} records, {size.keys:,} keys, {report.bytes:,} bytes, {size.compression.name.lower()}"
    table = Table("", "s", "CPU s", "MB/s", "peak MB", "before MB", "survivors", "bytes left", title=title)
    table.box = SIMPLE_HEAD
    for cleaning in report.cleanings:
        name = f"Kafka {report.version}" if cleaning.by == KAFKA else cleaning.by
        rate = report.bytes / 1e6 / cleaning.seconds
        figures = (cleaning.seconds, cleaning.cpu_seconds, rate, cleaning.peak_mb, cleaning.before_mb)
        left = cleaning.left.records, cleaning.left.bytes
        table.add_row(name, *(f"{figure:.1f}" for figure in figures), *(f"{number:,}" for number in left))
    return table


def main() -> None:
    """Run the benchmark; exit code 1 if the survivors differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--segment-bytes", type=int, default=100 << 20)
    parser.add_argument("--compression", choices=[codec.name.lower() for codec in CompressionCodec], default="none")
    parser.add_argument("--version", default=NEWEST, help="of Apache Kafka")
    parser.add_argument("--only", choices=[KLAMM, KAFKA])
    parser.add_argument("--data", help="a folder on the disk to measure on")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--clean", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.clean is not None:
        data, segment_bytes = arguments.clean
        print(json.dumps(asyncio.run(clean_once(data, int(segment_bytes)))))  # noqa: T201 (for the process above)
        return
    compression = CompressionCodec[arguments.compression.upper()]
    size = DataSize(arguments.records, arguments.keys, arguments.value_bytes, arguments.segment_bytes, compression)
    who = [KLAMM, KAFKA] if arguments.only is None else [arguments.only]
    with tempfile.TemporaryDirectory(dir=arguments.data) as folder:
        report = measure(Path(folder), size, arguments.version, who)
    if arguments.output == "json":
        print(msgspec.json.encode(report).decode())  # noqa: T201 (the result of a command)
    else:
        Console().print(report.machine, show(report))
    if len({cleaning.left.digest for cleaning in report.cleanings}) > 1:
        sys.exit("the two have left different records")


if __name__ == "__main__":
    main()
