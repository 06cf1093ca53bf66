"""A cluster under a low limit of open files: more replicas than descriptors, and more connections than there are left.

The deep suite has ten thousand replicas on each broker under `ulimit -n 1024`.
"""

import asyncio
import os
import resource
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from admin.connecting.client import AdminClient
from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import ErrorCode
from cluster.process.local_cluster import BROKER
from cluster.requests.data import FetchPartition, FetchRequest, MetadataRequest, ProducePartition, ProduceRequest
from cluster.requests.topics import NewTopic
from cluster.rpc.client import RpcClient
from deploy.local.cluster import LocalCluster
from simulator.record_batches import encode_client_batch
from tests.processes.commands import LAUNCHER, klamm
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

TOPIC = "many"
TIMEOUT_MS = int(TIMEOUT_S * 1000)
MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.REQUEST_TIMED_OUT)
AT_A_TIME = 100
"""Partitions in one request."""


@contextmanager
def limited_cluster(folder: Path, limit: int, brokers: int) -> Iterator[LocalCluster]:
    """A cluster whose processes may each have `limit` open files, as `ulimit -n` says in a shell."""
    start_limited(folder, limit, "--controllers", "1", "--brokers", str(brokers))
    try:
        yield LocalCluster.open(folder)
    finally:
        LocalCluster.open(folder).stop_all()


def start_limited(folder: Path, limit: int, *options: str) -> None:
    up = [*LAUNCHER, "up", "--detach", "--data", str(folder), "--timeout", "600", *options]
    subprocess.run(["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(limit), *up], check=True, timeout=600)


def descriptors(cluster: LocalCluster) -> list[int]:
    """Number of open descriptors of each broker; raises if one does not run."""
    return [len(os.listdir(f"/proc/{member.process.pid}/fd")) for member in cluster.members(BROKER) if member.process]


def is_done(code: ErrorCode) -> bool:
    """Whether a partition was served; the other possibility is that its leader moved or that it waits for followers."""
    assert code in {ErrorCode.NONE, *MOVED}, code
    return code is ErrorCode.NONE


class Clients:
    """Produces to every partition and reads it, over connections opened before it gets crowded."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._addresses = {member.id: member.address for member in cluster.members(BROKER)}
        self._rpc = RpcClient()
        self._turns = asyncio.Semaphore(8)
        self.leaders: dict[int, str] = {}
        self.acknowledged = 0
        """Batches of each partition."""

    async def find_leaders(self, count: int) -> None:
        self.leaders = {}
        while len(self.leaders) < count:
            await asyncio.sleep(0.1)
            answer = await self._rpc.call(self._addresses[1], MetadataRequest((TOPIC,)), TIMEOUT_MS)
            led = [p for p in answer.topics[0].partitions if p.error_code is ErrorCode.NONE]
            self.leaders = {p.partition_index: self._addresses[p.leader_id] for p in led}

    async def in_each(self, work: Callable[[list[int], str], Awaitable[set[int]]]) -> None:
        """Do the work for all partitions, some of one leader at a time, and again for those that it returns: on a busy
        machine sessions expire, and leaders move.
        """
        left = set(self.leaders)
        while left := await self._in_each_of(left, work):
            await self.find_leaders(len(self.leaders))

    async def _in_each_of(self, wanted: set[int], work: Callable[[list[int], str], Awaitable[set[int]]]) -> set[int]:
        async def take_turn(partitions: list[int], address: str) -> set[int]:
            async with self._turns:
                return await work(partitions, address)

        by_leader: dict[str, list[int]] = {}
        for partition in sorted(wanted):
            by_leader.setdefault(self.leaders[partition], []).append(partition)
        shares = [
            (partitions[start : start + AT_A_TIME], address)
            for address, partitions in by_leader.items()
            for start in range(0, len(partitions), AT_A_TIME)
        ]
        return set().union(*await asyncio.gather(*(take_turn(*share) for share in shares)))

    async def produce(self) -> None:
        batch = encode_client_batch(b"r" * 100, 10)

        async def send(partitions: list[int], address: str) -> set[int]:
            items = tuple(ProducePartition(TOPIC, partition, batch) for partition in partitions)
            answer = await self._rpc.call(address, ProduceRequest(-1, TIMEOUT_MS, items), TIMEOUT_MS)
            return {result.partition for result in answer.partitions if not is_done(result.error_code)}

        await self.in_each(send)
        self.acknowledged += 1

    async def read(self) -> None:
        async def fetch(partitions: list[int], address: str) -> set[int]:
            moved: set[int] = set()
            for number in range(self.acknowledged):
                items = tuple(FetchPartition(TOPIC, None, p, Offset(10 * number), 1 << 20) for p in partitions)
                request = FetchRequest(BrokerId(-1), items, 0, 1, 50 << 20)
                answer = await self._rpc.call(address, request, TIMEOUT_MS)
                assert len(answer.partitions) == len(partitions)
                moved |= {data.partition for data in answer.partitions if not is_done(data.error_code)}
                assert all(data.records for data in answer.partitions if data.partition not in moved), answer
            return moved

        await self.in_each(fetch)

    async def close(self) -> None:
        await self._rpc.close()


async def create(cluster: LocalCluster, partitions: int, replicas: int) -> None:
    # Each batch begins a segment.
    small = {"segment.bytes": "2000"}
    async with AdminClient(cluster.bootstrap) as admin:
        created = await admin.create_topics([NewTopic(TOPIC, partitions, replicas, configs=small)])
    assert created.topics[0].error_code is ErrorCode.NONE, created


async def serve_many(folder: Path, limit: int, *, brokers: int, partitions: int) -> None:
    """More replicas on each broker than it may have open files, over a restart."""
    with limited_cluster(folder, limit, brokers) as cluster:
        await create(cluster, partitions, brokers)
        clients = Clients(cluster)
        await clients.find_leaders(partitions)
        await clients.produce()
        await clients.read()
        assert all(count < limit for count in descriptors(cluster))
        await clients.close()
        klamm(folder, "down")
        start_limited(folder, limit)
        restarted = Clients(LocalCluster.open(folder))
        await restarted.find_leaders(partitions)
        restarted.acknowledged = clients.acknowledged
        await restarted.produce()
        await restarted.read()
        await restarted.close()
        assert len(descriptors(LocalCluster.open(folder))) == brokers
        klamm(folder, "cluster", "describe")


@pytest.mark.rule("FD-3", "FD-5")
async def test_more_replicas_than_descriptors_are_served_over_a_restart(tmp_path: Path) -> None:
    await serve_many(tmp_path / "cluster", 300, brokers=1, partitions=400)


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.rule("FD-3", "FD-5")
async def test_ten_thousand_replicas_on_each_broker_are_served_with_1024_descriptors(tmp_path: Path) -> None:
    await serve_many(tmp_path / "cluster", 1024, brokers=3, partitions=10_000)


@pytest.mark.rule("FD-1", "FD-3")
async def test_a_broker_whose_descriptors_are_taken_by_connections_goes_on(tmp_path: Path) -> None:
    with limited_cluster(tmp_path / "cluster", 300, 1) as cluster:
        await create(cluster, 20, 1)
        clients = Clients(cluster)
        await clients.find_leaders(20)
        await clients.produce()
        [broker] = cluster.members(BROKER)
        host, _, port = broker.address.rpartition(":")
        with ExitStack() as crowd:
            _allow_connections()
            with suppress(TimeoutError):
                for _ in range(400):
                    crowd.enter_context(socket.create_connection((host, int(port)), timeout=1))
            for _ in range(3):
                # Connections beyond their share are closed at once: others never need the last descriptors.
                assert descriptors(cluster)[0] < 290
                await clients.produce()
                await clients.read()
        await clients.close()
        # When the crowd has left others are let in again, and no log directory has failed.
        again = Clients(cluster)
        await again.find_leaders(20)
        again.acknowledged = clients.acknowledged
        await again.produce()
        await again.read()
        await again.close()
        assert len(descriptors(cluster)) == 1
        log = "".join(path.read_text() for path in (tmp_path / "cluster").rglob("broker-1*.log"))
        assert "The limit of open files is low" in log
        assert "Log directory failed" not in log


def _allow_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1000, hard), hard))
