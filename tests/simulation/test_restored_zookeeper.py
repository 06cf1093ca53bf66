"""ZooKeeper restored from a backup while the cluster runs, on real controllers and agents in memory, by seed.

Between the backup and the restore controllers and brokers crash, leaders and ISRs change, topics are created. After the
restore controllers are elected, one after the other, and decide from the earlier state; then the cluster is recovered.
"""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from cluster.model.broker import BrokerId
from cluster.model.errors import ClusterError, ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.requests.data import FetchPartition, FetchRequest, FetchResponse, ProducePartition, ProduceRequest
from cluster.requests.recovery import RecoverClusterRequest, RecoverClusterResponse
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from cluster.znodes.paths import broker_path, state_path, topic_path
from cluster.znodes.topics import decode_state, decode_topic
from simulator.cluster import SimulatedCluster, simulate
from simulator.record_batches import encode_client_batch

SESSION_S = 6


class Restored:
    """A cluster of three brokers, what it acknowledged, and its topics with their ids."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = SimulatedCluster(seed, controllers=2, brokers=3)
        self.acknowledged: dict[TopicPartition, list[bytes]] = {}
        self.ids: dict[str, str | None] = {}

    async def start(self) -> None:
        self.cluster.start_all()
        await self._wait_for(lambda: len(self.cluster.zookeeper.tree.children("/brokers/ids") or ()) == 3)

    async def create(self, topic: str) -> None:
        replicas = [self.random.sample((1, 2, 3), 3) for _ in range(2)]
        new = NewTopic(topic, assignments={p: tuple(map(BrokerId, r)) for p, r in enumerate(replicas)})
        await self._ask(CreateTopicsRequest((new,)))
        znode = self.cluster.zookeeper.tree.get(topic_path(topic))
        assert znode is not None
        self.ids[topic] = decode_topic(topic, znode.data).topic_id
        for partition in range(2):
            self.acknowledged[TopicPartition(topic, partition)] = []

    async def produce(self, rounds: int) -> None:
        for _ in range(rounds):
            for tp, texts in self.acknowledged.items():
                text = f"<{tp} {len(texts)} {self.random.random()}>".encode()
                if await self._produce(tp, text):
                    texts.append(text)

    async def change_something(self) -> None:
        """A controller or a broker crashes and returns; records are acknowledged meanwhile."""
        cluster, random = self.cluster, self.random
        active = cluster.active_controller()
        node = random.choice([*cluster.agents.values(), *([] if active is None else [active])])
        node.crash()
        await asyncio.sleep(random.choice((1, 8, 14)))
        await self.produce(2)
        # Until then the session of its predecessor lives, and an agent could not register.
        await cluster.until(lambda: not node.is_registered, "the session is over")
        node.start()
        await asyncio.sleep(random.choice((0, 2, 8)))
        await self.produce(2)

    async def all_in_sync(self) -> None:
        def are() -> bool:
            states = [self.state(tp) for tp in self.acknowledged]
            return all(s is not None and s.leader >= 0 and len(s.isr) == 3 for s in states)

        await self._wait_for(are)

    def all_are_registered(self) -> bool:
        """Before, brokers may not have noticed the restore yet, and refuse controllers once they do."""
        znodes, agents = self.cluster.zookeeper.tree.znodes, self.cluster.agents.values()
        own = {broker_path(agent.id): agent.incarnations[-1].zookeeper.session_id for agent in agents}
        return all(path in znodes and znodes[path].owner == session for path, session in own.items())

    async def recover(self) -> RecoverClusterResponse:
        """As an operator does: again, where the controller was replaced meanwhile or a broker was not there yet."""
        while True:
            try:
                answer = await self._ask(RecoverClusterRequest())
            except ClusterError:
                await asyncio.sleep(1)
            else:
                assert isinstance(answer, RecoverClusterResponse)
                return answer

    async def check(self) -> None:
        for name, topic_id in self.ids.items():
            znode = self.cluster.zookeeper.tree.get(topic_path(name))
            assert znode is not None, f"{name} is gone"
            assert decode_topic(name, znode.data).topic_id == topic_id
        for tp, texts in self.acknowledged.items():
            state = self.state(tp)
            assert state is not None
            for broker in state.isr:
                hosted = self.cluster.agents[broker].hosted(tp)
                assert hosted is not None
                assert hosted.leader_epoch == state.leader_epoch
            read = await self._committed(tp)
            lost = [text for text in texts if text not in read]
            assert not lost, f"{tp}: {len(lost)} of {len(texts)} acknowledged records are lost"

    def state(self, tp: TopicPartition) -> LeaderAndIsr | None:
        znode = self.cluster.zookeeper.tree.get(state_path(tp))
        return None if znode is None else decode_state(tp, znode.data, znode.stat.version)  # type: ignore[arg-type]

    async def _wait_for(self, condition: Callable[[], bool]) -> None:
        await self.cluster.until(lambda: self.cluster.active_controller() is not None, "an active controller")
        await self.cluster.until(condition, "at rest", timeout_s=120)

    async def _ask(self, request: object) -> object:
        active = self.cluster.active_controller()
        while active is None:
            await asyncio.sleep(0.1)
            active = self.cluster.active_controller()
        return await self.cluster.network.call("operator", active.address, request)

    async def _produce(self, tp: TopicPartition, text: bytes) -> bool:
        state = self.state(tp)
        if state is None or state.leader < 0:
            return False
        request = ProduceRequest(-1, 2000, (ProducePartition(tp.topic, tp.partition, encode_client_batch(text, 1)),))
        try:
            answer = await self.cluster.network.call("client", self.cluster.agents[state.leader].address, request)
        except ClusterError:
            return False
        return bool(answer.partitions[0].error_code is ErrorCode.NONE)  # type: ignore[attr-defined]

    async def _committed(self, tp: TopicPartition) -> bytes:
        state = self.state(tp)
        assert state is not None
        fetch = FetchPartition(tp.topic, None, tp.partition, 0, 1 << 24)  # type: ignore[arg-type]
        request = FetchRequest(BrokerId(-1), (fetch,), 0, 1, 1 << 24)
        answer = await self.cluster.network.call("client", self.cluster.agents[state.leader].address, request)
        assert isinstance(answer, FetchResponse)
        return answer.partitions[0].records


async def restore_and_recover(seed: int) -> None:
    run = Restored(seed)
    await run.start()
    await run.create("a")
    await run.produce(3)
    for _ in range(run.random.randrange(3)):
        await run.change_something()
    backup = run.cluster.zookeeper.tree.copy()
    for _ in range(run.random.randrange(1, 4)):
        await run.change_something()
    await run.cluster.until(lambda: run.cluster.active_controller() is not None, "an active controller")
    await run.create("later")
    await run.produce(3)
    for node in run.cluster.nodes:
        assert node.is_running
    run.cluster.zookeeper.restore(backup, SESSION_S)
    await asyncio.sleep(run.random.choice((1, 10, 30)))
    for _ in range(run.random.randrange(3)):
        # Controllers of the earlier state, under epochs that were used before, and above.
        active = run.cluster.active_controller()
        if active is not None:
            active.incarnations[-1].zookeeper.expire()
        await asyncio.sleep(10)
    await run.cluster.until(run.all_are_registered, "every broker has a session with the restored ZooKeeper")
    recovered = await run.recover()
    assert "later" in recovered.recovery.only_on_brokers
    await run.all_in_sync()
    await asyncio.sleep(5)
    await run.check()
    await run.produce(2)
    # A new leader, as of the preferred election, learns the high watermark from its followers.
    await asyncio.sleep(10)
    await run.check()
    await run.cluster.stop_all()


@pytest.mark.rule("RC-1", "RC-2", "RC-3", "RC-5", "RC-6", "R1.19")
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(s, marks=pytest.mark.deep) for s in range(6, 60))])
def test_nothing_acknowledged_is_lost_by_a_restore_that_is_recovered(seed: int) -> None:
    simulate(lambda: restore_and_recover(seed))
