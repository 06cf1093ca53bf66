"""Records scenarios on Apache Kafka with an older protocol version: `python -m tests.recorded.record 2.6 NAME…`.

The traces go to `golden_of_<protocol>/`. What varied in the recordings at the version of the jars is not compared
there either: `unstable` is taken from these.
"""

import asyncio
import itertools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from deploy.local.kafka_jars import NEWEST
from tests.recorded.compare import GoldenTrace, as_golden, golden_of, load_golden
from tests.recorded.engine import replay
from tests.recorded.kafka_cluster import KafkaVersion, kafka_cluster
from tests.recorded.scenario import load


async def record(name: str, version: KafkaVersion, zookeeper: str) -> GoldenTrace:
    """Run a scenario on brokers of Apache Kafka under their own controllers."""
    scenario = load(name)
    with tempfile.TemporaryDirectory() as folder:
        async with kafka_cluster(scenario, zookeeper, Path(folder), version, klamm=False) as cluster:
            return as_golden(load_golden(name), f"kafka-{version}", await replay(scenario, cluster, print))


def main(protocol: str, names: Sequence[str]) -> None:
    version, chroots = KafkaVersion(NEWEST, protocol), itertools.count()
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder)) as server:
        for name in names:
            trace = asyncio.run(record(name, version, f"{server.address}/recorded-{next(chroots)}"))
            path = golden_of(protocol) / f"{name}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(msgspec.json.format(msgspec.json.encode(trace), indent=1) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
