"""Controlled shutdown of agents with real controllers, in memory: under load, and during controller failovers."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from broker_agent.log.checkpoints import CLEAN_MARKER
from cluster.config.settings import Settings
from cluster.model.broker import BrokerId
from cluster.model.errors import ClusterError, ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.requests.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from cluster.requests.elections import ShutdownRequest
from cluster.requests.topics import CreateTopicsRequest, CreateTopicsResponse, NewTopic
from cluster.znodes.paths import broker_path, state_path
from cluster.znodes.topics import decode_state
from simulator.cluster import SimulatedCluster, simulate
from simulator.record_batches import encode_client_batch
from state_log.invariants import check_all
from tests.controllers.controller_crashes import SAFETY_LIMIT, DyingController

RETRIABLE = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
}
End = dict[str, tuple[int, int, frozenset[int]]]
"""Partition -> leader, leader epoch, ISR."""


class Leaving:
    """A cluster of three brokers with a few topics, some of whose brokers leave."""

    def __init__(self, seed: int, **settings: int) -> None:
        values = {"zookeeper_session_timeout_ms": 6000, "replica_lag_time_max_ms": 4000, **settings}
        self.cluster = SimulatedCluster(seed, controllers=2, brokers=3, settings=Settings(**values))
        self.partitions: list[TopicPartition] = []
        self.acknowledged: dict[TopicPartition, list[bytes]] = {}
        self.errors: set[ErrorCode] = set()

    async def start(self, topics: Mapping[str, Sequence[Sequence[int]]]) -> None:
        cluster = self.cluster
        cluster.start_all()
        await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
        await cluster.until(lambda: len(cluster.zookeeper.tree.children("/brokers/ids") or ()) == 3, "all agents")
        new = tuple(
            NewTopic(name, assignments={p: tuple(map(BrokerId, r)) for p, r in enumerate(replicas)})
            for name, replicas in topics.items()
        )
        active = cluster.active_controller()
        assert active is not None
        answer = await cluster.network.call("client", active.address, CreateTopicsRequest(new))
        assert isinstance(answer, CreateTopicsResponse)
        assert {topic.error_code for topic in answer.topics} == {ErrorCode.NONE}
        self.partitions = [TopicPartition(name, p) for name, of in topics.items() for p in range(len(of))]

    def state(self, tp: TopicPartition) -> LeaderAndIsr:
        znode = self.cluster.zookeeper.tree.get(state_path(tp))
        assert znode is not None
        state = decode_state(tp, znode.data, znode.stat.version)  # type: ignore[arg-type]
        assert state is not None
        return state

    def end(self) -> End:
        states = {tp: self.state(tp) for tp in self.partitions}
        return {str(tp): (s.leader, s.leader_epoch, frozenset(s.isr)) for tp, s in states.items()}

    def is_registered(self, broker: int) -> bool:
        return self.cluster.zookeeper.tree.get(broker_path(BrokerId(broker))) is not None

    async def produce_until(self, stop: asyncio.Event, tp: TopicPartition) -> None:
        """One record after the other with acks=all, each until it is acknowledged."""
        number = 0
        while not stop.is_set():
            text = f"<{tp} {number}>".encode()
            while not await self._produce(tp, text):  # noqa: ASYNC110 (brokers set no event of ours)
                await asyncio.sleep(0.02)
            self.acknowledged.setdefault(tp, []).append(text)
            number += 1
            await asyncio.sleep(0.02)

    async def _produce(self, tp: TopicPartition, text: bytes) -> bool:
        request = ProduceRequest(-1, 3000, (ProducePartition(tp.topic, tp.partition, encode_client_batch(text, 1)),))
        leader = self.state(tp).leader
        if leader < 0:
            return False
        try:
            answer = await self.cluster.network.call("client", self.cluster.agents[BrokerId(leader)].address, request)
        except ClusterError:
            return False
        assert isinstance(answer, ProduceResponse)
        code = answer.partitions[0].error_code
        if code is not ErrorCode.NONE:
            self.errors.add(code)
        return code is ErrorCode.NONE

    async def committed(self, tp: TopicPartition) -> bytes:
        leader = self.cluster.agents[BrokerId(self.state(tp).leader)]
        request = FetchRequest(
            BrokerId(-1),
            (FetchPartition(tp.topic, None, tp.partition, 0, 1 << 24),),  # type: ignore[arg-type]
            0,
            1,
            1 << 24,
        )
        answer = await self.cluster.network.call("client", leader.address, request)
        assert isinstance(answer, FetchResponse)
        return answer.partitions[0].records


async def under_load(seed: int) -> None:
    leaving = Leaving(seed)
    await leaving.start({"a": [[1, 2, 3], [2, 1, 3], [3, 2, 1]], "b": [[1, 2], [2, 1]]})
    cluster, agents = leaving.cluster, leaving.cluster.agents
    enough = asyncio.Event()
    producers = [asyncio.ensure_future(leaving.produce_until(enough, tp)) for tp in leaving.partitions]
    for broker in (BrokerId(1), BrokerId(2)):
        await asyncio.sleep(1)
        await agents[broker].stop()
        # Everything had moved before it went.
        assert all(leaving.state(tp).leader != broker for tp in leaving.partitions)
        assert all(broker not in leaving.state(tp).isr for tp in leaving.partitions)
        before = leaving.end()
        await asyncio.sleep(1)
        assert leaving.end() == before, "its end cost nothing more"
        assert agents[broker].disk.read_file(f"/data/{CLEAN_MARKER}") is not None
        agents[broker].start()
        await cluster.until(
            lambda: all(broker in leaving.state(tp).isr for tp in leaving.partitions if broker in REPLICAS[str(tp)]),  # noqa: B023
            f"broker {broker} is in sync again",
        )
    enough.set()
    await asyncio.gather(*producers)
    assert leaving.errors <= RETRIABLE
    for tp, texts in leaving.acknowledged.items():
        assert len(texts) > 20
        read = await leaving.committed(tp)
        assert all(text in read for text in texts)
    await cluster.stop_all()
    assert check_all(cluster.records()) == []


REPLICAS = {"a-0": {1, 2, 3}, "a-1": {1, 2, 3}, "a-2": {1, 2, 3}, "b-0": {1, 2}, "b-1": {1, 2}}


@pytest.mark.rule("R12.1", "R12.2", "R12.3", "R12.6", "CS-8", "CS-10", "CS-17")
@pytest.mark.parametrize("seed", [1, 2])
def test_under_load_nothing_acknowledged_is_lost_and_no_error_is_final(seed: int) -> None:
    simulate(lambda: under_load(seed))


async def while_the_controller_dies(fatal_write: int) -> tuple[End, DyingController]:
    leaving = Leaving(1, controlled_shutdown_max_retries=8)
    await leaving.start({"a": [[1, 2, 3], [2, 1, 3], [3, 1, 2]], "b": [[1, 2], [2, 1]], "single": [[1], [2]]})
    cluster = leaving.cluster
    await asyncio.sleep(1)
    dying = DyingController(cluster, fatal_write)
    for broker in (1, 2):
        await cluster.agents[BrokerId(broker)].stop()
        assert not leaving.is_registered(broker)
    await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
    singles = [TopicPartition("single", p) for p in range(2)]
    await cluster.until(lambda: all(leaving.state(tp).leader == -1 for tp in singles), "the death is noticed")
    await asyncio.sleep(10)
    await cluster.stop_all()
    assert check_all(cluster.records()) == []
    return leaving.end(), dying


@pytest.mark.rule("R12.1", "R12.6", "CS-16", "CS-17", "INV-8")
def test_whenever_the_controller_dies_the_next_one_comes_to_the_same_end() -> None:
    ends: list[End] = []
    for fatal_write in range(SAFETY_LIMIT):
        end, dying = simulate(lambda: while_the_controller_dies(fatal_write))  # noqa: B023 (run at once)
        ends.append(end)
        if fatal_write and not dying.died:
            break
    assert len(ends) > 5, "the controller died several times"
    leaders = [{tp: (leader, isr) for tp, (leader, _, isr) in end.items()} for end in ends]
    assert all(found == leaders[0] for found in leaders), ends
    # A partition without leader is written again by each failover, and by no other cause (RM-10).
    epochs = [{tp: epoch for tp, (leader, epoch, _) in end.items() if leader >= 0} for end in ends]
    assert all(found == epochs[0] for found in epochs), ends


async def killed_while_it_leaves(after_s: float) -> None:
    """A SIGKILL falls into the middle of an orderly end; with `after_s` it also falls between its steps."""
    leaving = Leaving(1)
    await leaving.start({"a": [[1, 2, 3], [2, 1, 3]], "b": [[1, 2]]})
    cluster, agent = leaving.cluster, leaving.cluster.agents[BrokerId(1)]
    enough = asyncio.Event()
    producers = [asyncio.ensure_future(leaving.produce_until(enough, tp)) for tp in leaving.partitions]
    await asyncio.sleep(2)
    agent.incarnations[-1].stop.set()
    await asyncio.sleep(after_s)
    if agent.is_running:
        agent.lose_power()
    await cluster.until(lambda: not leaving.is_registered(1), "its registration is gone")
    await asyncio.sleep(0.5)
    assert all(1 not in (leaving.state(tp).leader, *leaving.state(tp).isr) for tp in leaving.partitions)
    agent.start()
    await cluster.until(lambda: all(1 in leaving.state(tp).isr for tp in leaving.partitions), "in sync again")
    enough.set()
    await asyncio.gather(*producers)
    assert leaving.errors <= RETRIABLE
    for tp, texts in leaving.acknowledged.items():
        read = await leaving.committed(tp)
        assert all(text in read for text in texts)
    await cluster.stop_all()
    assert check_all(cluster.records()) == []


@pytest.mark.rule("R12.3", "R12.6")
@pytest.mark.parametrize("after_ms", [0, 5, 12, 25])
def test_an_end_in_order_that_is_cut_short_loses_nothing_acknowledged_either(after_ms: int) -> None:
    simulate(lambda: killed_while_it_leaves(after_ms / 1000))


async def on_request() -> None:
    leaving = Leaving(1)
    await leaving.start({"a": [[1, 2, 3]]})
    agent = leaving.cluster.agents[BrokerId(1)]
    answer = await leaving.cluster.network.call("client", agent.address, ShutdownRequest(BrokerId(1)))
    assert answer is not None
    await leaving.cluster.until(lambda: not agent.is_running, "it is gone")
    assert leaving.end() == {"a-0": (2, 1, frozenset({2, 3}))}
    assert not leaving.is_registered(1)
    await leaving.cluster.stop_all()


def test_a_broker_that_is_asked_to_shut_down_leaves_as_by_a_signal() -> None:
    simulate(on_request)
