"""Benchmarks the data path on real processes: produce latency and throughput, consume throughput, cost of idle
partitions.

CPU time is that of the processes themselves, so it is valid on a busy machine, too.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from random import Random

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from msgspec import Struct
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from admin.connecting.client import AdminClient
from broker_agent.log.record_batch import walk
from cluster.metrics.quantiles import quantile
from cluster.model.broker import BrokerId, Offset
from cluster.model.compression import CompressionCodec
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.process.local_cluster import BROKER
from cluster.requests.data import FetchPartition, FetchRequest, MetadataRequest, ProducePartition, ProduceRequest
from cluster.requests.topics import NewTopic
from cluster.rpc.client import RpcClient
from cluster.rpc.transport_security import ChannelSecurity
from cluster.tls.live import LiveMaterial
from deploy.local.cluster import LocalCluster

CASES = ("latency", "throughput", "idle")
Results = dict[str, dict[str, float]]
_TICKS = os.sysconf("SC_CLK_TCK")
_TIMEOUT_MS = 30_000


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def encode_batch(records: int, size: int, codec: CompressionCodec = CompressionCodec.NONE) -> bytes:
    """A batch of a client: values of `size` bytes that compress to about half."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=(1 << 31) - 1,
    )
    content = Random(1)
    for offset in range(records):
        builder.append(offset, 0, None, content.randbytes(size // 2) + bytes(size - size // 2), [])
    return bytes(builder.build())


class Clients:
    """Sends requests to partition leaders."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        tls = cluster.client_tls
        self.rpc = RpcClient(security=None if tls is None else ChannelSecurity(LiveMaterial(tls, "client")))
        self._address_of = {member.id: member.address for member in cluster.members(BROKER)}

    async def leaders(self, topic: str) -> dict[int, str]:
        """Address of each partition's leader, once all have one."""
        while True:
            answer = await self.rpc.call(self._address_of[1], MetadataRequest((topic,)), _TIMEOUT_MS)
            partitions = answer.topics[0].partitions
            if partitions and all(p.error_code is ErrorCode.NONE for p in partitions):
                return {p.partition_index: self._address_of[p.leader_id] for p in partitions}
            await asyncio.sleep(0.1)

    async def produce(self, address: str, tp: TopicPartition, batch: bytes, acks: int) -> None:
        item = ProducePartition(tp.topic, tp.partition, batch)
        answer = await self.rpc.call(address, ProduceRequest(acks, _TIMEOUT_MS, (item,)), _TIMEOUT_MS)
        assert answer.partitions[0].error_code is ErrorCode.NONE, answer.partitions[0]

    async def fetch_all(self, address: str, tp: TopicPartition) -> int:
        """Read from the beginning to the high watermark; returns the number of bytes."""
        offset, total = Offset(0), 0
        while True:
            item = FetchPartition(tp.topic, None, tp.partition, offset, 8 << 20)
            request = FetchRequest(BrokerId(-1), (item,), 0, 1, 8 << 20)
            [data] = (await self.rpc.call(address, request, _TIMEOUT_MS)).partitions
            if not data.records:
                return total
            total += len(data.records)
            *_, (_, header) = walk(data.records)
            offset = Offset(header.last_offset + 1)

    def cpu(self) -> float:
        """CPU seconds of all agents so far."""
        return sum(cpu_seconds(m.process.pid) for m in self.cluster.members(BROKER) if m.process is not None)


async def latency(clients: Clients, topic: str, acks: int, count: int) -> dict[str, float]:
    """Measure with one batch of 1 KiB at a time."""
    leaders, batch = await clients.leaders(topic), encode_batch(10, 95)
    tp, took = TopicPartition(topic, 0), []
    cpu = clients.cpu()
    for _ in range(count):
        started = time.perf_counter()
        await clients.produce(leaders[0], tp, batch, acks)
        took.append((time.perf_counter() - started) * 1000)
    took.sort()
    used_ms = (clients.cpu() - cpu) * 1000 / count
    return {
        "p50_ms": round(quantile(took, 0.5), 2),
        "p99_ms": round(quantile(took, 0.99), 2),
        "agents_cpu_ms_per_request": round(used_ms, 2),
    }


async def throughput(
    clients: Clients, topic: str, *, acks: int, codec: CompressionCodec, count: int
) -> dict[str, float]:
    """Send many batches of 100 KB at once, to all partitions in turn; then read all of it."""
    leaders, batch = await clients.leaders(topic), encode_batch(100, 993, codec)
    turns = asyncio.Semaphore(32)

    async def send(number: int) -> None:
        partition = number % len(leaders)
        async with turns:
            await clients.produce(leaders[partition], TopicPartition(topic, partition), batch, acks)

    cpu, started = clients.cpu(), time.perf_counter()
    await asyncio.gather(*(send(number) for number in range(count)))
    produced_s, produced_cpu = time.perf_counter() - started, clients.cpu() - cpu
    cpu, started = clients.cpu(), time.perf_counter()
    sizes = [await clients.fetch_all(address, TopicPartition(topic, p)) for p, address in leaders.items()]
    read_s, read_cpu = time.perf_counter() - started, clients.cpu() - cpu
    mebibytes = sum(sizes) / (1 << 20)
    return {
        "produce_mib_s": round(mebibytes / produced_s, 1),
        "produce_cpu_ms_per_mib": round(produced_cpu * 1000 / mebibytes, 2),
        "consume_mib_s": round(mebibytes / read_s, 1),
        "consume_cpu_ms_per_mib": round(read_cpu * 1000 / mebibytes, 2),
    }


async def idle(clients: Clients, seconds: float) -> dict[str, float]:
    """CPU usage of each agent while nobody writes, in per cent of one core."""
    cpu, started = clients.cpu(), time.perf_counter()
    await asyncio.sleep(seconds)
    agents = len(clients.cluster.members(BROKER))
    return {"cpu_percent_per_agent": round((clients.cpu() - cpu) / (time.perf_counter() - started) / agents * 100, 2)}


class Plan(Struct, frozen=True):
    """Holds what to measure. `codec`: how the batches of `throughput` are compressed; `partitions`: of `idle`."""

    cases: tuple[str, ...] = CASES
    codec: CompressionCodec = CompressionCodec.NONE
    partitions: int = 1000


async def measure(cluster: LocalCluster, plan: Plan) -> Results:
    """Measure on a cluster that serves. Raises PeerUnreachableError if it does not answer."""
    clients, mark = Clients(cluster), f"{time.time_ns() // 1_000_000 % 10_000_000}"
    results: Results = {}
    try:
        async with AdminClient(cluster.bootstrap, tls=cluster.client_tls) as admin:
            bench = _Bench(clients, admin, mark, results)
            await bench.create("one", 1)
            if "latency" in plan.cases:
                for acks in (1, -1):
                    results[f"latency_acks_{acks}"] = await latency(clients, f"one-{mark}", acks, 500)
            if "throughput" in plan.cases:
                await bench.create("six", 6)
                for acks in (1, -1):
                    results[f"throughput_acks_{acks}"] = await throughput(
                        clients, f"six-{mark}", acks=acks, codec=plan.codec, count=1000
                    )
            if "idle" in plan.cases:
                results["idle_before"] = await idle(clients, 10)
                await bench.create("many", plan.partitions)
                await asyncio.sleep(10)
                results[f"idle_{plan.partitions}"] = await idle(clients, 20)
    finally:
        await clients.rpc.close()
    return results


class _Bench:
    """Creates topics of one run, and measures that too."""

    def __init__(self, clients: Clients, admin: AdminClient, mark: str, results: Results) -> None:
        self._clients, self._admin, self._mark, self._results = clients, admin, mark, results

    async def create(self, name: str, partitions: int) -> None:
        started, cpu = time.perf_counter(), self._clients.cpu()
        created = await self._admin.create_topics([NewTopic(f"{name}-{self._mark}", partitions, 3)])
        assert created.topics[0].error_code is ErrorCode.NONE, created
        await self._clients.leaders(f"{name}-{self._mark}")
        self._results[f"create_{partitions}"] = {
            "s": round(time.perf_counter() - started, 2),
            "agents_cpu_s": round(self._clients.cpu() - cpu, 2),
        }


def run(cluster: LocalCluster, plan: Plan, output_json: bool) -> None:
    """Measure and print."""
    results = asyncio.run(measure(cluster, plan))
    if output_json:
        sys.stdout.write(json.dumps(results, indent=2) + "\n")
        return
    table = Table("case", "figure", "value", box=SIMPLE_HEAD)
    for case, figures in results.items():
        for figure, value in figures.items():
            table.add_row(case, figure, f"{value:g}")
    Console().print(table)
