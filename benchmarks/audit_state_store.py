"""Benchmarks what it would cost to keep the audit's state in Spark's state store: only to carry it, without any rule.

Run as `python -m benchmarks.audit_state_store [--mb N…] [--batches N]`. The state of a bucket, random bytes here, is
the value of a group of `applyInPandasWithState`; each batch takes every value out, changes its end and puts it back, as
a batch of the audit touches every bucket. Nothing else should run on the machine.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pandas
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as spark_functions
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from audit.spark.session import start_session
from audit.spark.settings import SparkSettings
from benchmarks.audit_throughput import used_below
from deploy.local.java import find_java, spark_environment

_BUCKETS: Final = 4
_PROVIDERS: Final = {
    "memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}


def carry(
    key: tuple[Any, ...], frames: Iterator[pandas.DataFrame], state: GroupState, size: int
) -> Iterator[pandas.DataFrame]:
    """Take a value out, change its end, and put it back."""
    rows = sum(len(frame) for frame in frames)
    (value,) = state.get if state.exists else (Random(int(key[0])).randbytes(size),)
    state.update((value[:-8] + rows.to_bytes(8, "big"),))
    yield pandas.DataFrame({"bucket": [key[0]], "rows": [rows]})


def measure(spark: SparkSession, folder: Path, provider: str, megabytes: int, batches: int) -> tuple[float, float]:
    """Seconds and CPU seconds of a batch, without the first."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _PROVIDERS[provider])
    size = (megabytes << 20) // _BUCKETS
    points: list[tuple[float, float]] = []

    def done(frame: DataFrame, _: int) -> None:
        frame.collect()
        points.append((time.monotonic(), sum(used_below(os.getpid()).cpu.values())))

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).load()
    grouped = rows.select((spark_functions.col("value") % _BUCKETS).alias("bucket")).groupBy("bucket")

    def carried(key: Any, frames: Any, state: GroupState) -> Iterator[pandas.DataFrame]:
        return carry(key, frames, state, size)

    result = grouped.applyInPandasWithState(
        carried, "bucket long, rows long", "value binary", "update", GroupStateTimeout.NoTimeout
    )
    writer = result.writeStream.outputMode("update").foreachBatch(done)
    query = writer.option("checkpointLocation", str(folder / f"{provider}-{megabytes}")).start()
    try:
        while len(points) < batches + 1:
            if query.awaitTermination(1):
                break
    finally:
        query.stop()
    (first_s, first_cpu), (last_s, last_cpu) = points[0], points[-1]
    return (last_s - first_s) / (len(points) - 1), (last_cpu - first_cpu) / (len(points) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_state_store", description=__doc__)
    parser.add_argument("--mb", type=int, nargs="+", default=[16, 64, 256], help="size of the state")
    parser.add_argument("--batches", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.environ.update(spark_environment(find_java(), Path(name)))
        spark = start_session(Path(name), SparkSettings(memory="4g"))
        try:
            for provider in _PROVIDERS:
                for megabytes in given.mb:
                    seconds, cpu = measure(spark, Path(name), provider, megabytes, given.batches)
                    print(f"{provider:8} {megabytes:5} MB: {seconds:6.2f} s, {cpu:6.2f} CPU s a batch", flush=True)  # noqa: T201
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
