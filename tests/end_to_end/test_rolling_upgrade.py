"""A rolling upgrade from release 0.2.0, whose processes have one port, while a producer writes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from admin.connecting.client import AdminClient
from admin.consuming.consumer import Consumer
from admin.consuming.offsets import list_offsets
from admin.describing.topology import Topology
from admin.producing.producer import Delivery, Producer
from cluster.aio.clock import SystemClock
from cluster.model.broker import BrokerId
from cluster.model.errors import ClusterError
from cluster.requests.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from cluster.requests.topics import NewTopic
from deploy.local.processes import choose_free_ports
from tests.processes.installations import ROOT
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

RELEASE: Final = "4df5f176eb4a6e9c08939ca8a9b605d25cf2fa6e"
CONTROLLERS: Final = (1001, 1002)
BROKERS: Final = (1, 2, 3)
TOPIC: Final = "orders"
SETTINGS: Final = {
    "zookeeper.session.timeout.ms": 6000,
    "controlled.shutdown.retry.backoff.ms": 200,
    "min.insync.replicas": 2,
    "replica.lag.time.max.ms": 5000,
}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the release, from the history of this one."""
    archive = subprocess.run(["git", "archive", RELEASE], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode != 0:
        pytest.skip(f"this clone does not have the history to {RELEASE}")
    folder = tmp_path_factory.mktemp("release")
    subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    return folder


class Nodes:
    """The processes of one cluster, each of the tree that it was started from."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self._folder, self._zookeeper = folder, zookeeper
        self._ports = dict(zip((*CONTROLLERS, *BROKERS), choose_free_ports(len(CONTROLLERS + BROKERS)), strict=True))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self._ports.values()]

    def start(self, node: int, tree: Path) -> "subprocess.Popen[bytes]":
        fields = {
            "id": node,
            "zookeeper": self._zookeeper,
            "listen": f"127.0.0.1:{self._ports[node]}",
            "data": str(self._folder / str(node)),
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
        lines += ["[settings]", *(f'"{key}" = {value}' for key, value in SETTINGS.items())]
        config = self._folder / f"{node}.toml"
        config.write_text("\n".join(lines))
        module = "controller" if node in CONTROLLERS else "broker_agent"
        with self.log(node).open("ab") as log:
            process = self._processes[node] = subprocess.Popen(
                [sys.executable, "-m", module, "--config", str(config)],
                cwd=tree,
                env={**os.environ, "PYTHONPATH": f"{tree}:{tree / 'proto'}"},
                stderr=log,
            )
        return process

    def log(self, node: int) -> Path:
        return self._folder / f"{node}.log"

    async def stop(self, node: int) -> None:
        """With SIGTERM, as an upgrade does."""
        process = self._processes[node]
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, TIMEOUT_S) == 0, self.log(node).read_text()

    def verify_state_change_logs(self) -> int:
        """Exit code of `klamm audit verify`."""
        logs = [f"--log-dir={self._folder / str(node)}" for node in (*CONTROLLERS, *BROKERS)]
        command = [sys.executable, "-P", "-m", "klamm", "audit", "verify", *logs]
        return subprocess.run(command, check=False).returncode

    def kill_all(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def nodes(tmp_path: Path, zookeeper: str) -> Iterator[Nodes]:
    running = Nodes(tmp_path, zookeeper)
    yield running
    running.kill_all()


async def eventually(condition: Callable[[], Any], what: str) -> None:
    """Poll until the condition holds; while nobody answers, it does not."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                if await condition():
                    return
            except ClusterError as error:
                what = f"{what} ({error})"
            await asyncio.sleep(0.2)


class Cluster:
    """What an operator sees of the cluster, and a producer that never stops."""

    def __init__(self, nodes: Nodes, admin: AdminClient) -> None:
        self.nodes, self.admin = nodes, admin
        self.acknowledged: list[bytes] = []

    async def has_controllers(self) -> bool:
        described = await self.admin.describe_cluster(require_controller=True)
        return {c.id for c in described.controllers} == set(CONTROLLERS)

    async def is_in_sync(self) -> bool:
        described = await self.admin.describe_topics([TOPIC])
        return all(set(p.isr) == set(BROKERS) for topic in described.topics for p in topic.partitions)

    async def replace(self, node: int, tree: Path) -> None:
        """Stop a broker and start it from this tree; wait until it is in every ISR again."""
        await self.nodes.stop(node)
        # Its controlled shutdown has moved leaderships and ISRs away.
        described = await self.admin.describe_topics([TOPIC])
        for partition in described.topics[0].partitions:
            assert partition.leader not in (node, -1)
            assert BrokerId(node) not in partition.isr
        self.nodes.start(node, tree)
        await eventually(self.is_in_sync, f"broker {node} in sync")

    async def replace_controller(self, node: int, tree: Path) -> None:
        await self.nodes.stop(node)
        self.nodes.start(node, tree)
        await eventually(self.has_controllers, f"controller {node} registered")

    @asynccontextmanager
    async def producing(self) -> AsyncIterator[None]:
        def keep(delivery: Delivery) -> None:
            assert delivery.error is None, delivery.error
            self.acknowledged += [value for value in delivery.values if value is not None]

        async def produce(producer: Producer) -> None:
            number = 0
            while True:
                await producer.send(TOPIC, None, b"%d" % number)
                number += 1
                await asyncio.sleep(0.01)

        async with Producer(Topology(self.admin), SystemClock(), on_delivery=keep) as producer:
            endless = asyncio.create_task(produce(producer))
            try:
                yield
            finally:
                endless.cancel()
                await asyncio.wait([endless])

    async def consumed(self) -> set[bytes]:
        topology = Topology(self.admin)
        partitions = await topology.partitions(TOPIC)
        starts, ends = [
            await list_offsets(topology, TOPIC, dict.fromkeys(partitions, at), TIMEOUT_S)
            for at in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        ]
        async with Consumer(topology, TOPIC, starts, until=ends) as consumer:
            return {record.value async for part in consumer.fetched() for record in part.records if record.value}


@asynccontextmanager
async def cluster_of(nodes: Nodes, tree: Path) -> AsyncIterator[Cluster]:
    for node in (*CONTROLLERS, *BROKERS):
        nodes.start(node, tree)
    async with AdminClient(nodes.addresses, timeout_ms=TIMEOUT_S * 1000) as admin:

        async def has_brokers() -> bool:
            return len((await admin.describe_controller()).brokers) == len(BROKERS)

        await eventually(has_brokers, "all brokers known")
        cluster = Cluster(nodes, admin)
        # One controller is enough to serve; SIGTERM would end one that still starts before it handles signals.
        await eventually(cluster.has_controllers, "all controllers registered")
        await admin.create_topics([NewTopic(TOPIC, 6, 3)])
        await eventually(cluster.is_in_sync, "in sync")
        yield cluster


@pytest.mark.rule("LS-3")
async def test_controllers_and_then_brokers_are_upgraded_while_a_producer_writes(nodes: Nodes, release: Path) -> None:
    async with cluster_of(nodes, release) as cluster:
        async with cluster.producing():
            for controller in CONTROLLERS:
                await cluster.replace_controller(controller, ROOT)
            # New controllers with brokers of the release: leadership, shutdown and ISR in both directions.
            await cluster.replace(1, release)
            for broker in BROKERS:
                await cluster.replace(broker, ROOT)
            for controller in CONTROLLERS:
                await cluster.replace_controller(controller, ROOT)
        assert len(cluster.acknowledged) > 100
        assert set(cluster.acknowledged) <= await cluster.consumed()


@pytest.mark.deep
async def test_a_cluster_goes_back_to_the_release_brokers_first_while_a_producer_writes(
    nodes: Nodes, release: Path
) -> None:
    async with cluster_of(nodes, ROOT) as cluster:
        async with cluster.producing():
            for broker in BROKERS:
                await cluster.replace(broker, release)
            for controller in CONTROLLERS:
                await cluster.replace_controller(controller, release)
            # Controllers of the release elect among brokers of the release that have the newer ones' files.
            await cluster.replace(1, release)
        assert len(cluster.acknowledged) > 100
        assert set(cluster.acknowledged) <= await cluster.consumed()
    # Logs that both have written, one after the other, are whole.
    assert nodes.verify_state_change_logs() == 0


@pytest.mark.rule("LS-3")
async def test_a_broker_that_is_upgraded_before_the_controllers_says_so_and_does_not_start(
    nodes: Nodes, release: Path
) -> None:
    async with cluster_of(nodes, release) as cluster:
        await nodes.stop(3)
        process = nodes.start(3, ROOT)
        assert await asyncio.to_thread(process.wait, TIMEOUT_S) != 0
        last = nodes.log(3).read_text().splitlines()[-1]
        assert "upgrade all controllers before the first broker" in last
        nodes.start(3, release)
        await eventually(cluster.is_in_sync, "broker 3 of the release is back")
