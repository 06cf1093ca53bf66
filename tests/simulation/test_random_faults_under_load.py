"""Whole clusters under random faults while clients produce, move partitions and elect leaders: no acknowledged record
is lost, and in the end all replicas hold the same.

Beyond the faults of `test_random_faults`: power that fails, answers that never arrive, networks so slow that requests
overtake each other, and segments so small that every log has many.
"""

import asyncio
from random import Random
from typing import Final, NamedTuple

import pytest

from broker_agent.log.partition_log import PartitionLog
from broker_agent.ports import Log
from cluster.broker import BrokerId, Offset
from cluster.errors import ErrorCode
from cluster.partition import TopicPartition
from cluster.process.settings import Settings
from cluster.record_batch import encode_batch, parse_header, walk
from cluster.requests import (
    PREFERRED,
    SET_CONFIG,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    ElectLeadersRequest,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from cluster.znodes import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS, encode_partitions, encode_reassignments
from cluster.zookeeper.port import Create
from simulator.cluster import simulate
from simulator.nodes import SimulatedAgent, SimulatedNode
from tests.simulation.test_random_faults import Drill, Step

ALIKE_S: Final = 60
SETTINGS: Final = (("min.insync.replicas", "1"), ("min.insync.replicas", "2"), ("segment.bytes", "600"))
SEEDS: Final = (*range(8), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(8, 60)))


class Batch(NamedTuple):
    """One batch of a log: its offsets (`last` inclusive), the leader's epoch and the checksum."""

    base: int
    last: int
    epoch: int
    crc: int


def draw_settings(random: Random) -> Settings:
    return Settings(
        zookeeper_session_timeout_ms=random.choice((2000, 6000)),
        replica_lag_time_max_ms=random.choice((1000, 4000)),
        min_insync_replicas=random.choice((1, 2)),
        auto_leader_rebalance_enable=random.random() < 0.5,
        leader_imbalance_check_interval_seconds=3,
        replica_socket_timeout_ms=random.choice((1000, 30_000)),
        num_replica_fetchers=random.choice((1, 3)),
        klamm_replica_truncation_mode=random.choice(("fetch", "epoch-query")),
        log_segment_bytes=random.choice((400, 5000)),
        log_segment_delete_delay_ms=random.choice((10, 60_000)),
        log_flush_interval_ms=random.choice((500, 60_000)),
        replica_high_watermark_checkpoint_interval_ms=random.choice((300, 5000)),
    )


class LoadedDrill(Drill):
    """A drill with producers. Where power fails, records may be lost with it; replicas must be alike all the same."""

    def __init__(self, seed: int) -> None:
        random = Random(f"settings/{seed}")
        super().__init__(seed, draw_settings(random))
        self.power_fails = random.random() < 0.4
        if random.random() < 0.5:
            self.cluster.network.latency_s = (0.0002, random.choice((0.02, 0.2, 0.8)))
        self.sent = 0
        self.is_over = False
        self.acknowledged: dict[TopicPartition, list[tuple[int, int]]] = {}
        """Base offset and checksum of each batch that was acknowledged."""

    def steps(self) -> dict[Step, int]:
        more: dict[Step, int] = {
            self.reassign_in_zookeeper: 2,
            self.elect: 2,
            self.elect_in_zookeeper: 1,
            self.change_settings: 2,
            self.lose_answers: 3,
            self.cut_off: 2,
        }
        return super().steps() | more | ({self.lose_power: 4} if self.power_fails else {})

    async def run(self) -> None:
        load = asyncio.get_running_loop().create_task(self._load())
        try:
            await super().run()
        finally:
            self.is_over = True
            await load
        await self.cluster.until(self.is_level, "all replicas end alike", ALIKE_S)
        self.check_contents()

    async def settle(self) -> None:
        # On a slow network nobody would ever catch up with a leader that goes on appending.
        self.is_over = True
        await super().settle()

    # Clients

    async def _load(self) -> None:
        while not self.is_over:
            await asyncio.sleep(self.random.expovariate(15))
            partitions = list(self.all_assignments())
            if partitions:
                self._produce(self.random.choice(partitions))

    def _produce(self, tp: TopicPartition) -> None:
        """To its leader, or to any of those who take themselves for it."""
        leaders = [a for a in self.cluster.agents.values() if a.is_running and _leads(a, tp)]
        if leaders:
            self._run(self.produce(tp, self.random.choice(leaders)))

    async def produce(self, tp: TopicPartition, leader: SimulatedAgent) -> None:
        self.sent += 1
        count = self.random.randint(1, 3)
        records = encode_batch(b"%08d" % self.sent * count, count, max_timestamp=self.cluster.clock.now_ms())
        request = ProduceRequest(-1, 3000, (ProducePartition(tp.topic, tp.partition, records),))
        answer = await self.cluster.network.call("client", leader.address, request)
        assert isinstance(answer, ProduceResponse)
        [result] = answer.partitions
        if result.error_code is ErrorCode.NONE:
            batch = (result.base_offset, parse_header(records).crc)
            self.acknowledged.setdefault(tp, []).append(batch)

    async def elect(self) -> None:
        self._ask(ElectLeadersRequest(PREFERRED, None, 5000))

    async def elect_in_zookeeper(self) -> None:
        partitions = list(self.all_assignments())
        await self._write(PREFERRED_REPLICA_ELECTION, encode_partitions(partitions[: self.random.randint(1, 4)]))

    async def reassign_in_zookeeper(self) -> None:
        partitions = list(self.all_assignments())
        if partitions:
            target = tuple(self.random.sample(list(self.cluster.agents), self.random.randint(1, 3)))
            await self._write(REASSIGN_PARTITIONS, encode_reassignments({self.random.choice(partitions): target}))

    async def _write(self, path: str, body: bytes) -> None:
        if self.cluster.zookeeper.is_reachable:
            await self.tool.multi([Create(path, body)])

    async def change_settings(self) -> None:
        topic = self._any_topic()
        if topic is not None:
            name, value = self.random.choice(SETTINGS)
            config = AlterableConfig(name, SET_CONFIG, value)
            self._ask(AlterConfigsRequest((AlterConfigsResource(TOPIC_RESOURCE, topic, (config,)),)))

    # Faults

    async def lose_power(self) -> None:
        running = [agent for agent in self.cluster.agents.values() if agent.is_running]
        if running:
            self.random.choice(running).lose_power()

    async def lose_answers(self) -> None:
        """Requests arrive, and whoever sent them does not hear of it."""
        source, target = self.random.sample(self.cluster.nodes, 2)
        self.cluster.network.cut(target.address, _source(source))

    async def cut_off(self) -> None:
        """Nothing passes between two nodes in either direction."""
        one, other = self.random.sample(self.cluster.nodes, 2)
        for source, target in ((one, other), (other, one)):
            self.cluster.network.cut(_source(source), target.address)
            self.cluster.network.cut(target.address, _source(source))

    # What must hold at the end

    def is_level(self) -> bool:
        for tp, assignment in self.all_assignments().items():
            logs = [self._log(broker, tp) for broker in assignment.replicas]
            if any(log is None for log in logs):
                return False
            if len({(log.log_end_offset, log.high_watermark) for log in logs if log is not None}) > 1:
                return False
        return True

    def check_contents(self) -> None:
        for tp, assignment in self.all_assignments().items():
            contents = [_read(self._log(broker, tp)) for broker in assignment.replicas]
            assert all(content == contents[0] for content in contents), f"{tp} differs between {assignment.replicas}"
            present = {(batch.base, batch.crc) for batch in contents[0]}
            lost = [batch for batch in self.acknowledged.get(tp, []) if batch not in present]
            assert self.power_fails or not lost, f"{tp} has lost {lost}"

    def _log(self, broker: BrokerId, tp: TopicPartition) -> Log | None:
        agent = self.cluster.agents[broker].agent
        assert agent is not None
        partition = agent.manager.online(tp)
        return None if partition is None else partition.log


def _source(node: SimulatedNode) -> str:
    """Where the requests of the process that runs now come from."""
    return f"{node.name}/{len(node.incarnations) - 1}"


def _leads(node: SimulatedAgent, tp: TopicPartition) -> bool:
    partition = None if node.agent is None else node.agent.manager.online(tp)
    return partition is not None and partition.is_leader


def _read(log: Log | None) -> list[Batch]:
    """All batches of a log, which must follow one another without a gap."""
    assert isinstance(log, PartitionLog)
    batches: list[Batch] = []
    at = log.log_start_offset
    while at < log.log_end_offset:
        for _, header in walk(log.read(at, 1 << 30, log.log_end_offset, at_least_one=True)):
            assert header.base_offset == at, f"{header} at {at}"
            batches.append(Batch(header.base_offset, header.last_offset, header.leader_epoch, header.crc))
            at = Offset(header.last_offset + 1)
    return batches


async def drill(seed: int) -> None:
    run = LoadedDrill(seed)
    try:
        await run.run()
    except TimeoutError as error:
        error.add_note("\n".join([*run.done, "missing:", *run.missing()]))
        raise


@pytest.mark.rule("P28", "P39", "RA-16", "RA-25", "INV-8")
@pytest.mark.parametrize("seed", SEEDS)
def test_no_acknowledged_record_is_lost_and_all_replicas_end_alike(seed: int) -> None:
    simulate(lambda: drill(seed))
