"""Benchmarks reads and writes of the cluster state: MultiRead and fenced transactions on a real server.

    python -m benchmarks.zookeeper_throughput [--nodes 100000] [--zookeeper HOST:PORT]

Without an address an embedded server is started in a temporary directory, with fsync on.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from cluster.metrics.registry import Meter, Metrics
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.port import Check, Create, Op, OpResult, SetData
from deploy.local.zookeeper import ServerSettings

STATE = b'{"controller_epoch":17,"leader":1001,"version":1,"leader_epoch":3,"isr":[1001,1002,1003]}'
PARTITIONS_PER_TOPIC = 1000

T = TypeVar("T")


async def measure(name: str, size: int, round_trips: Meter, work: Awaitable[T], cases: list[dict[str, Any]]) -> T:
    """Await `work` and record its duration."""
    trips, start = round_trips.count, time.perf_counter()
    result = await work
    seconds = time.perf_counter() - start
    cases.append(
        {
            "name": name,
            "size": size,
            "median_ms": round(seconds * 1000, 1),
            "per_second": round(size / seconds),
            "round_trips": round_trips.count - trips,
        }
    )
    return result


def partition_paths(nodes: int) -> list[str]:
    return [f"/brokers/topics/t{i // PARTITIONS_PER_TOPIC}/partitions/{i}/state" for i in range(nodes)]


def parents(paths: list[str]) -> list[str]:
    """List all ancestors of the paths, parents before children."""
    found: dict[str, None] = {}
    for path in paths:
        names = path.split("/")
        for depth in range(2, len(names)):
            found["/".join(names[:depth])] = None
    return sorted(found, key=lambda path: path.count("/"))


def batches(ops: list[Op], size: int, fence: Op | None = None) -> list[list[Op]]:
    """Transactions of `size` operations, each with the fence."""
    first = [] if fence is None else [fence]
    return [first + ops[start : start + size] for start in range(0, len(ops), size)]


def expect_success(results: list[list[OpResult] | Exception]) -> None:
    for result in results:
        if isinstance(result, Exception):
            raise result
        assert all(each.ok for each in result), "a benchmark write was refused"


async def run(address: str, znodes: int, max_in_flight: int) -> list[dict[str, Any]]:
    """Create, read and write partition states under a temporary chroot."""
    metrics = Metrics()
    round_trips = metrics.meter("klamm.zookeeper", "Client", "RoundTrips")
    client = KazooZooKeeper(
        f"{address}/throughput",
        session_timeout_ms=30_000,
        connection_timeout_ms=30_000,
        max_in_flight=max_in_flight,
        metrics=metrics,
    )
    client.listen(lambda event: None)
    await client.start_session()
    cases: list[dict[str, Any]] = []
    paths = partition_paths(znodes)
    expect_success(await client.multi_many(batches([Create("/epoch", b"1")], 1)))
    expect_success(await client.multi_many(batches([Create(path) for path in parents(paths)], 250)))
    creates: list[Op] = [Create(path, STATE) for path in paths]
    fence = Check("/epoch", 0)
    writes = client.multi_many(batches(creates, 250, fence))
    expect_success(await measure("create in multis of 1 check + 250", znodes, round_trips, writes, cases))
    for name, watch in (("MultiRead", False), ("MultiRead", False), ("MultiRead with watches", True)):
        read = await measure(name, znodes, round_trips, client.get_many(paths, watch=watch), cases)
        assert all(znode is not None and znode.data == STATE for znode in read), "a node was read wrongly"
    for version, size in enumerate((250, 250, 100, 500)):
        sets: list[Op] = [SetData(path, STATE, version) for path in paths]
        writes = client.multi_many(batches(sets, size, fence))
        expect_success(await measure(f"set in multis of 1 check + {size}", znodes, round_trips, writes, cases))
    await client.close()
    return cases


@contextlib.contextmanager
def server(address: str | None) -> Iterator[str]:
    """The given server, or an embedded one."""
    if address is not None:
        yield address
        return
    with tempfile.TemporaryDirectory() as folder:
        settings = ServerSettings(heap_mb=1024, warms_up=True)
        with EmbeddedZooKeeper(Path(folder), settings=settings) as embedded:
            yield embedded.address


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--max-in-flight", type=int, default=16)
    parser.add_argument("--zookeeper", metavar="HOST:PORT")
    arguments = parser.parse_args()
    with server(arguments.zookeeper) as address:
        cases = asyncio.run(run(address, arguments.nodes, arguments.max_in_flight))
    sys.stdout.write(json.dumps({"cases": cases}, indent=2) + "\n")


if __name__ == "__main__":
    main()
