"""Whole clusters under load while processes crash or hang, power fails, links break and leaderships move: nothing is
lost.

After every callback of the event loop a checker looks at all replicas (`replication_checker`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

import pytest

from cluster.broker import BrokerId, Offset
from cluster.errors import ErrorCode, PeerUnreachableError
from cluster.partition import TopicPartition
from cluster.process.settings import Settings
from cluster.record_batch import encode_batch, parse_header
from cluster.requests import (
    CreateTopicsRequest,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    NewTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from simulator.cluster import SimulatedCluster, simulate
from simulator.nodes import SimulatedAgent, SimulatedNode
from simulator.virtual_time_loop import VirtualTimeLoop
from tests.simulation.replication_checker import ReplicationChecker

TP = TopicPartition("orders", 0)
BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
STEPS = 40
SEEDS = (*range(4), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(4, 40)))


class Drill:
    """One run from one seed. Steps follow each other at random; clients act meanwhile."""

    def __init__(self, seed: int, mode: str) -> None:
        self.random = Random(f"replication-safety/{seed}/{mode}")
        settings = Settings(
            min_insync_replicas=self.random.choice((1, 2)),
            zookeeper_session_timeout_ms=2000,
            replica_lag_time_max_ms=1500,
            replica_fetch_wait_max_ms=self.random.choice((50, 500)),
            replica_fetch_backoff_ms=100,
            replica_socket_timeout_ms=1000,
            request_timeout_ms=1000,
            replica_high_watermark_checkpoint_interval_ms=700,
            log_flush_interval_ms=self.random.choice((500, 60_000)),
            log_flush_offset_checkpoint_interval_ms=900,
            # From a generator of its own, so that the seeds that once found something still draw the same faults.
            log_segment_bytes=Random(f"segments/{seed}/{mode}").choice((300, 2000, 1 << 30)),
            klamm_replica_truncation_mode=mode,
        )
        self.cluster = SimulatedCluster(seed, controllers=2, brokers=3, settings=settings)
        self.checker = ReplicationChecker(self.cluster, TP)
        self.sent = 0
        self.out_of_touch_until = 0.0
        self.is_over = False
        self.clients: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)

        def look() -> None:
            try:
                self.checker.look()
            except BaseException:
                loop.after_step = None  # What unwinds after a finding is of no interest.
                raise

        loop.after_step = look
        try:
            await self._act()
            await self._settle()
        finally:
            loop.after_step = None

    async def _act(self) -> None:
        self.cluster.start_all()
        await self._create()
        steps: dict[Callable[[], Awaitable[None]], int] = {
            self.crash: 4,
            self.lose_power: 4,
            self.restart: 9,
            self.cut: 5,
            self.heal: 5,
            self.expire: 5,
            self.hang: 4,
            self.lose_controller: 2,
        }
        self._meanwhile(self._load())
        for _ in range(STEPS):
            await self.random.choices(list(steps), list(steps.values()))[0]()
            await asyncio.sleep(self.random.expovariate(1))
            self.cluster.raise_if_a_node_died()
        self.is_over = True

    async def _create(self) -> None:
        cluster = self.cluster
        await cluster.until(lambda: cluster.active_controller() is not None, "a controller in office")
        ids = cluster.zookeeper.tree.children
        await cluster.until(lambda: len(ids("/brokers/ids") or ()) == len(BROKERS), "all agents registered")
        active = cluster.active_controller()
        assert active is not None
        topic = NewTopic(TP.topic, assignments={0: BROKERS})
        await cluster.network.call("client", active.address, CreateTopicsRequest((topic,)))
        await cluster.until(lambda: len(self.checker.replicas) == len(BROKERS), "all replicas hosted")

    def _meanwhile(self, act: Awaitable[None]) -> None:
        task = asyncio.ensure_future(act)
        self.clients.add(task)
        task.add_done_callback(self.clients.discard)

    # Clients

    async def _load(self) -> None:
        while not self.is_over:
            act = self.random.choices((self.produce, self.consume), (6, 1))[0]
            for _ in range(self.random.choice((1, 1, 1, 4))):
                self._meanwhile(act())
            await asyncio.sleep(self.random.expovariate(5))

    def _some_leader(self) -> SimulatedAgent | None:
        """Whoever takes itself for the leader; with several, any of them."""
        leaders = [broker for broker, replica in sorted(self.checker.replicas.items()) if replica.look.leads]
        return self.cluster.agents[BrokerId(self.random.choice(leaders))] if leaders else None

    async def produce(self) -> None:
        leader = self._some_leader()
        if leader is None:
            return
        self.sent += 1
        count, acks = self.random.randint(1, 3), self.random.choice((-1, -1, 1, 0))
        records = encode_batch(b"%08d" % self.sent * count, count, max_timestamp=self.cluster.clock.now_ms())
        crc = parse_header(records).crc
        self.checker.sent.add(crc)
        request = ProduceRequest(acks, 3000, (ProducePartition(TP.topic, TP.partition, records),))
        try:
            answer = await self.cluster.network.call("client", leader.address, request)
        except PeerUnreachableError:
            return
        assert isinstance(answer, ProduceResponse)
        if answer.partitions[0].error_code is ErrorCode.NONE and acks == -1:
            self.checker.note_acknowledged(answer.partitions[0].base_offset, crc)

    async def consume(self) -> None:
        leader = self._some_leader()
        if leader is None:
            return
        end = self.checker.replicas[leader.id].look.high_watermark
        item = FetchPartition(TP.topic, None, TP.partition, Offset(self.random.randint(0, end)), 1 << 20)
        try:
            answer = await self.cluster.network.call(
                "client", leader.address, FetchRequest(BrokerId(-1), (item,), 500, 1, 1 << 20)
            )
        except PeerUnreachableError:
            return
        assert isinstance(answer, FetchResponse)
        if answer.partitions[0].error_code is ErrorCode.NONE:
            self.checker.note_read(answer.partitions[0].records, answer.partitions[0].high_watermark)

    # Faults

    def _running(self) -> list[SimulatedAgent]:
        return [agent for agent in self.cluster.agents.values() if agent.is_running]

    async def crash(self) -> None:
        if len(self._running()) > 1:
            victim = self.random.choice(self._running())
            victim.crash()
            self.checker.process_ended(victim, power_failed=False)

    async def lose_power(self) -> None:
        """Only where a sound member of the ISR stays alive and in office, else records may well be lost (16.1)."""
        with suppress(TimeoutError):
            await self.cluster.until(self._is_calm, "all that run are registered", timeout_s=8)
            running = self._running()
            victim = self.random.choice(running)
            if any(agent.id in self.checker.sound_isr for agent in running if agent is not victim):
                victim.lose_power()
                self.checker.process_ended(victim, power_failed=True)
                await self.cluster.until(
                    lambda: victim.id not in self._isr(), "the victim is out of the ISR", timeout_s=8
                )

    def _registered(self) -> list[SimulatedAgent]:
        names = self.cluster.zookeeper.tree.children("/brokers/ids") or ()
        return [agent for agent in self._running() if str(agent.id) in names]

    def _is_calm(self) -> bool:
        names = self.cluster.zookeeper.tree.children("/brokers/ids") or ()
        alive = {str(agent.id) for agent in self._running()}
        in_touch = asyncio.get_running_loop().time() >= self.out_of_touch_until
        return alive == set(names) and in_touch and bool(alive) and self._isr() <= {int(name) for name in names}

    def _isr(self) -> set[int]:
        return set() if self.checker.state is None else set(self.checker.state.isr)

    async def restart(self) -> None:
        dead = [agent for agent in self.cluster.agents.values() if not agent.is_running]
        if dead:
            # Its registration must have expired, or another process would hold its id.
            await asyncio.sleep(2.5)
            self.random.choice(dead).start()

    def _link(self, one: SimulatedNode, other: SimulatedNode) -> list[tuple[str, str]]:
        ends = [(node.incarnations[-1].source, node.address) for node in (one, other) if node.incarnations]
        (source, address), (other_source, other_address) = ends
        return [
            (source, other_address),
            (other_address, source),
            (other_source, address),
            (address, other_source),
        ]

    async def cut(self) -> None:
        """Break one direction or both between two nodes, for good or for a while."""
        agent = self.random.choice(list(self.cluster.agents.values()))
        other = self.random.choice([node for node in self.cluster.nodes if node is not agent])
        directions = self._link(agent, other)
        for source, target in directions if self.random.random() < 0.6 else directions[:2]:
            self.cluster.network.cut(source, target)

    async def heal(self) -> None:
        self.cluster.network.heal_all()

    async def expire(self) -> None:
        """A broker's session ends although it lives, with all that follows; sometimes it cannot come back for long."""
        registered = self._registered()
        if not registered:
            return
        process = self.random.choice(registered).incarnations[-1]
        if self.random.random() < 0.5:
            process.zookeeper.expire()
            return
        process.zookeeper.disconnect(self._some_seconds_out_of_touch())

    async def hang(self) -> None:
        """A process stands still, with its requests unanswered, for less or for more than its session."""
        awake = self.cluster.awake()
        if awake:
            self.cluster.hang(self.random.choice(awake), self._some_seconds_out_of_touch())

    def _some_seconds_out_of_touch(self) -> float:
        seconds = self.random.uniform(0.5, 5)
        self.out_of_touch_until = max(self.out_of_touch_until, asyncio.get_running_loop().time() + seconds)
        return seconds

    async def lose_controller(self) -> None:
        active = self.cluster.active_controller()
        standby = [node for node in self.cluster.controllers.values() if not node.is_running]
        if standby:
            standby[0].start()
        elif active is not None:
            active.crash()

    async def _settle(self) -> None:
        await self.heal()
        self.cluster.resume_all()
        await asyncio.gather(*self.clients)
        await asyncio.sleep(6)
        for node in self.cluster.nodes:
            if not node.is_running:
                node.start()
        await self.cluster.until(self._is_whole, "all replicas in sync", timeout_s=180)
        await self.produce()
        await self.cluster.until(self._is_level, "all replicas the same", timeout_s=60)
        self.checker.check_end(self.cluster.agents)
        assert len(self.checker.acknowledged) > 5, "the run has acknowledged next to nothing"

    def _is_whole(self) -> bool:
        state = self.checker.state
        return state is not None and state.leader >= 0 and len(state.isr) == len(BROKERS)

    def _is_level(self) -> bool:
        looks = [replica.look for replica in self.checker.replicas.values()]
        return len({(look.end, look.high_watermark) for look in looks}) == 1 and looks[0].end == looks[0].high_watermark


@pytest.mark.rule(
    *(f"P{number}" for number in (*range(1, 13), 16, 17, 19, 20, 22, 23, 24, *range(28, 33), 38, 39)),
)
@pytest.mark.parametrize("mode", ["fetch", "epoch-query"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_safety_properties_hold_whatever_fails(seed: int, mode: str) -> None:
    async def run() -> None:
        await Drill(seed, mode).run()

    simulate(run)
