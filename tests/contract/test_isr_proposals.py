"""What both ways of writing an ISR promise: through the controller, and by the leader in ZooKeeper."""

import asyncio
from collections.abc import Callable
from typing import Protocol

import pytest

from broker_agent.replication.controller_isr_proposals import ControllerIsrProposals
from broker_agent.replication.isr_proposals import STUCK_ISR_CHANGE, WAIT_MAX_S, IsrProposals
from broker_agent.replication.zookeeper_isr_proposals import ZooKeeperIsrProposals
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionResult
from cluster.znodes.paths import BROKERS_TOPICS, partition_path, partitions_path, state_path, topic_path
from cluster.znodes.topics import encode_state
from cluster.zookeeper.port import Create, OpResult, ZkError
from simulator.network import SimulatedClusterClient
from simulator.zookeeper_client import SimulatedZooKeeperClient
from state_log.record import Cause
from tests.brokers.agents import CONTROLLER_ENDPOINTS, AgentWorld, connect, refuse, until, virtually

ONE, TWO, EPOCH = BrokerId(1), BrokerId(2), ControllerEpoch(1)
PARTITIONS = [TopicPartition("t", number) for number in range(3)]


class Writer(Protocol):
    """One way, with a state of each partition that broker 1 leads: the ISR is (1, 2), all epochs 0."""

    proposals: IsrProposals

    async def begin(self) -> None: ...

    def hold_up(self, *, ends: bool) -> None:
        """Let no proposal succeed from now on, until that ends."""


class ThroughController:
    def __init__(self) -> None:
        self.world = AgentWorld()
        self.proposals: IsrProposals = ControllerIsrProposals(
            ONE,
            broker_epoch=lambda: BrokerEpoch(5),
            controller=lambda: CONTROLLER_ENDPOINTS[1],
            client=SimulatedClusterClient(self.world.network, "broker-1:9092"),
            timeout_ms=1000,
        )

    async def begin(self) -> None:
        for tp in PARTITIONS:
            self.world.decide(1, [1, 2], tp=tp)

    def hold_up(self, *, ends: bool) -> None:
        refused = ErrorCode.UNKNOWN_SERVER_ERROR
        self.world.controller.answer = self.world.accept if ends else lambda item: refuse(item, refused)


class InZooKeeper:
    def __init__(self) -> None:
        self.world = AgentWorld()
        self.client = SimulatedZooKeeperClient(self.world.zookeeper)
        self.proposals: IsrProposals = ZooKeeperIsrProposals(ONE, self.client)

    async def begin(self) -> None:
        tool = await connect(self.world.zookeeper)
        self.client.listen(lambda _: None)
        await self.client.start_session()
        paths = [topic_path("t"), partitions_path("t"), *map(partition_path, PARTITIONS)]
        assert paths[0].startswith(BROKERS_TOPICS)
        state = encode_state(LeaderAndIsr(ONE, LeaderEpoch(0), (ONE, TWO), EPOCH, PartitionEpoch(0)))
        await tool.multi([*map(Create, paths), *(Create(state_path(tp), state) for tp in PARTITIONS)])

    def hold_up(self, *, ends: bool) -> None:
        self.client.refuse_writes(None if ends else lambda ops: [OpResult(ZkError.NO_AUTH) for _ in ops])


writers = pytest.mark.parametrize("make", [ThroughController, InZooKeeper])


def shrink(partition: int, partition_epoch: int = 0) -> AlterPartitionItem:
    return AlterPartitionItem("t", None, partition, LeaderEpoch(0), (ONE,), PartitionEpoch(partition_epoch))


class Answers:
    """What the completions were called with, in their order."""

    def __init__(self) -> None:
        self.all: list[AlterPartitionResult] = []

    def take(self, answer: AlterPartitionResult, _: Cause) -> None:
        self.all.append(answer)

    @property
    def codes(self) -> list[tuple[int, ErrorCode]]:
        return [(answer.partition_index, answer.error_code) for answer in self.all]


@writers
def test_each_proposal_is_completed_once_with_the_state_in_effect(make: Callable[[], Writer]) -> None:
    @virtually
    async def check() -> None:
        writer, answers = make(), Answers()
        await writer.begin()
        running = asyncio.ensure_future(writer.proposals.run())
        for number in range(3):
            writer.proposals.submit(shrink(number), answers.take, controller_epoch=EPOCH)
        await until(lambda: len(answers.all) == 3)
        await asyncio.sleep(5)
        assert sorted(answers.codes) == [(number, ErrorCode.NONE) for number in range(3)]
        assert {(a.leader_id, a.leader_epoch, a.isr, a.partition_epoch) for a in answers.all} == {(1, 0, (1,), 1)}
        running.cancel()

    check()


@writers
def test_a_second_proposal_for_a_partition_is_not_attempted(make: Callable[[], Writer]) -> None:
    @virtually
    async def check() -> None:
        writer, answers = make(), Answers()
        await writer.begin()
        running = asyncio.ensure_future(writer.proposals.run())
        writer.proposals.submit(shrink(0), answers.take, controller_epoch=EPOCH)
        writer.proposals.submit(shrink(0), answers.take, controller_epoch=EPOCH)
        assert answers.codes == [(0, ErrorCode.OPERATION_NOT_ATTEMPTED)]
        await until(lambda: len(answers.all) == 2)
        assert answers.codes[1] == (0, ErrorCode.NONE)
        running.cancel()

    check()


@writers
def test_one_of_an_older_partition_epoch_has_no_effect(make: Callable[[], Writer]) -> None:
    @virtually
    async def check() -> None:
        writer, answers = make(), Answers()
        await writer.begin()
        running = asyncio.ensure_future(writer.proposals.run())
        writer.proposals.submit(shrink(0), answers.take, controller_epoch=EPOCH)
        await until(lambda: len(answers.all) == 1)
        late = AlterPartitionItem("t", None, 0, LeaderEpoch(0), (ONE, TWO), PartitionEpoch(0))
        writer.proposals.submit(late, answers.take, controller_epoch=EPOCH)
        await until(lambda: len(answers.all) == 2)
        assert answers.codes[1] == (0, ErrorCode.INVALID_UPDATE_VERSION)
        running.cancel()

    check()


@writers
def test_a_completion_may_submit_the_next_and_one_that_fails_leaves_the_others_alone(
    make: Callable[[], Writer],
) -> None:
    @virtually
    async def check() -> None:
        writer, answers = make(), Answers()
        await writer.begin()
        running = asyncio.ensure_future(writer.proposals.run())

        def grow_again(answer: AlterPartitionResult, _: Cause) -> None:
            back = AlterPartitionItem("t", None, 1, LeaderEpoch(0), (ONE, TWO), answer.partition_epoch)
            writer.proposals.submit(back, answers.take, controller_epoch=EPOCH)

        def fail(_: AlterPartitionResult, __: Cause) -> None:
            raise RuntimeError("a bug in one partition")

        writer.proposals.submit(shrink(0), fail, controller_epoch=EPOCH)
        writer.proposals.submit(shrink(1), grow_again, controller_epoch=EPOCH)
        writer.proposals.submit(shrink(2), answers.take, controller_epoch=EPOCH)
        await until(lambda: len(answers.all) == 2)
        assert {(a.partition_index, a.isr, a.partition_epoch) for a in answers.all} == {(1, (1, 2), 2), (2, (1,), 1)}
        running.cancel()

    check()


@writers
def test_one_without_effect_is_a_finding_after_a_while_until_it_has_some(make: Callable[[], Writer]) -> None:
    @virtually
    async def check() -> None:
        writer, answers = make(), Answers()
        await writer.begin()
        writer.hold_up(ends=False)
        running = asyncio.ensure_future(writer.proposals.run())

        def again(answer: AlterPartitionResult, cause: Cause) -> None:
            if answer.error_code is ErrorCode.NONE:
                answers.take(answer, cause)
            else:
                writer.proposals.submit(shrink(0), again, controller_epoch=EPOCH)

        writer.proposals.submit(shrink(0), again, controller_epoch=EPOCH)
        await asyncio.sleep(WAIT_MAX_S - 1)
        assert list(writer.proposals.findings()) == []
        await asyncio.sleep(2)
        (found,) = writer.proposals.findings()
        assert (found.kind, found.topic, found.partition, found.broker) == (STUCK_ISR_CHANGE, "t", 0, 1)
        assert found.detail.endswith("UNKNOWN_SERVER_ERROR")
        writer.hold_up(ends=True)
        await until(lambda: answers.codes == [(0, ErrorCode.NONE)])
        assert list(writer.proposals.findings()) == []
        running.cancel()

    check()


@writers
def test_a_withdrawn_proposal_is_neither_completed_nor_written_later(make: Callable[[], Writer]) -> None:
    @virtually
    async def check() -> None:
        writer, answers = make(), Answers()
        await writer.begin()
        for number in (0, 1):
            writer.proposals.submit(shrink(number), answers.take, controller_epoch=EPOCH)
        await writer.proposals.withdraw([PARTITIONS[0]])
        running = asyncio.ensure_future(writer.proposals.run())
        await asyncio.sleep(WAIT_MAX_S + 5)
        assert answers.codes == [(1, ErrorCode.NONE)]
        assert [*writer.proposals.findings()] == []
        running.cancel()

    check()


@virtually
async def test_a_write_on_its_way_is_over_before_its_partition_may_be_created_again() -> None:
    """A topic that is created again under the name begins with the same version and epochs."""
    writer, answers = InZooKeeper(), Answers()
    await writer.begin()
    running = asyncio.ensure_future(writer.proposals.run())
    writer.client.disconnect(2)
    writer.proposals.submit(shrink(0), answers.take, controller_epoch=EPOCH)
    await asyncio.sleep(0.5)
    began = asyncio.get_running_loop().time()
    await writer.proposals.withdraw([PARTITIONS[0]])
    assert asyncio.get_running_loop().time() - began > 1, "the write was still on its way"
    before = await (await connect(writer.world.zookeeper)).get(state_path(PARTITIONS[0]))
    assert before is not None
    await asyncio.sleep(20)
    after = await (await connect(writer.world.zookeeper)).get(state_path(PARTITIONS[0]))
    assert after is not None
    assert (after.data, after.stat.version) == (before.data, before.stat.version)
    assert answers.all == []
    running.cancel()
