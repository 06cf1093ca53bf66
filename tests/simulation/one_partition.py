"""A simulated cluster with one partition, its leader on broker 1, and what may happen to the replicas of it."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from broker_agent.log.record_batch import parse_header, walk
from cluster.config.settings import Settings
from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import DescribeFindingsRequest, DescribeFindingsResponse, Finding
from cluster.requests.data import ProducePartition, ProduceRequest, ProduceResponse
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from simulator.cluster import SimulatedCluster, simulate
from simulator.nodes import LOG_DIRECTORY, SimulatedAgent, SimulatedController
from simulator.record_batches import encode_client_batch
from simulator.replication_checker import ReplicationChecker
from simulator.virtual_time_loop import virtual_loop
from state_log.record import Kind, LoggedStateChange

TP = TopicPartition("orders", 0)


class OnePartition:
    """A cluster with one partition on brokers 1 to `brokers`, led by broker 1, with ten acknowledged batches."""

    def __init__(self, *, seed: int = 1, brokers: int = 2, controllers: int = 1, **settings: Any) -> None:
        values = {
            "zookeeper_session_timeout_ms": 2000,
            "replica_lag_time_max_ms": 1500,
            "replica_fetch_backoff_ms": 100,
            "replica_socket_timeout_ms": 1000,
            "request_timeout_ms": 1000,
            "log_flush_interval_ms": 100,
            "replica_high_watermark_checkpoint_interval_ms": 500,
            "log_flush_offset_checkpoint_interval_ms": 500,
            "klamm_log_scrub_bytes_per_second": 0,
            "auto_leader_rebalance_enable": False,
            **settings,
        }
        self.cluster = SimulatedCluster(seed, controllers=controllers, brokers=brokers, settings=Settings(**values))
        self.checker = ReplicationChecker(self.cluster, TP)
        self.ids = tuple(self.cluster.agents)

    def agent(self, broker: int) -> SimulatedAgent:
        return self.cluster.agents[BrokerId(broker)]

    @property
    def controller(self) -> SimulatedController:
        active = self.cluster.active_controller()
        assert active is not None
        return active

    @property
    def leader(self) -> int:
        return -1 if self.checker.state is None else self.checker.state.leader

    @property
    def isr(self) -> set[int]:
        return set() if self.checker.state is None else set(self.checker.state.isr)

    async def start(self) -> None:
        cluster, ids = self.cluster, self.cluster.zookeeper.tree.children
        cluster.start_all()
        await cluster.until(
            lambda: len(ids("/brokers/ids") or ()) == len(self.ids) and cluster.active_controller() is not None, "start"
        )
        topic = NewTopic(TP.topic, assignments={0: self.ids})
        await cluster.network.call("client", self.controller.address, CreateTopicsRequest((topic,)))
        virtual_loop().after_step = self.checker.observe
        await cluster.until(lambda: self.leader == 1 and self.isr == set(self.ids), "all in sync")
        for number in range(10):
            await self.produce(number)
        await asyncio.sleep(3)

    async def produce(self, number: int) -> None:
        records = encode_client_batch(b"%08d" % number, timestamp=self.cluster.clock.now_ms())
        crc = parse_header(records).crc
        self.checker.sent.add(crc)
        request = ProduceRequest(-1, 3000, (ProducePartition(TP.topic, TP.partition, records),))
        address = self.agent(self.controller.context.leaderships.known[TP].leader).address
        answer = await self.cluster.network.call("client", address, request)
        assert isinstance(answer, ProduceResponse)
        assert answer.partitions[0].error_code is ErrorCode.NONE
        if virtual_loop().after_step is not None:
            self.checker.add_acknowledged(answer.partitions[0].base_offset, crc)

    def content(self, broker: int) -> bytes:
        """All stored batches of the replica."""
        disk, folder = self.agent(broker).disk, f"{LOG_DIRECTORY}/{TP}"
        names = [name for name in disk.list_directory(folder) if name.endswith(".log")]
        return b"".join(disk.read_file(f"{folder}/{name}") or b"" for name in names)

    def isr_now(self) -> tuple[BrokerId, ...]:
        return self.controller.context.leaderships.known[TP].isr

    async def crash(self, *brokers: int) -> None:
        """Kill them, one after another, and wait until their sessions have expired."""
        for broker in brokers:
            self.agent(broker).crash()
            self.checker.process_ended(self.agent(broker), power_failed=True)
            await self.until(lambda: not self.agent(broker).is_registered, f"broker {broker} is gone")  # noqa: B023
            await asyncio.sleep(1)

    async def lose_power(self, *brokers: int) -> None:
        """The power of their machines fails, each of which loses records; their sessions expire."""
        for broker in brokers:
            before = self.content(broker)
            self.agent(broker).lose_power()
            self.checker.process_ended(self.agent(broker), power_failed=True)
            assert len(self.content(broker)) < len(before), "nothing was lost: take another seed"
            await self.until(lambda: not self.agent(broker).is_registered, f"broker {broker} is gone")  # noqa: B023

    def active_crash(self) -> None:
        """Kill the active controller, if there is one."""
        active = self.cluster.active_controller()
        if active is not None:
            active.crash()

    async def restart_all(self, chance: Random) -> None:
        """Start what does not run, in any order, as soon as its registration has gone; some then lose a controller."""
        await self._start_all(chance)
        if chance.random() < 0.5:
            await asyncio.sleep(chance.choice((0.2, 1, 3)))
            self.active_crash()
            await self._start_all(chance)

    async def _start_all(self, chance: Random) -> None:
        nodes = [node for node in self.cluster.nodes if not node.is_running]
        chance.shuffle(nodes)
        for node in nodes:
            await self.until(lambda node=node: not node.is_registered, f"{node.name} is gone")  # type: ignore[misc]
            node.start()
            await asyncio.sleep(chance.choice((0, 0.3, 3)))

    def flip(self, broker: int, position: float) -> None:
        """Change a byte of the oldest segment, at this share of its size, under a process that may be running."""
        disk = self.agent(broker).disk
        folder = f"{LOG_DIRECTORY}/{TP}"
        name = next(name for name in disk.list_directory(folder) if name.endswith(".log"))
        disk.flip_byte(f"{folder}/{name}", position)

    def flip_records(self, broker: int, chance: Random) -> None:
        """Change the last byte of a batch in the newest segment, all of which the next start verifies."""
        disk, folder = self.agent(broker).disk, f"{LOG_DIRECTORY}/{TP}"
        contents = {name: disk.read_file(f"{folder}/{name}") for name in disk.list_directory(folder)}
        newest = max(name for name, content in contents.items() if name.endswith(".log") and content)
        content = contents[newest]
        assert content is not None
        position, header = chance.choice(list(walk(content)))
        disk.flip_byte(f"{folder}/{newest}", (position + header.size - 0.5) / len(content))

    def end(self, broker: int) -> int:
        hosted = self.agent(broker).hosted(TP)
        return -1 if hosted is None or hosted.log is None else hosted.log.log_end_offset

    def registration(self, broker: int) -> bytes:
        znode = self.cluster.zookeeper.tree.get(f"/brokers/ids/{broker}")
        assert znode is not None
        return znode.data

    async def until(self, condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
        await self.cluster.until(condition, what, timeout_s)

    async def findings(self, node: SimulatedAgent | SimulatedController) -> list[Finding]:
        answer = await self.cluster.network.call("client", node.address, DescribeFindingsRequest())
        assert isinstance(answer, DescribeFindingsResponse)
        return list(answer.findings)

    def records(self, kind: Kind) -> list[LoggedStateChange]:
        return [record for record in self.cluster.records() if record.kind is kind]

    async def converged(self) -> None:
        await self.until(lambda: self.isr == set(self.ids), "all in sync again")
        await asyncio.sleep(2)
        self.checker.check_end(self.ids)


def run(one: OnePartition, test: Callable[[OnePartition], Awaitable[None]]) -> None:
    async def main() -> None:
        await one.start()
        await test(one)

    simulate(main)
