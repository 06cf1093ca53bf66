"""Brokers of Apache Kafka under klamm while somebody holds thousands of idle connections to the controller."""

import asyncio
import json
import resource
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.messages import topics as wire_topics
from cluster.kafka_wire.messages.topics import CreateTopicsResponse
from cluster.model.broker import Endpoint
from cluster.model.errors import ErrorCode
from tests.kafka.clusters import KafkaCluster
from tests.kafka.tools import tool_command
from tests.processes.commands import run_klamm

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(600)]

KLAMM = 901
IDLE = 5_200
FILES = 20_000
TOPIC = "orders"


@contextmanager
def many_files() -> Iterator[None]:
    """For this process and those that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def create(address: str, topic: str) -> ErrorCode:
    """As a client that was not connected before."""
    host, _, port = address.rpartition(":")
    client = await KafkaConnection.open(Endpoint(host, int(port)), client_id="new", timeout_s=10)
    try:
        new = wire_topics.CreatableTopic(name=topic, num_partitions=6, replication_factor=3)
        request = wire_topics.CreateTopicsRequest(topics=(new,), timeout_ms=20_000)
        answer = await client.call(request, 7, CreateTopicsResponse, timeout_s=30)
        return ErrorCode(answer.topics[0].error_code)
    finally:
        client.close()


class Load:
    """Acknowledged records, and the longest time between two of them."""

    def __init__(self) -> None:
        self.acknowledged, self.gap_s = 0, 0.0

    async def run(self, brokers: str) -> None:
        async with AIOKafkaProducer(bootstrap_servers=brokers, acks="all", request_timeout_ms=20_000) as producer:
            last = time.monotonic()
            while True:
                with suppress(Exception):
                    await producer.send_and_wait(TOPIC, b"x", partition=self.acknowledged % 6)
                    now = time.monotonic()
                    self.acknowledged, self.gap_s, last = self.acknowledged + 1, max(self.gap_s, now - last), now
                await asyncio.sleep(0.02)


@pytest.mark.rule("D-106")
async def test_idle_connections_keep_neither_brokers_nor_clients_away(tmp_path: Path, zookeeper: str) -> None:
    with many_files():
        cluster = KafkaCluster(tmp_path, zookeeper)
        held: list[socket.socket] = []
        loading = asyncio.ensure_future(asyncio.sleep(0))
        try:
            await asyncio.to_thread(cluster.start_brokers, 3)
            cluster.start_candidate(KLAMM)
            adopted = await asyncio.to_thread(run_klamm, "adopt", "--zookeeper", zookeeper, "--execute", "-o", "json")
            assert adopted.returncode == 0, adopted.stdout + adopted.stderr
            assert set(json.loads(adopted.stdout)["took_over"]["obeyed_by"].values()) == {KLAMM}
            assert await create(cluster.controllers[KLAMM], TOPIC) is ErrorCode.NONE
            load = Load()
            loading = asyncio.ensure_future(load.run(",".join(cluster.brokers.values())))
            host, _, port = cluster.controllers[KLAMM].rpartition(":")
            await asyncio.to_thread(hold, held, host, int(port))
            load.gap_s = 0
            began = time.monotonic()
            assert await create(cluster.controllers[KLAMM], "new") is ErrorCode.NONE
            created_s = time.monotonic() - began
            began = time.monotonic()
            await asyncio.to_thread(cluster.stop, "kafka-3")
            stopped_s = time.monotonic() - began
            log = cluster.log("kafka-3")
            described = await asyncio.to_thread(run_tool, cluster, tmp_path)
            loading.cancel()
            print(
                f"{len(held)} idle connections: a new client's topic after {created_s:.2f} s; broker stopped in "
                f"{stopped_s:.1f} s, controlled: {'unclean shutdown' not in log}; {load.acknowledged} acknowledged, "
                f"longest gap {load.gap_s:.2f} s"
            )
            assert "Controlled shutdown request returned successfully" in log
            assert "unclean shutdown" not in log
            assert "Leader: 3" not in described
            assert load.gap_s < 5
            assert created_s < 10
        finally:
            loading.cancel()
            for connection in held:
                connection.close()
            cluster.end()


def hold(held: list[socket.socket], host: str, port: int) -> None:
    """Connections that never send a byte."""
    for _ in range(IDLE):
        with suppress(OSError):
            held.append(socket.create_connection((host, port), timeout=10))


def run_tool(cluster: KafkaCluster, folder: Path) -> str:
    """What kafka-topics describes."""
    command = tool_command(
        cluster.version, "topics", ("--bootstrap-server", cluster.brokers[1], "--describe", "--topic", TOPIC), folder
    )
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
