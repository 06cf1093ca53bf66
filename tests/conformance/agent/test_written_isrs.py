"""ISR changes below protocol version 2.7: the leader writes the state znode itself and announces it."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from broker_agent.decisions.isr import CommittedIsr
from cluster.model.broker import BrokerId, ControllerEpoch, PartitionEpoch
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.requests.cluster import DescribeFindingsRequest
from cluster.requests.control import LeaderAndIsrPartitionState
from cluster.znodes.paths import ISR_CHANGE_NOTIFICATION, state_path
from cluster.znodes.topics import decode_state, encode_state
from cluster.zookeeper.port import Create, Op, OpResult, SetData, ZkError
from simulator.zookeeper_client import SimulatedZooKeeperClient
from state_log.record import Cause, Kind
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, connect, until, virtually
from tests.brokers.isr_proposals import proposal, proposes_expansion

OLD = "2.6"


class WritingWorld(AgentWorld):
    """Agents that write ISRs themselves, and the state znodes that a controller has made."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**{"inter_broker_protocol_version": OLD, "replica_lag_time_max_ms": 3000, **settings})
        self.tool: SimulatedZooKeeperClient

    async def lead(self, leader: int, isr: Sequence[int], *, tp: TopicPartition = TP, **decided: Any) -> AgentProcess:
        """Decide on a leadership, write it and tell all replicas."""
        state = self.decide(leader, isr, tp=tp, **decided)
        await self.write(tp, state)
        await self.update_metadata()
        await self.tell(*(b for b in state.replicas if b in self.agents), tp=tp)
        return self.agents[leader]

    async def begin(self, *brokers: int) -> None:
        self.tool = await connect(self.zookeeper)
        await self.start(*brokers)

    async def write(self, tp: TopicPartition, state: LeaderAndIsrPartitionState) -> None:
        """Write the state znode as the controller does, which creates its parents."""
        path, body = state_path(tp), encode_state(leadership_of(state))
        if self.zookeeper.tree.get(path) is None:
            parts = path.split("/")
            for depth in range(4, len(parts)):
                await self.tool.multi([Create("/".join(parts[:depth]))])
            await self.tool.multi([Create(path, body)])
        else:
            await self.tool.multi([SetData(path, body, state.partition_epoch - 1)])

    def znode(self, tp: TopicPartition = TP) -> LeaderAndIsr:
        found = self.zookeeper.tree.get(state_path(tp))
        assert found is not None
        state = decode_state(tp, found.data, PartitionEpoch(found.stat.version))
        assert state is not None
        return state

    def announced(self) -> list[Any]:
        """What the notifications say, in their order."""
        tree = self.zookeeper.tree
        paths = [f"{ISR_CHANGE_NOTIFICATION}/{name}" for name in tree.children(ISR_CHANGE_NOTIFICATION) or ()]
        return [json.loads(znode.data) for path in paths if (znode := tree.get(path)) is not None]

    def announced_partitions(self) -> list[list[int]]:
        return [[item["partition"] for item in body["partitions"]] for body in self.announced()]


def leadership_of(state: LeaderAndIsrPartitionState) -> LeaderAndIsr:
    return LeaderAndIsr(state.leader, state.leader_epoch, state.isr, state.controller_epoch, state.partition_epoch)


def now() -> float:
    return asyncio.get_running_loop().time()


async def shrunk(world: WritingWorld, **decided: Any) -> AgentProcess:
    """Broker 1 leads with the ISR (1, 2), and 2 is gone: its removal is proposed, and perhaps written."""
    await world.begin(1, 2)
    leader = await world.lead(1, [1, 2], **decided)
    await world.agents.pop(2).crash()
    await leader.produce(1)
    return leader


@pytest.mark.rule("R8.18", "R8.19", "R8.15", "P18")
@virtually
async def test_the_leader_writes_the_new_isr_over_the_version_that_it_knows() -> None:
    world = WritingWorld()
    leader = await shrunk(world)
    await until(lambda: leader.partition().isr == (1,))
    znode = world.zookeeper.tree.get(state_path(TP))
    assert znode is not None
    assert znode.data == b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1]}'
    assert znode.stat.version == leader.partition().partition_epoch == 1
    assert world.controller.requests == []
    assert leader.agent.metrics.isr_shrinks.count == 1
    assert leader.agent.metrics.failed_isr_updates.count == 0
    assert leader.offsets() == (1, 1)
    await world.stop()


@pytest.mark.rule("R8.18", "R8.15", "P38")
@virtually
async def test_a_follower_that_has_caught_up_joins_by_a_write() -> None:
    world = WritingWorld()
    await world.begin(1, 2)
    leader = await world.lead(1, [1], replicas=[1, 2])
    await until(lambda: leader.partition().isr == (1, 2))
    assert (world.znode().isr, world.znode().partition_epoch) == ((1, 2), 1)
    assert leader.agent.metrics.isr_expands.count == 1
    (change,) = [r for r in leader.records.all if r.cause == Cause("IsrWritten")]
    assert (change.kind, change.to_state, change.isr, change.partition_epoch) == (Kind.ROLE, "leader", (1, 2), 1)
    await world.stop()


@pytest.mark.rule("R8.22")
@virtually
async def test_the_znode_keeps_the_epoch_of_the_controller_that_decided() -> None:
    world = WritingWorld()
    await world.begin(1, 2)
    leader = await world.lead(1, [1, 2], controller_epoch=ControllerEpoch(1))
    world.controller_epoch = ControllerEpoch(4)
    await world.update_metadata()
    assert leader.agent.control.known_controller_epoch == 4
    await world.agents.pop(2).crash()
    await leader.produce(1)
    await until(lambda: leader.partition().isr == (1,))
    assert world.znode().controller_epoch == 1
    await world.stop()


@pytest.mark.rule("R8.19", "R1.14")
@virtually
async def test_a_write_whose_answer_was_lost_is_repeated_and_found_to_have_succeeded() -> None:
    world = WritingWorld()
    leader = await shrunk(world)
    leader.zookeeper.lose_answer_of_next_write()
    await until(lambda: leader.partition().isr == (1,))
    assert world.znode().partition_epoch == leader.partition().partition_epoch == 1
    assert leader.agent.metrics.failed_isr_updates.count == 0
    assert leader.agent.metrics.isr_shrinks.count == 1
    await until(lambda: world.announced_partitions() == [[0]])
    await world.stop()


@pytest.mark.rule("R8.19", "R1.14")
@virtually
async def test_a_write_waits_for_the_connection_and_the_high_watermark_for_the_write() -> None:
    world = WritingWorld()
    await world.begin(1, 2)
    leader = await world.lead(1, [1, 2])
    leader.zookeeper.disconnect(5.5)
    await world.agents.pop(2).crash()
    await leader.produce(1)
    await asyncio.sleep(5)
    assert proposal(leader) is not None
    assert leader.offsets() == (0, 1)
    await until(lambda: leader.partition().isr == (1,))
    assert leader.offsets() == (1, 1)
    assert leader.agent.metrics.failed_isr_updates.count == 0
    await world.stop()


@pytest.mark.rule("R8.19", "R1.13", "R1.14")
@virtually
async def test_a_write_is_repeated_in_the_next_session() -> None:
    world = WritingWorld()
    await world.begin(1, 2)
    leader = await world.lead(1, [1, 2])
    leader.zookeeper.disconnect(8)  # Longer than the session lasts.
    await world.agents.pop(2).crash()
    await leader.produce(1)
    await until(lambda: leader.partition().isr == (1,), within_s=20)
    assert world.znode().isr == (1,)
    await world.stop()


@pytest.mark.rule("R8.19", "R8.17", "R8.21", "R8.16", "P18", "P43")
@virtually
async def test_a_leader_that_was_replaced_cannot_write_and_stays_pending_until_the_next_leader_and_isr() -> None:
    world = WritingWorld()
    await world.begin(1, 2, 3)
    former = await world.lead(1, [1, 2, 3])
    world.network.cut("broker-2:9092", "broker-1:9092")
    world.network.cut("broker-3:9092", "broker-1:9092")
    await former.produce(1)
    elected = world.decide(2, [2, 3])
    await world.write(TP, elected)
    await world.tell(2, 3)
    await until(lambda: former.agent.metrics.failed_isr_updates.count == 1)
    await asyncio.sleep(60)
    found = proposal(former)
    assert found is not None
    assert found.isr == (1,)
    assert former.offsets() == (0, 1)
    assert world.znode() == leadership_of(elected)
    assert former.agent.metrics.failed_isr_updates.count == 1
    assert world.announced() == []
    await world.tell(1)
    assert former.partition().isr_state == CommittedIsr(())
    await world.stop()


@pytest.mark.rule("R8.19", "R8.17")
@virtually
async def test_a_deleted_state_znode_leaves_the_change_pending() -> None:
    world = WritingWorld()
    await world.begin(1, 2)
    leader = await world.lead(1, [1, 2])
    del world.zookeeper.tree.znodes[state_path(TP)]
    await world.agents.pop(2).crash()
    await leader.produce(1)
    await until(lambda: leader.agent.metrics.failed_isr_updates.count == 1)
    await asyncio.sleep(30)
    assert proposal(leader) is not None
    assert leader.agent.metrics.failed_isr_updates.count == 1
    await world.stop()


@pytest.mark.rule("R8.19", "R8.16", "R8.28", "P43")
@virtually
async def test_any_other_failure_is_counted_and_the_same_write_repeated_every_50_ms() -> None:
    world = WritingWorld()
    attempts: list[float] = []

    def refuse(ops: Sequence[Op]) -> list[OpResult] | None:
        if ops[0].path != state_path(TP):
            return None
        attempts.append(now())
        return [OpResult(ZkError.NO_AUTH)]

    leader = await shrunk(world)
    leader.zookeeper.refuse_writes(refuse)
    await until(lambda: len(attempts) == 21)
    assert 1.0 <= attempts[20] - attempts[0] <= 1.2
    assert leader.agent.metrics.failed_isr_updates.count in (20, 21)
    await asyncio.sleep(31)
    (found,) = (await leader.handle(DescribeFindingsRequest())).findings
    assert (found.kind, found.topic, found.partition, found.broker) == ("stuck_isr_change", *TP, 1)
    assert found.detail.endswith("its state node cannot be written: UNKNOWN_SERVER_ERROR")
    leader.zookeeper.refuse_writes(None)
    await until(lambda: leader.partition().isr == (1,))
    assert (await leader.handle(DescribeFindingsRequest())).findings == ()
    await world.stop()


@pytest.mark.rule("R8.2", "P23")
@virtually
async def test_a_second_proposal_for_a_partition_is_not_attempted_while_the_first_is_written() -> None:
    world = WritingWorld()
    await world.begin(1, 2)
    leader = await world.lead(1, [1, 2])
    leader.zookeeper.disconnect(30)
    await leader.produce(1)
    world.network.cut("broker-2:9092", "broker-1:9092")
    await until(lambda: proposal(leader) is not None)
    # The controller has decided upon the next leader epoch; what is on its way is of the one before.
    world.decide(1, [1, 2])
    await world.tell(1)
    await until(lambda: leader.agent.metrics.failed_isr_updates.count > 0, within_s=20)
    assert leader.partition().isr_state == CommittedIsr((BrokerId(1), BrokerId(2)))
    await world.stop()


@pytest.mark.rule("R8.20", "R8.23", "R8.24", "P41", "IS-1")
@virtually
async def test_a_lone_change_is_announced_once_five_seconds_are_quiet() -> None:
    world = WritingWorld()
    leader = await shrunk(world)
    await until(lambda: world.znode().isr == (1,))
    changed = now()
    await until(lambda: world.announced() != [])
    assert 5.0 < now() - changed <= 7.6
    assert world.announced() == [{"version": 1, "partitions": [{"topic": TOPIC, "partition": 0}]}]
    (name,) = world.zookeeper.tree.children(ISR_CHANGE_NOTIFICATION) or ()
    assert name.startswith("isr_change_")
    assert len(name) == len("isr_change_") + 10
    await asyncio.sleep(120)
    assert len(world.announced()) == 1, "the broker deletes none, and announces a change once"
    await leader.stop()
    assert len(world.announced()) == 1, "it does not end with the session"


@pytest.mark.rule("R8.23", "P41")
@virtually
async def test_after_a_minute_without_an_announcement_a_change_is_announced_at_the_next_check() -> None:
    world = WritingWorld()
    await world.begin(1, 2)
    leader = await world.lead(1, [1, 2])
    await asyncio.sleep(61)
    await world.agents.pop(2).crash()
    await leader.produce(1)
    await until(lambda: world.znode().isr == (1,))
    changed = now()
    await until(lambda: world.announced() != [])
    assert now() - changed <= 2.6
    await world.stop()


@pytest.mark.rule("R8.23", "P41")
@virtually
async def test_changes_without_a_pause_are_announced_together_every_minute() -> None:
    world = WritingWorld(replica_lag_time_max_ms=1000, replica_socket_timeout_ms=500, replica_fetch_wait_max_ms=100)
    await world.begin(1, 2)
    partitions = [TopicPartition(TOPIC, number) for number in range(3)]
    for tp in partitions:
        leader = await world.lead(1, [1, 2], tp=tp)
    began = now()
    while not world.announced():
        world.network.cut("broker-2:9092", "broker-1:9092")
        for tp in partitions:
            await leader.produce(1, tp=tp)
        await until(lambda: all(len(world.znode(tp).isr) == 1 for tp in partitions))
        world.network.heal("broker-2:9092", "broker-1:9092")
        await until(lambda: all(len(world.znode(tp).isr) == 2 for tp in partitions))
    assert 60 < now() - began <= 65
    assert world.announced_partitions() == [[0, 1, 2]]
    await world.stop()


@pytest.mark.rule("R8.23", "P41")
@virtually
async def test_an_announcement_that_fails_is_made_at_the_next_check() -> None:
    world = WritingWorld()
    leader = await shrunk(world)
    await until(lambda: world.znode().isr == (1,))
    refused: list[float] = []

    def refuse(ops: Sequence[Op]) -> list[OpResult] | None:
        if not ops[0].path.startswith(ISR_CHANGE_NOTIFICATION) or len(refused) == 2:
            return None
        refused.append(now())
        return [OpResult(ZkError.NO_AUTH)]

    leader.zookeeper.refuse_writes(refuse)
    await until(lambda: world.announced_partitions() == [[0]], within_s=15)
    assert 4.9 < now() - refused[0] < 5.1
    await world.stop()


@pytest.mark.rule("R8.14", "R8.20")
@virtually
async def test_a_write_that_a_change_of_role_has_overtaken_is_announced_all_the_same() -> None:
    world = WritingWorld()
    leader = await shrunk(world)
    leader.zookeeper.disconnect(1.5)
    await until(lambda: proposal(leader) is not None and not proposes_expansion(leader))
    # It is told of the epoch in which it leads next before that is written.
    world.decide(1, [1])
    await world.tell(1)
    assert leader.partition().isr_state == CommittedIsr((BrokerId(1),))
    await until(lambda: world.znode().isr == (1,))
    await until(lambda: world.announced_partitions() == [[0]])
    assert leader.agent.metrics.isr_shrinks.count == 0
    await world.stop()


@pytest.mark.rule("R8.18", "R8.25")
@pytest.mark.parametrize(("version", "asks"), [("2.6", False), ("2.7-IV1", False), ("2.7-IV2", True), ("3.9", True)])
def test_the_protocol_version_says_who_writes(version: str, asks: bool) -> None:
    @virtually
    async def check() -> None:
        world = WritingWorld(inter_broker_protocol_version=version)
        leader = await shrunk(world)
        await until(lambda: leader.partition().isr == (1,))
        assert (len(world.controller.requests), world.znode().isr) == ((1, (1, 2)) if asks else (0, (1,)))
        await world.stop()

    check()


@pytest.mark.rule("R8.9", "R8.20")
@virtually
async def test_an_isr_is_not_recorded_before_the_role_in_whose_epoch_it_was_written() -> None:
    """The first partition of a request is led while the disk still works on the second one."""
    world = WritingWorld(replica_fetch_backoff_ms=10, replica_fetch_wait_max_ms=10)
    await world.begin(1, 2)
    partitions = (TP, TopicPartition(TOPIC, 1))
    for tp in partitions:
        await world.write(tp, world.decide(1, [1], replicas=[1, 2], tp=tp))
    await world.update_metadata()
    for tp in partitions:
        await world.tell(2, tp=tp)
    leader = world.agents[1]
    leader.disk.latency_s = (0.1, 1.0)
    await world.tell_together(1, *partitions)
    await until(lambda: all(len(leader.partition(tp).isr) == 2 for tp in partitions))
    for tp in partitions:
        causes = [r.cause.event for r in leader.records.all if r.partition == tp.partition and r.cause is not None]
        assert causes[-1] == "IsrWritten"
        assert causes.count("IsrWritten") == 1
    leader.disk.latency_s = (0, 0)
    await world.stop()
