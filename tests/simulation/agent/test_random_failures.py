"""Random crashes, elections and cut links under load: no acknowledged record is lost, and all logs end up equal."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random

import pytest

from broker_agent.log.partition_log import PartitionLog
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.data import ProducePartition, ProduceRequest
from simulator.record_batches import encode_client_batch
from tests.brokers.agents import TP, AgentWorld, until, virtually

BROKERS = (1, 2, 3)
STEPS = 60


class Drill:
    """One run. Its controller elects as Kafka's does: the first live member of the ISR, who keeps the live members."""

    def __init__(self, seed: int, mode: str) -> None:
        self.random = Random(seed)
        self.world = AgentWorld(
            min_insync_replicas=2,
            replica_lag_time_max_ms=2000,
            replica_fetch_backoff_ms=100,
            replica_socket_timeout_ms=1500,
            request_timeout_ms=1000,
            klamm_replica_truncation_mode=mode,
        )
        self.alive: set[int] = set(BROKERS)
        self.acknowledged: dict[int, bytes] = {}
        self.high_watermarks: dict[tuple[int, int], int] = {}
        self.produced = 0
        self.steps: dict[Callable[[], Coroutine[None, None, None]], int] = {
            self.produce: 30,
            self.crash: 3,
            self.restart: 6,
            self.elect: 3,
            self.cut: 3,
            self.heal: 5,
            self.expire: 1,
        }
        self.requests = {self.produce}
        """What nobody waits for: it may take long."""

    async def run(self) -> None:
        await self.world.start(*BROKERS)
        await self.world.create(1, BROKERS)
        async with asyncio.TaskGroup() as producers:
            for _ in range(STEPS):
                step = self.random.choices(list(self.steps), list(self.steps.values()))[0]
                producers.create_task(step()) if step in self.requests else await step()
                await asyncio.sleep(self.random.uniform(0, 0.6))
                self.check_high_watermarks()
        await self.quiesce()

    async def produce(self) -> None:
        leader = self.world.states[TP].leader
        if leader not in self.alive:
            return
        self.produced += 1
        records = encode_client_batch(b"%012d" % self.produced, timestamp=self.world.clock.now_ms())
        request = ProduceRequest(-1, 3000, (ProducePartition(TP.topic, TP.partition, records),))
        process = self.world.agents[leader]
        try:
            [result] = (await process.handle(request)).partitions
        except ApiError:
            return
        if result.error_code is ErrorCode.NONE and leader in self.alive:
            assert result.base_offset not in self.acknowledged
            self.acknowledged[result.base_offset] = records[61:]

    async def crash(self) -> None:
        # One broker at most is away, so that an unflushed page cache is never the only copy.
        if len(self.alive) < len(BROKERS):
            return
        victim = self.random.choice(BROKERS)
        self.alive.discard(victim)
        await self.world.agents[victim].crash(power_fails=self.random.random() < 0.5)
        await self.elect()

    async def restart(self) -> None:
        for broker in BROKERS:
            if broker not in self.alive:
                await asyncio.sleep(6.5)
                await self.restart_broker(broker)

    async def restart_broker(self, broker: int) -> None:
        process = self.world.agents[broker]
        await process.start()
        if process.agent.registration.has_damaged_replicas:
            await until(lambda: TP in self.world.controller.damaged.get(process.id, ()))
        self.alive.add(broker)
        await self.elect()

    async def elect(self) -> None:
        state = self.world.states[TP]
        live = [broker for broker in state.isr if broker in self.alive]
        if not live:
            return
        damaged = self.world.controller.damaged
        # As the controller does: a damaged replica leaves the ISR if another member is online (D-40).
        live = [broker for broker in live if TP not in damaged.get(broker, ())] or live
        damaged.clear()
        leader = self.random.choice(live)
        self.world.decide(leader, live, replicas=BROKERS)
        alive = sorted(self.alive)
        await self.world.update_metadata(*alive, to=alive)
        self.random.shuffle(alive)
        for broker in alive:
            await self.world.tell(broker)

    async def cut(self) -> None:
        source, target = self.random.sample(BROKERS, 2)
        self.world.network.cut(f"broker-{source}:9092", f"broker-{target}:9092")

    async def heal(self) -> None:
        for source in BROKERS:
            for target in BROKERS:
                self.world.network.heal(f"broker-{source}:9092", f"broker-{target}:9092")

    async def expire(self) -> None:
        self.world.agents[self.random.choice(sorted(self.alive))].zookeeper.expire()

    def check_high_watermarks(self) -> None:
        """Within an epoch a leader's high watermark only rises, and never above what its ISR has (P6, P16)."""
        for broker in self.alive:
            partition = self.world.agents[broker].agent.manager.online(TP)
            if partition is None or not partition.is_leader or partition.log is None:
                continue
            key = (broker, partition.leader_epoch)
            assert partition.log.high_watermark >= self.high_watermarks.get(key, 0)
            self.high_watermarks[key] = partition.log.high_watermark
            if partition.leader_epoch == self.world.states[TP].leader_epoch:
                for member in self.world.states[TP].isr:
                    log = self.world.agents[member].logs.get(TP) if member in self.alive else None
                    assert log is None or log.log_end_offset >= partition.log.high_watermark

    async def quiesce(self) -> None:
        await self.heal()
        await self.restart()
        await self.elect()
        leader = self.world.agents[self.world.states[TP].leader]
        await until(lambda: sorted(leader.partition().isr) == list(BROKERS), within_s=60)
        await leader.produce(1, acks=-1, timeout_ms=20_000)
        ends = [self.world.agents[broker] for broker in BROKERS]
        await until(lambda: len({process.offsets() for process in ends}) == 1, within_s=60)
        self.check_contents([read_all(process.logs.get(TP)) for process in ends])
        assert len(self.acknowledged) > 5
        await self.world.stop()

    def check_contents(self, contents: list[dict[int, bytes]]) -> None:
        assert contents[0] == contents[1] == contents[2]
        lost = {offset for offset, records in self.acknowledged.items() if contents[0].get(offset) != records}
        assert lost == set()


def read_all(log: PartitionLog | None) -> dict[int, bytes]:
    """Records region of each batch by base offset."""
    assert log is not None
    data = log.read(log.log_start_offset, 1 << 30, log.log_end_offset, at_least_one=True)
    found = {}
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        found[int.from_bytes(data[:8], "big")] = data[61:size]
        data = data[size:]
    return found


@pytest.mark.rule("P6", "P8", "P10", "P16", "P28", "P38", "P39")
@pytest.mark.parametrize("mode", ["fetch", "epoch-query"])
@pytest.mark.parametrize("seed", range(12))
def test_no_acknowledged_record_is_lost_whatever_fails(seed: int, mode: str) -> None:
    @virtually
    async def run() -> None:
        await Drill(seed, mode).run()

    run()
