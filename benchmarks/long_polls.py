"""Benchmarks an agent with thousands of long-polling consumers: control requests, produce, memory.

Run as `python -m benchmarks.long_polls --data FOLDER` against a cluster of `klamm up`. The consumers are calls over a
number of connections of several processes, all of the leader of one partition: first they wait, while records are
produced to another partition; then to theirs, so that each record wakes all of them. Control requests are StopReplica
with a stale controller epoch, which change nothing. Nothing else should run on the machine.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from admin.connecting.client import AdminClient
from benchmarks.data_path import Clients, cpu_seconds
from cluster.metrics.quantiles import quantile
from cluster.model.broker import BrokerId, ControllerEpoch, ControllerId
from cluster.model.partition import TopicPartition
from cluster.process.local_cluster import BROKER
from cluster.requests.control import StopReplicaRequest
from cluster.requests.topics import NewTopic
from cluster.rpc.channels import channel_options
from cluster.rpc.client import RpcClient
from deploy.local.cluster import LocalCluster
from klamm.v1 import broker_agent_pb2 as pb
from simulator.record_batches import encode_client_batch

_TIMEOUT_MS = 30_000
_ATTEMPTS, _PAUSE_S = 600, 0.2
_FETCH = "/klamm.v1.BrokerAgentService/Fetch"


async def consume(arguments: argparse.Namespace) -> None:
    """A process of consumers; writes its counts as JSON each second."""
    counts = {"waiting": 0, "answered": 0, "records": 0, "refused": 0, "failed": 0}
    options = channel_options(_TIMEOUT_MS)
    channels = [grpc.aio.insecure_channel(arguments.address, options=options) for _ in range(arguments.connections)]

    async def poll(channel: grpc.aio.Channel) -> None:
        fetch: Any = channel.unary_unary(_FETCH)
        offset = 0
        while True:
            item = pb.FetchPartition(
                topic=arguments.topic, partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
            )
            request = pb.FetchRequest(
                replica_id=-1, max_wait_ms=arguments.max_wait_ms, min_bytes=1, max_bytes=1 << 20, partitions=[item]
            )
            counts["waiting"] += 1
            try:
                [data] = pb.FetchResponse.FromString(await fetch(request.SerializeToString())).partitions
                counts["answered"] += 1
                counts["records"] += bool(data.records)
                offset = data.high_watermark
            except grpc.aio.AioRpcError as error:
                counts["refused" if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED else "failed"] += 1
                await asyncio.sleep(1)
            finally:
                counts["waiting"] -= 1

    polls = []
    for number in range(arguments.consumers):
        polls.append(asyncio.create_task(poll(channels[number % len(channels)])))
        if number % 50 == 0:
            await asyncio.sleep(0.01)
    while True:
        sys.stdout.write(json.dumps(counts) + "\n")
        sys.stdout.flush()
        await asyncio.sleep(1)


class Consumers:
    """Processes with consumers of one partition."""

    def __init__(self, address: str, topic: str, arguments: argparse.Namespace) -> None:
        each = [
            f"--consumers={arguments.consumers // arguments.processes}",
            f"--connections={arguments.connections // arguments.processes}",
            f"--max-wait-ms={arguments.max_wait_ms}",
        ]
        command = [sys.executable, "-m", "benchmarks.long_polls", "--address", address, "--topic", topic, *each]
        self._processes = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            for _ in range(arguments.processes)
        ]
        self.counts: dict[int, dict[str, int]] = {}

    async def follow(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(self._read, number) for number in range(len(self._processes))))

    def _read(self, number: int) -> None:
        output = self._processes[number].stdout
        assert output is not None
        for line in output:
            self.counts[number] = json.loads(line)

    async def until_waiting(self, wanted: int) -> float:
        """Measure the seconds until this many wait; give up after a while."""
        began = time.perf_counter()
        for _ in range(_ATTEMPTS):
            if self.total()["waiting"] >= wanted:
                break
            await asyncio.sleep(_PAUSE_S)
        return round(time.perf_counter() - began, 1)

    def total(self) -> dict[str, int]:
        names = ("waiting", "answered", "records", "refused", "failed")
        return {name: sum(counts[name] for counts in tuple(self.counts.values())) for name in names}

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


class Latencies:
    """Durations of one kind of request."""

    def __init__(self) -> None:
        self.ms: list[float] = []
        self.failed = 0

    def summary(self) -> dict[str, float]:
        ranked = sorted(self.ms) or [0.0]
        quantiles = {f"p{q}_ms": round(quantile(ranked, q / 100), 1) for q in (50, 99)}
        return {"requests": len(self.ms), "failed": self.failed, **quantiles, "max_ms": round(ranked[-1], 1)}


async def control(address: str, found: Latencies, pause_s: float) -> None:
    """Send control requests one after the other until cancelled."""
    request = StopReplicaRequest(ControllerId(1), ControllerEpoch(0))
    async with _Client() as client:
        while True:
            began = time.perf_counter()
            try:
                await client.call(address, request, _TIMEOUT_MS)
                found.ms.append((time.perf_counter() - began) * 1000)
            except Exception:
                found.failed += 1
            await asyncio.sleep(pause_s)


async def produce(clients: Clients, address: str, topic: str, found: Latencies, pause_s: float) -> None:
    """Produce batches of ten records with acks=all one after the other until cancelled."""
    batch = encode_client_batch(bytes(100), 10)
    while True:
        began = time.perf_counter()
        try:
            await clients.produce(address, TopicPartition(topic, 0), batch, -1)
            found.ms.append((time.perf_counter() - began) * 1000)
        except Exception:
            found.failed += 1
        await asyncio.sleep(pause_s)


class _Client(RpcClient):
    async def __aenter__(self) -> "_Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Agent:
    """The agent under load, and the load."""

    def __init__(self, cluster: LocalCluster, seconds: float) -> None:
        self._seconds = seconds
        self.clients = Clients(cluster)
        [self.id, *self.others] = [BrokerId(member.id) for member in cluster.members(BROKER)]
        first = cluster.members(BROKER)[0]
        assert first.process is not None, "the first broker does not run"
        self.pid, self.address = first.process.pid, first.address
        self._control_address = f"127.0.0.1:{first.control_port}"

    async def load(self, topic: str, consumers: Consumers | None = None) -> dict[str, object]:
        """Control requests and produce for a while, with the consumers there are."""
        controls, produces = Latencies(), Latencies()
        before = {} if consumers is None else consumers.total()
        cpu, began = cpu_seconds(self.pid), time.perf_counter()
        tasks = [
            asyncio.ensure_future(control(self._control_address, controls, 0.01)),
            asyncio.ensure_future(produce(self.clients, self.address, topic, produces, 0.01)),
        ]
        await asyncio.sleep(self._seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        took_s = time.perf_counter() - began
        after = {} if consumers is None else consumers.total()
        return {
            "control": controls.summary(),
            "produce": {**produces.summary(), "per_s": round(len(produces.ms) / took_s, 1)},
            "consumers": {name: after[name] - (0 if name == "waiting" else before[name]) for name in after},
            "agent_cpu_percent": round((cpu_seconds(self.pid) - cpu) / took_s * 100, 1),
            "agent_rss_mib": rss_mib(self.pid),
        }


def rss_mib(pid: int) -> int:
    """The resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() >> 20


async def measure(arguments: argparse.Namespace) -> dict[str, object]:
    cluster = LocalCluster.open(arguments.data)
    agent = Agent(cluster, arguments.seconds)
    mark = f"{time.time_ns() // 1_000_000 % 10_000_000}"
    polled, other = f"polled-{mark}", f"other-{mark}"
    async with AdminClient(cluster.bootstrap) as admin:
        replicas = (agent.id, *agent.others)[: arguments.replicas]
        for topic in (polled, other):
            await admin.create_topics([NewTopic(topic, assignments={0: replicas})])
            await agent.clients.leaders(topic)
    results: dict[str, object] = {"before": await agent.load(other)}
    consumers = Consumers(agent.address, polled, arguments)
    following = asyncio.ensure_future(consumers.follow())
    try:
        results["all_waiting_after_s"] = await consumers.until_waiting(arguments.consumers)
        results["waiting"] = await agent.load(other, consumers)
        results["woken"] = await agent.load(polled, consumers)
    finally:
        consumers.end()
        await following
        await agent.clients.rpc.close()
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_polls", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of a running cluster of `klamm up`")
    parser.add_argument("--consumers", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--max-wait-ms", type=int, default=30_000)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.address is not None:
        asyncio.run(consume(given))
        return
    sys.stdout.write(json.dumps(asyncio.run(measure(given)), indent=2) + "\n")


if __name__ == "__main__":
    main()
