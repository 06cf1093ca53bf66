"""Damaged replicas in whole simulated clusters: none is elected where another holds what it has lost."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from broker_agent.log.record_batch import parse_header, walk
from cluster.broker import BrokerId
from cluster.errors import ErrorCode
from cluster.partition import TopicPartition
from cluster.process.settings import Settings
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
DELAY_S = 60


class Damaged:
    """A cluster with one partition on brokers 1 to `brokers`, led by broker 1, with ten acknowledged batches."""

    def __init__(self, *, brokers: int = 2, controllers: int = 1, **settings: Any) -> None:
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
        self.cluster = SimulatedCluster(1, controllers=controllers, brokers=brokers, settings=Settings(**values))
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
        address = self.agent(self.controller.context.leaderships[TP].leader).address
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
        return self.controller.context.leaderships[TP].isr

    async def crash(self, *brokers: int) -> None:
        """Kill them, one after another, and wait until their sessions have expired."""
        for broker in brokers:
            self.agent(broker).crash()
            self.checker.process_ended(self.agent(broker), power_failed=True)
            await self.until(lambda: not self.agent(broker).is_registered, f"broker {broker} is gone")  # noqa: B023
            await asyncio.sleep(1)

    def active_crash(self) -> None:
        """Kill the active controller, if there is one."""
        active = self.cluster.active_controller()
        if active is not None:
            active.crash()

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


def run(damaged: Damaged, test: Callable[[Damaged], Awaitable[None]]) -> None:
    async def main() -> None:
        await damaged.start()
        await test(damaged)

    simulate(main)


@pytest.mark.rule("D-40", "P28")
@pytest.mark.parametrize("position", [0.05, 0.75])
def test_a_damaged_leader_that_no_controller_saw_crash_does_not_lead_again(position: float) -> None:
    async def test(it: Damaged) -> None:
        controller = it.controller
        controller.crash()
        await it.crash(1)
        it.flip(1, position)
        it.agent(1).start()
        await it.until(lambda: it.agent(1).is_registered, "registered")
        await asyncio.sleep(3)
        controller.start()
        await it.until(lambda: it.leader == 2, "elected")
        await it.converged()
        assert it.end(1) == it.end(2) == 10
        await asyncio.sleep(10)
        assert await it.findings(it.agent(1)) == []
        assert it.isr == {1, 2}

    run(Damaged(), test)


@pytest.mark.rule("D-40", "P28")
def test_a_damaged_follower_leaves_the_isr_and_returns() -> None:
    async def test(it: Damaged) -> None:
        controller = it.controller
        controller.crash()
        await it.crash(2)
        it.flip(2, 0.75)
        it.agent(2).start()
        controller.start()
        await it.converged()
        assert it.leader == 1
        assert (1,) in [record.isr for record in it.records(Kind.ISR)]

    run(Damaged(), test)


@pytest.mark.rule("D-41", "R9.32", "P28")
def test_a_damaged_replica_alone_in_the_isr_waits_for_nobody_for_ever() -> None:
    async def test(it: Damaged) -> None:
        await it.crash(2, 1)
        it.flip(1, 0.75)
        virtual_loop().after_step = None  # What it has lost nobody else has.
        began = asyncio.get_running_loop().time()
        it.agent(1).start()
        await it.until(lambda: it.agent(1).is_registered, "registered")
        await asyncio.sleep(10)
        (finding,) = await it.findings(it.controller)
        assert (finding.kind, finding.topic, finding.partition, finding.broker) == ("damaged_replica_waits", *TP, 1)
        assert it.controller.context.leaderships[TP].leader == -1
        await it.until(lambda: it.controller.context.leaderships[TP].leader == 1, "elected", 2 * DELAY_S)
        assert asyncio.get_running_loop().time() - began >= DELAY_S
        assert await it.findings(it.controller) == []
        assert [found.kind for found in await it.findings(it.agent(1))] == ["damaged_replica"]
        await it.until(lambda: b"damaged" not in it.registration(1), "its report is over")

    run(Damaged(), test)


@pytest.mark.rule("D-40", "D-41", "R9.32", "P28")
def test_the_next_controller_learns_of_damage_before_it_elects() -> None:
    async def test(it: Damaged) -> None:
        await it.crash(2, 1)
        it.flip(1, 0.75)
        virtual_loop().after_step = None
        it.agent(1).start()
        await it.until(lambda: it.agent(1).is_registered, "registered")
        await asyncio.sleep(20)
        it.controller.crash()
        await it.until(lambda: it.cluster.active_controller() is not None, "another controller")
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(DELAY_S - 20)
        assert it.controller.context.leaderships[TP].leader == -1
        await it.until(lambda: it.controller.context.leaderships[TP].leader == 1, "elected", DELAY_S)
        assert asyncio.get_running_loop().time() - began < DELAY_S + 15

    run(Damaged(controllers=2), test)


SCRUB = {
    "klamm_log_scrub_bytes_per_second": 1 << 20,
    "klamm_log_scrub_interval_ms": 5000,
    "log_initial_task_delay_ms": 10_000,
}


@pytest.mark.rule("R9.30", "R9.31", "P28")
@pytest.mark.parametrize("segment_bytes", [300, 1 << 30])
@pytest.mark.parametrize("victim", [1, 2])
def test_the_scrub_cures_a_leader_and_a_follower(victim: int, segment_bytes: int) -> None:
    async def test(it: Damaged) -> None:
        virtual_loop().after_step = None  # A whole replica is given up on purpose, below its high watermark.
        good = it.content(3 - victim)
        it.flip(victim, 0.3)
        assert it.content(victim) != good
        await it.until(lambda: it.content(victim) == good and len(it.isr_now()) == 2, "cured")
        assert it.controller.context.leaderships[TP].leader == (2 if victim == 1 else 1)
        found, refetched = [record for record in it.records(Kind.TRUNCATION) if record.reason == "scrub"]
        assert (found.broker, refetched.broker, refetched.to_offset) == (victim, victim, 0)
        assert found.cause is not None
        assert found.cause.event == "LogScrub"
        (election,) = [record for record in it.records(Kind.PARTITION) if record.reason == "scrub"]
        assert election.isr == (3 - victim,)
        await it.produce(11)
        await it.until(lambda: it.end(victim) == 11, "replicated")
        assert await it.findings(it.agent(victim)) == []

    run(Damaged(log_segment_bytes=segment_bytes, **SCRUB), test)


@pytest.mark.rule("R9.31")
def test_a_replica_alone_in_sync_stays_until_another_one_is() -> None:
    async def test(it: Damaged) -> None:
        virtual_loop().after_step = None
        good = it.content(1)
        await it.crash(2)
        it.flip(1, 0.3)
        await asyncio.sleep(30)
        (finding,) = await it.findings(it.agent(1))
        assert (finding.kind, finding.topic, finding.partition, finding.broker) == ("damaged_replica", *TP, 1)
        assert f"{LOG_DIRECTORY}/{TP}/{0:020d}.log at byte" in finding.detail
        assert it.controller.context.leaderships[TP].leader == 1
        it.agent(2).start()
        await it.until(lambda: it.content(1) == good and len(it.isr_now()) == 2, "cured")

    run(Damaged(**SCRUB), test)


@pytest.mark.rule("R9.30")
def test_what_is_sound_is_left_alone() -> None:
    async def test(it: Damaged) -> None:
        await asyncio.sleep(60)
        await it.converged()
        assert it.records(Kind.TRUNCATION) == []
        assert await it.findings(it.agent(1)) == []

    run(Damaged(log_segment_bytes=300, **SCRUB), test)


@pytest.mark.rule("D-40", "D-41", "P28", "P32", "P38", "P39")
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.deep) for n in range(6, 60))])
def test_no_acknowledged_record_is_lost_where_another_replica_in_sync_is_alive(seed: int) -> None:
    """Crashes with a damaged batch, with controllers that go and come before, meanwhile and after."""
    chance = Random(seed)

    async def restart_all(it: Damaged) -> None:
        """Start what does not run, in any order, as soon as its registration has gone."""
        nodes = [node for node in it.cluster.nodes if not node.is_running]
        chance.shuffle(nodes)
        for node in nodes:
            await it.until(lambda node=node: not node.is_registered, f"{node.name} is gone")  # type: ignore[misc]
            node.start()
            await asyncio.sleep(chance.choice((0, 0.3, 3)))

    async def test(it: Damaged) -> None:
        for round_ in range(1, 5):
            victim = chance.choice(it.ids)
            gone = [c for c in it.cluster.controllers.values() if c.is_running and chance.random() < 0.6]
            for controller in gone:
                controller.crash()
            await asyncio.sleep(chance.choice((0, 1, 4)))
            await it.crash(victim)
            it.flip_records(victim, chance)
            await restart_all(it)
            if chance.random() < 0.5:
                await asyncio.sleep(chance.choice((0.2, 1, 3)))
                it.active_crash()
                await restart_all(it)
            await it.converged()
            for number in range(5):
                await it.produce(100 * round_ + number)
            await asyncio.sleep(3)

    run(Damaged(brokers=3, controllers=2, min_insync_replicas=2, log_segment_bytes=chance.choice((300, 1 << 30))), test)
