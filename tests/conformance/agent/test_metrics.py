"""Metrics of partitions and logs: their names, and when they are registered and removed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from broker_agent.agent_metrics import IDLE, AgentMetrics, PartitionStatus
from broker_agent.log.checkpoints import CLEAN_MARKER
from broker_agent.log.config import LogConfig
from broker_agent.log.log_metrics import LogMetrics
from broker_agent.log.opening import open_log_directories
from broker_agent.log.record_batch import parse_header
from broker_agent.log.segments import LogDependencies
from broker_agent.replica_changes import ReplicaOffline
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from cluster.model.errors import StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.data import FetchPartition, FetchRequest, ProducePartition, ProduceRequest
from simulator.gauge_recount import check_agent_gauges, recount_agent, recount_waiting
from simulator.record_batches import encode_client_batch
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, until, virtually
from tests.contract.log_worlds import OWNER, FileWorld, InMemoryWorld, Node, TestClock, batch, fill

OF_PARTITION = f'{{partition="0",topic="{TOPIC}"}}'
PARTITION_NAMES = (
    "underreplicated",
    "underminisr",
    "atminisr",
    "insyncreplicascount",
    "replicascount",
    "laststableoffsetlag",
)


def scrape(metrics: Metrics) -> dict[str, float]:
    """Every sample by its name with labels, as a Prometheus server would see it."""
    registry = CollectorRegistry()
    registry.register(metrics)
    lines = generate_latest(registry).decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def of_partition(metrics: Metrics) -> dict[str, float]:
    samples = scrape(metrics)
    names = (f"kafka_cluster_partition_{name}" for name in PARTITION_NAMES)
    return {name: samples[name + OF_PARTITION] for name in names if name + OF_PARTITION in samples}


@virtually
async def test_gauges_of_a_partition_are_there_while_it_is_hosted_and_zero_on_followers() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    assert of_partition(world.agents[2].metrics) == {}
    await world.create(1, (1,), replicas=(1, 2))
    assert list(of_partition(world.agents[1].metrics).values()) == [1, 0, 1, 1, 2, 0]
    assert list(of_partition(world.agents[2].metrics).values()) == [0] * 6
    await world.stop_replica(1, delete=True, epoch=-2)
    assert of_partition(world.agents[1].metrics) == {}
    await world.stop()


@virtually
async def test_logs_show_their_offsets_and_sizes_until_they_are_deleted() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, (1,))
    process = world.agents[1]
    await process.produce(5)
    log = process.partition().log
    assert log is not None
    log.raise_log_start_offset(Offset(2))
    samples = scrape(process.metrics)
    names = ("numlogsegments", "logstartoffset", "logendoffset")
    assert [samples[f"kafka_log_log_{name}{OF_PARTITION}"] for name in names] == [1, 2, 5]
    assert samples[f"kafka_log_log_size{OF_PARTITION}"] > 61
    await world.stop_replica(1, delete=True, epoch=-2)
    assert not [name for name in scrape(process.metrics) if name.startswith("kafka_log_log_")]
    await world.stop()


def last_offsets(content: bytes) -> Iterator[int]:
    """Of each batch in a segment."""
    position = 0
    while position < len(content):
        header = parse_header(content, position)
        yield header.last_offset
        position += header.size


@pytest.mark.rule("FD-7")
async def test_gauges_of_a_log_equal_a_recount_of_its_files(tmp_path: Path) -> None:
    metrics, tp = Metrics(), TopicPartition(TOPIC, 0)
    dependencies = LogDependencies(
        FileWorld().new_disk(), TestClock(), Random(1), LogMetrics(metrics, per_partition=True)
    )
    logs = await open_log_directories(dependencies, [str(tmp_path)], OWNER, lambda *_: None)
    config = LogConfig(segment_bytes=400, retention_bytes=500, file_delete_delay_ms=0)
    log = await logs.get_or_create(tp, topic_id=None, is_new=True, config=config)

    def recounted() -> dict[str, float]:
        files = sorted((tmp_path / f"{TOPIC}-0").glob("*.log"))
        last = max(offset for path in files for offset in last_offsets(path.read_bytes()))
        return {
            "numlogsegments": len(files),
            "size": sum(path.stat().st_size for path in files),
            "logstartoffset": max(int(files[0].stem), deleted_below),
            "logendoffset": last + 1,
        }

    def exposed() -> dict[str, float]:
        samples = scrape(metrics)
        return {name: samples[f"kafka_log_log_{name}{OF_PARTITION}"] for name in recounted()}

    deleted_below = 0
    for _ in range(12):
        fill(log, 1)
    assert exposed() == recounted()
    assert recounted()["numlogsegments"] > 2
    log.truncate_to(Offset(100))
    assert exposed() == recounted()
    log.set_high_watermark(Offset(100))
    deleted_below = 33
    log.raise_log_start_offset(Offset(33))
    assert exposed() == recounted()
    assert log.enforce_retention(2_000_000) > 0
    await logs.flush_due()
    assert exposed() == recounted()
    await logs.close(BrokerEpoch(1))


@virtually
async def test_known_producers_and_expired_acknowledgements_are_counted() -> None:
    world = AgentWorld()
    await world.start(1)
    process = world.agents[1]
    world.decide(1, (1, 2))
    await world.update_metadata()
    await world.tell(1)
    for producer_id in (7, 8, 7):
        records = encode_client_batch(b"r", 1, producer_id=producer_id, producer_epoch=0, base_sequence=0)
        await process.handle(ProduceRequest(-1, 50, (ProducePartition(TOPIC, 0, records),)))
    samples = scrape(process.metrics)
    assert samples["kafka_server_replicamanager_produceridcount"] == 2
    assert samples["kafka_server_delayedproducemetrics_expirespersec_total"] == 3
    assert samples[f"kafka_server_delayedproducemetrics_expirespersec_total{OF_PARTITION}"] == 3
    await world.stop_replica(1, delete=True, epoch=-2)
    assert f"kafka_server_delayedproducemetrics_expirespersec_total{OF_PARTITION}" not in scrape(process.metrics)
    await world.stop()


async def test_producers_are_counted_while_their_log_is_open() -> None:
    world = InMemoryWorld()
    node = Node(world, "/one", "/two", "/three")
    await node.start()
    deleted, failed, closed = [await node.log(tp=TopicPartition("t", number)) for number in range(3)]
    for producer_id in (7, 8):
        for log in (deleted, failed, closed):
            records = batch(producer_id=producer_id, producer_epoch=0, base_sequence=0)
            log.append_as_leader(records, LeaderEpoch(0), 1_000_000)
    counted = [node.metrics.producer_ids.value]
    await node.logs.delete([deleted.topic_partition])
    counted.append(node.metrics.producer_ids.value)
    world.disk.break_directory(failed.directory)
    await node.logs.flush_due()
    with pytest.raises(StorageError):
        fill(failed, 1)
    counted.append(node.metrics.producer_ids.value)
    await node.stop()
    assert [*counted, node.metrics.producer_ids.value] == [6, 4, 2, 0]


@virtually
async def test_each_log_directory_tells_whether_it_is_offline() -> None:
    world = AgentWorld()
    process = world.agents[1] = AgentProcess(world, BrokerId(1))
    await process.start("/one", "/two")
    name = "kafka_log_logmanager_logdirectoryoffline"
    offline = [scrape(process.metrics)[f'{name}{{logDirectory="{path}"}}'] for path in ("/one", "/two")]
    assert offline == [0, 0]
    await world.create(1, (1,))
    log = process.partition().log
    assert log is not None
    process.disk.break_directory(log.directory)
    await process.produce(1)
    await asyncio.sleep(0.1)
    samples = scrape(process.metrics)
    assert samples[f'{name}{{logDirectory="{log.directory}"}}'] == 1
    assert samples["kafka_log_logmanager_offlinelogdirectorycount"] == 1
    assert not [sample for sample in samples if sample.startswith("kafka_log_log_")]
    assert process.agent.manager.is_offline(TP)
    await world.stop()


async def test_fsyncs_are_timed_and_a_recovery_tells_how_far_it_is(tmp_path: Path) -> None:
    node = Node(FileWorld(), str(tmp_path))
    await node.start()
    for number in range(3):
        fill(await node.log(tp=TopicPartition("t", number)), 1)
    await node.stop()
    # As after a crash: what was closed in order is loaded many logs at a time.
    (tmp_path / CLEAN_MARKER).unlink()
    metrics = Metrics()
    dependencies = LogDependencies(
        FileWorld().new_disk(), TestClock(), Random(1), LogMetrics(metrics, per_partition=True)
    )
    opening = asyncio.ensure_future(open_log_directories(dependencies, [str(tmp_path)], OWNER, lambda *_: None))
    logs_left, seen = f'kafka_log_logmanager_remaininglogstorecover{{dir="{tmp_path}"}}', set[float]()
    while not opening.done():
        seen.add(scrape(metrics).get(logs_left, 3))
        await asyncio.sleep(0)
    logs = await opening
    assert seen >= {3, 2, 1}
    samples = scrape(metrics)
    # They are there while a recovery goes on, and say nothing of a broker that has none.
    assert not [name for name in samples if "torecover" in name]
    assert samples["kafka_log_logflushstats_logflushrateandtimems_count"] == 0
    for log in logs.all_logs().values():
        fill(log, 2)
        await log.flush()
    assert scrape(metrics)["kafka_log_logflushstats_logflushrateandtimems_count"] == 3


@pytest.mark.rule("FD-7")
@virtually
async def test_gauges_of_a_broker_equal_a_recount_through_roles_failures_and_deletions() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    agent = world.agents[1].agent
    await world.create(1, (1,), replicas=(1, 2))
    check_agent_gauges(agent)
    assert recount_agent(agent)["UnderReplicatedPartitions"] == 1
    await world.agents[1].produce(3)
    check_agent_gauges(agent)
    fetch = FetchRequest(BrokerId(-1), (FetchPartition(TOPIC, None, 0, Offset(3), 1_000_000),), 60_000, 1, 1_000_000)
    waiting = [asyncio.ensure_future(world.agents[1].handle(fetch)) for _ in range(3)]
    await until(lambda: recount_waiting(agent)["Fetch"]["NumDelayedOperations"] == 3)
    check_agent_gauges(agent)
    await world.agents[1].produce(1)
    await asyncio.gather(*waiting)
    assert recount_waiting(agent)["Fetch"]["NumDelayedOperations"] == 0
    check_agent_gauges(agent)
    agent.manager.commit(ReplicaOffline(TP))
    check_agent_gauges(agent)
    assert recount_agent(agent) == dict.fromkeys(recount_agent(agent), 0) | {
        "PartitionCount": 1,
        "OfflineReplicaCount": 1,
    }
    await world.stop()


@pytest.mark.rule("FD-7")
@pytest.mark.parametrize("per_partition", [False, True])
def test_the_size_of_a_scrape_depends_on_partitions_only_if_they_are_exposed(per_partition: bool) -> None:
    def size(partitions: int) -> int:
        metrics = Metrics()
        agent = AgentMetrics(metrics, per_partition=per_partition)
        for number in range(partitions):
            tp = TopicPartition(TOPIC, number)
            agent.add_partition(tp)
            agent.change_status(tp, IDLE, PartitionStatus(leads=True, replicas=3))
            agent.record_expired_produces([tp])
        return len(scrape(metrics))

    assert (size(1000) > size(1)) == per_partition
