"""A refused report of damaged replicas changes nothing, and one lives as long as the registration that it names."""

import asyncio

import pytest

from cluster.model.broker import BrokerEpoch, BrokerId, Offset
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import (
    RECOVERY,
    AlterPartitionItem,
    AlterPartitionRequest,
    ReportDamagedReplicasRequest,
    ReportedDamage,
)
from cluster.requests.cluster import DescribeFindingsRequest
from cluster.requests.elections import PREFERRED, ElectLeadersRequest, ElectLeadersTopic
from cluster.znodes.paths import broker_path, state_path, topic_path
from cluster.zookeeper.port import SetData
from tests.controllers.contexts import ids
from tests.controllers.refused_writes import Refusal, WriteRefusals
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

E = ErrorCode
FAR_AHEAD = 2**40


async def cluster(*replicas: int, brokers: tuple[int, ...] = (1, 2, 3)) -> tuple[World, RunningController]:
    """Topic t with one partition on these brokers, all in sync."""
    world, c = await running_cluster(*brokers, auto_leader_rebalance_enable=False)
    await world.create_topic("t", list(replicas))
    await world.leads("t", leader=replicas[0])
    return world, c


def reported(broker: int, epoch: int, topic: str = "t", partition: int = 0) -> ReportDamagedReplicasRequest:
    damage = ReportedDamage(topic, None, partition, Offset(3), Offset(9), 100, RECOVERY)
    return ReportDamagedReplicasRequest(BrokerId(broker), BrokerEpoch(epoch), (damage,))


async def codes(c: RunningController, request: ReportDamagedReplicasRequest) -> list[ErrorCode]:
    """Those of the answer: that of the request, then that of each replica."""
    answer = await c.ask(request)
    return [answer.error_code, *(result.error_code for result in answer.replicas)]


async def alter_isr(world: World, c: RunningController, *isr: int) -> None:
    state = await world.state("t")
    assert state is not None
    item = AlterPartitionItem("t", None, 0, state.leader_epoch, ids(*isr), state.partition_epoch)
    await c.ask(AlterPartitionRequest(state.leader, await world.broker_epoch(state.leader), (item,)))


@pytest.mark.rule("D-40")
def test_a_report_under_a_broker_epoch_that_nobody_has_makes_no_replica_unelectable() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3)
        for broker in (1, 2, 3, 9):
            assert await codes(c, reported(broker, FAR_AHEAD)) == [E.STALE_BROKER_EPOCH]
        assert c.context.damage.reports == {}
        assert (await c.ask(DescribeFindingsRequest())).findings == ()
        await world.stop_broker(1)
        await world.leads("t", leader=2, isr=[2, 3])
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-40", "D-41")
def test_a_report_under_a_wrong_epoch_does_not_release_what_waits() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await alter_isr(world, c, 1)
        await world.stop_broker(2)
        await world.stop_broker(1)
        await world.leads("t", leader=-1, isr=[1])
        await world.start_broker(1, damaged=True)
        await quiesce()
        assert await codes(c, reported(1, await world.broker_epoch(1))) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        assert await codes(c, reported(1, FAR_AHEAD)) == [E.STALE_BROKER_EPOCH]
        await quiesce(5)
        await world.start_broker(3)
        await quiesce(5)
        await world.leads("t", leader=-1, isr=[1])
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-40")
def test_a_report_under_a_former_broker_epoch_that_arrives_late_holds_nothing() -> None:
    """It is asked about when the broker has registered anew, and before the controller has seen that."""

    async def main() -> None:
        world, c = await cluster(1)
        await world.stop_broker(1)
        await world.leads("t", leader=-1, isr=[1])
        await world.start_broker(1, damaged=True)
        former = await world.broker_epoch(1)
        await quiesce()
        late = asyncio.ensure_future(codes(c, reported(1, former)))
        await world.stop_broker(1)
        await world.start_broker(1)
        assert await late in ([E.STALE_BROKER_EPOCH], [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE])
        assert await codes(c, reported(1, former)) == [E.STALE_BROKER_EPOCH]
        await world.leads("t", leader=1, isr=[1])
        assert c.context.damage.reports == {}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-40")
def test_a_broker_that_cannot_join_names_its_damage_in_vain() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create(
            broker_path(BrokerId(4)), b'{"version":4,"endpoints":["OTHER://h:1"],"has_damaged_replicas":true}'
        )
        await quiesce()
        assert await codes(c, reported(4, await world.broker_epoch(4))) == [E.STALE_BROKER_EPOCH]
        assert c.context.damage.reports == {}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-41", "PS-20")
def test_a_damaged_member_of_the_isr_waits_although_another_partition_may_elect_uncleanly() -> None:
    """Both partitions of a topic that allows it: only the one without a member of its ISR may lose records."""

    async def main() -> None:
        world, c = await running_cluster(
            1, 2, 3, auto_leader_rebalance_enable=False, unclean_leader_election_enable=True
        )
        await world.create_topic("t", [1, 2], [3, 2])
        await world.leads("t", 0, leader=1)
        await world.leads("t", 1, leader=3)
        for partition, isr in ((0, (1,)), (1, (3,))):
            state = await world.state("t", partition)
            assert state is not None
            item = AlterPartitionItem("t", None, partition, state.leader_epoch, ids(*isr), state.partition_epoch)
            await c.ask(AlterPartitionRequest(state.leader, await world.broker_epoch(state.leader), (item,)))
        await world.stop_broker(2)
        await world.stop_broker(1, 3)
        await world.leads("t", 0, leader=-1)
        await world.leads("t", 1, leader=-1)
        await world.start_broker(1, damaged=True)
        await quiesce()
        assert await codes(c, reported(1, await world.broker_epoch(1))) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        await world.start_broker(2)
        await world.leads("t", 1, leader=2)
        waiting = await world.state("t", 0)
        assert waiting is not None
        assert (waiting.leader, waiting.isr) == (-1, (1,))
        await world.leads("t", 0, leader=1, isr=[1])
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-40", "INV-4")
def test_a_damaged_replica_stays_unelectable_while_zookeeper_refuses_its_replacement() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3)
        await world.stop_broker(1)
        await world.leads("t", leader=2, isr=[2, 3])
        await world.start_broker(1)
        await quiesce()
        await alter_isr(world, c, 2, 3, 1)
        refusals = WriteRefusals(Refusal.NO_AUTH, 0)
        c.zookeeper.refuse_writes(refusals)
        epoch = await world.broker_epoch(1)
        assert await codes(c, reported(1, epoch)) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        await world.leads("t", leader=2, isr=[2, 3, 1])
        (finding,) = (await c.ask(DescribeFindingsRequest())).findings
        assert "but ZooKeeper refused that" in finding.detail
        answer = await c.ask(ElectLeadersRequest(PREFERRED, (ElectLeadersTopic("t", (0,)),), timeout_ms=1000))
        assert answer.results[0].partition_result[0].error_code is E.PREFERRED_LEADER_NOT_AVAILABLE
        assert await codes(c, reported(1, epoch)) == [E.NONE, E.NONE]
        await world.leads("t", leader=2, isr=[2, 3])
        assert (await c.ask(DescribeFindingsRequest())).findings == ()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-41")
@pytest.mark.parametrize("path", [topic_path("t"), state_path(TopicPartition("t", 0))])
def test_damage_of_a_partition_whose_znode_is_malformed_is_not_forgotten(path: str) -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await alter_isr(world, c, 1)
        await world.stop_broker(2)
        await world.stop_broker(1)
        await world.leads("t", leader=-1, isr=[1])
        znode = await c.zookeeper.get(path)
        assert znode is not None
        await world.write(SetData(path, b"{"))
        c.crash()
        successor = world.start_controller(1002, auto_leader_rebalance_enable=False)
        await until(lambda: successor.is_active, "another controller")
        await world.start_broker(1, damaged=True)
        await quiesce()
        report = reported(1, await world.broker_epoch(1))
        assert await codes(successor, report) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        findings = (await successor.ask(DescribeFindingsRequest())).findings
        assert any("repair the malformed znodes" in finding.detail for finding in findings)
        await quiesce(90)
        await world.write(SetData(path, znode.data))
        await quiesce(20)
        await world.leads("t", leader=-1, isr=[1])
        assert await codes(successor, report) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        await quiesce(50)
        await world.leads("t", leader=-1, isr=[1])
        await world.leads("t", leader=1, isr=[1])
        await successor.stop()

    run_virtually(main)
