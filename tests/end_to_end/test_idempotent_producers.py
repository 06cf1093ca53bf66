"""Brokers die and hang under an idempotent producer: each record is stored once, in the order in which it was sent."""

import asyncio
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from admin.connecting.client import AdminClient
from admin.describing.topology import Topology
from admin.producing.accumulator import ProducerOptions
from admin.producing.produce_load import ProduceLoad, ProduceMeasures, ProducePlan
from cluster.aio.clock import SystemClock
from cluster.process.local_cluster import BROKER
from deploy.local.cluster import LocalCluster
from launcher.serving import wait_until_serving
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, partitions, serving_cluster
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

TOPIC = "numbers"
RECORDS = 40_000
PER_SECOND = 2_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with serving_cluster(tmp_path_factory.mktemp("cluster") / "c", controllers=1, brokers=3) as running:
        options = ("--partitions", "3", "--replication-factor", "3", "--config", "min.insync.replicas=2")
        klamm(running, "topics", "create", TOPIC, *options)
        yield running


def leader(cluster: LocalCluster) -> int:
    """Of the first partition, once it has one."""
    eventually(lambda: partitions(cluster, TOPIC)[0]["leader"] >= 0, "partition 0 has a leader")
    found: int = partitions(cluster, TOPIC)[0]["leader"]
    return found


def pid_of(cluster: LocalCluster, broker: int) -> int:
    found: int = next(b["pid"] for b in as_json(cluster, "status", codes=(0, 3))["brokers"] if b["id"] == broker)
    return found


def kill_and_restart(cluster: LocalCluster) -> None:
    victim = leader(cluster)
    cluster.kill(f"{BROKER}-{victim}")
    eventually(lambda: partitions(cluster, TOPIC)[0]["leader"] not in (victim, -1), "another broker leads")
    cluster.start(f"{BROKER}-{victim}")
    wait_until_serving(cluster, TIMEOUT_S)
    eventually(lambda: all(len(p["isr"]) == 3 for p in partitions(cluster, TOPIC)), "all replicas are in sync")


def hang(cluster: LocalCluster) -> None:
    victim = leader(cluster)
    pid = pid_of(cluster, victim)
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: partitions(cluster, TOPIC)[0]["leader"] not in (victim, -1), "another broker leads")
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: all(len(p["isr"]) == 3 for p in partitions(cluster, TOPIC)), "all replicas are in sync")


def end(cluster: LocalCluster) -> int:
    """The number of records that consumers can read."""
    offsets = as_json(cluster, "topics", "offsets", TOPIC)["partitions"]
    return sum(found["end_offset"] or 0 for found in offsets)


async def produce(addresses: list[str]) -> ProduceMeasures:
    plan = ProducePlan(
        topic=TOPIC,
        records=RECORDS,
        record_size=100,
        throughput=PER_SECOND,
        is_verified=True,
        options=ProducerOptions(batch_size=2_000, request_timeout_ms=3_000),
    )
    async with AdminClient(addresses, timeout_ms=TIMEOUT_S * 1000) as client:
        return await ProduceLoad(Topology(client), SystemClock(), plan, lambda _: None).run()


@pytest.mark.rule("R7.21", "P34")
def test_records_are_stored_once_and_in_order_while_their_leaders_are_killed_and_hang(cluster: LocalCluster) -> None:
    with ThreadPoolExecutor(1) as elsewhere:
        running = elsewhere.submit(lambda: asyncio.run(produce(cluster.bootstrap)))
        eventually(lambda: end(cluster) > 0, "records are stored")
        kill_and_restart(cluster)
        hang(cluster)
        measures = running.result()
    assert measures.idempotent
    assert (measures.records, measures.failed) == (RECORDS, 0)
    assert measures.batches_retried > 0, "the faults came while records were on their way"
    assert measures.verified is not None
    assert (measures.verified.anomalies, measures.verified.duplicates) == ({}, 0)
