"""A leader's reaction to each AlterPartition response, and what it does not do while a change is in flight."""

import asyncio
from typing import Any

import pytest

from broker_agent.decisions.isr import CommittedIsr, IsrProposal
from cluster.model.broker import UNKNOWN_BROKER_EPOCH, BrokerId, LeaderEpoch, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionResult
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, refuse, until, virtually
from tests.brokers.isr_proposals import proposal, proposes_expansion

STAY_PENDING = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)
TRIED_AGAIN = (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)


async def lead_beside_a_joining_follower(world: AgentWorld, **order: Any) -> AgentProcess:
    """Broker 1 leads with the ISR (1); broker 2 fetches, and is about to be proposed."""
    await world.start(1, 2)
    world.decide(1, [1], replicas=[1, 2], **order)
    await world.update_metadata()
    await world.tell(1, 2)
    return world.agents[1]


def joining_proposal(leader: AgentProcess) -> IsrProposal:
    """Broker 2 joins the ISR (1)."""
    one, two = BrokerId(1), BrokerId(2)
    return IsrProposal((one,), (one, two), (UNKNOWN_BROKER_EPOCH, leader.partition().remote[two].broker_epoch))


def success(item: AlterPartitionItem, **changes: Any) -> AlterPartitionResult:
    proposed: dict[str, Any] = {
        "leader_id": BrokerId(1),
        "leader_epoch": item.leader_epoch,
        "isr": item.new_isr,
        "partition_epoch": PartitionEpoch(item.partition_epoch + 1),
    }
    return AlterPartitionResult(
        item.topic_name, item.topic_id, item.partition_index, ErrorCode.NONE, **{**proposed, **changes}
    )


@pytest.mark.rule("R8.16", "R8.17", "P43")
@pytest.mark.parametrize("code", STAY_PENDING)
def test_what_may_have_been_applied_stays_pending_until_the_next_order(code: ErrorCode) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        world.controller.answer = lambda item: refuse(item, code)
        leader = await lead_beside_a_joining_follower(world)
        await until(lambda: leader.agent.metrics.failed_isr_updates.count == 1)
        await leader.produce(2)
        await asyncio.sleep(90)
        assert proposal(leader) == joining_proposal(leader)
        assert len(world.controller.requests) == 1
        world.decide(1, [1, 2])
        await world.tell(1, 2)
        assert leader.partition().isr_state == CommittedIsr((BrokerId(1), BrokerId(2)))
        await world.stop()

    check()


@pytest.mark.rule("R8.16", "P43")
@pytest.mark.parametrize("code", TRIED_AGAIN)
def test_any_other_error_makes_the_leader_submit_the_very_same_change_again(code: ErrorCode) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        world.controller.answer = lambda item: refuse(item, code)
        leader = await lead_beside_a_joining_follower(world)
        await until(lambda: len(world.controller.requests) == 4)
        assert proposes_expansion(leader)
        assert leader.agent.metrics.failed_isr_updates.count in (3, 4)
        assert len({request.partitions for request in world.controller.requests}) == 1
        world.controller.answer = world.accept
        await until(lambda: leader.partition().isr_state == CommittedIsr((BrokerId(1), BrokerId(2))))
        await world.stop()

    check()


@pytest.mark.rule("R8.15", "R8.17")
@pytest.mark.parametrize(
    "proposed",
    [{"leader_epoch": LeaderEpoch(4)}, {"leader_epoch": LeaderEpoch(6)}, {"partition_epoch": PartitionEpoch(8)}],
    ids=["older leader epoch", "newer leader epoch", "older partition epoch"],
)
def test_a_success_in_other_epochs_is_none(proposed: dict[str, Any]) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        world.controller.answer = lambda item: success(item, **proposed)
        leader = await lead_beside_a_joining_follower(
            world, leader_epoch=LeaderEpoch(5), partition_epoch=PartitionEpoch(9)
        )
        await until(lambda: leader.agent.metrics.failed_isr_updates.count == 1)
        assert proposes_expansion(leader)
        assert (leader.partition().leader_epoch, leader.partition().partition_epoch) == (5, 9)
        assert leader.agent.metrics.isr_expands.count == 0
        await world.stop()

    check()


@pytest.mark.rule("R8.15")
@pytest.mark.parametrize("rise", [0, 1, 5])
def test_the_set_and_the_epoch_of_the_answer_are_taken_as_they_are(rise: int) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        world.controller.answer = lambda item: success(
            item, isr=(BrokerId(2), BrokerId(1)), partition_epoch=PartitionEpoch(item.partition_epoch + rise)
        )
        leader = await lead_beside_a_joining_follower(world, partition_epoch=PartitionEpoch(9))
        await until(lambda: leader.partition().isr_state == CommittedIsr((BrokerId(2), BrokerId(1))))
        assert leader.partition().partition_epoch == 9 + rise
        assert leader.agent.metrics.isr_expands.count == 1
        assert leader.agent.metrics.failed_isr_updates.count == 0
        await world.stop()

    check()


@pytest.mark.rule("R8.15", "R6.19", "P43")
@virtually
async def test_a_shrink_that_commits_moves_the_high_watermark_and_answers_who_waits() -> None:
    world = AgentWorld(replica_lag_time_max_ms=3000)
    await world.start(1, 2)
    await world.create(1, [1, 2])
    await world.agents.pop(2).crash()
    leader = world.agents[1]
    produced = await leader.produce(3, acks=-1, timeout_ms=60_000)
    assert produced.error_code is ErrorCode.NONE
    assert leader.offsets() == (3, 3)
    assert leader.agent.metrics.isr_shrinks.count == 1
    await world.stop()


@pytest.mark.rule("R8.2")
@virtually
async def test_one_change_is_on_its_way_at_most_and_those_who_wait_come_one_by_one() -> None:
    world = AgentWorld(replica_fetch_wait_max_ms=50, replica_lag_time_max_ms=4000)
    world.controller.answer = lambda _: None
    await world.start(1, 2, 3, 4)
    world.decide(1, [1, 4], replicas=[1, 2, 3, 4])
    await world.update_metadata()
    await world.tell(1, 2, 3)  # Broker 4 never fetches, and would have to go.
    leader = world.agents[1]
    await leader.produce(1)
    await asyncio.sleep(20)
    assert proposes_expansion(leader)
    assert len({request.partitions for request in world.controller.requests}) == 1
    world.controller.requests.clear()
    world.controller.answer = world.accept
    await until(lambda: sorted(leader.partition().isr) == [1, 2, 3])
    changes = [request.partitions[0].new_isr for request in world.controller.requests]
    assert [len(change) for change in changes] in ([3, 4, 3], [3, 2, 3])
    await world.stop()


@pytest.mark.rule("R8.7", "R8.4")
@virtually
async def test_all_who_fell_behind_go_in_one_proposal_whatever_min_isr_says_and_the_leader_stays() -> None:
    world = AgentWorld(min_insync_replicas=3, replica_lag_time_max_ms=3000)
    await world.start(1, 2, 3)
    await world.create(1, [1, 2, 3])
    for broker in (2, 3):
        await world.agents.pop(broker).crash()
    leader = world.agents[1]
    await leader.produce(1)
    await until(lambda: leader.partition().isr == (1,), within_s=10)
    [request] = world.controller.requests
    assert request.partitions[0].new_isr == (1,)
    await asyncio.sleep(30)
    assert len(world.controller.requests) == 1
    await world.stop()


@pytest.mark.rule("R8.5")
@virtually
async def test_an_idle_partition_does_not_shrink_however_long_ago_its_followers_fetched() -> None:
    world = AgentWorld(replica_lag_time_max_ms=3000)
    await world.start(1, 2)
    await world.create(1, [1, 2])
    leader = world.agents[1]
    await leader.produce(4, acks=-1)
    await world.agents.pop(2).crash()
    await asyncio.sleep(60)
    assert leader.partition().isr_state == CommittedIsr((BrokerId(1), BrokerId(2)))
    assert world.controller.requests == []
    await world.stop()


@pytest.mark.rule("R8.8")
@virtually
async def test_the_check_of_one_partition_that_fails_does_not_keep_the_others_from_theirs() -> None:
    world = AgentWorld(replica_lag_time_max_ms=3000)
    await world.start(1, 2)
    await world.create(1, [1, 2])
    other = TopicPartition(TOPIC, 1)
    world.decide(1, [1, 2], tp=other)
    await world.update_metadata()
    await world.tell(1, 2, tp=other)
    leader = world.agents[1]

    def fail(_: float) -> None:
        raise RuntimeError("a bug in one partition")

    leader.partition().propose_shrink = fail  # type: ignore[method-assign, assignment]
    await world.agents.pop(2).crash()
    await leader.produce(1)
    await leader.produce(1, tp=other)
    await until(lambda: leader.partition(other).isr == (1,), within_s=10)
    assert leader.partition().isr == (1, 2)
    await leader.produce(1, tp=other)
    await world.stop()


@pytest.mark.rule("R8.9", "R0.6")
@virtually
async def test_no_change_is_proposed_while_a_role_is_being_changed() -> None:
    world = AgentWorld(replica_lag_time_max_ms=1000, replica_fetch_wait_max_ms=50)
    await world.start(1, 2, 3)
    await world.create(1, [1, 2])
    leader = world.agents[1]
    await leader.produce(3)
    await world.agents[2].crash()
    leader.disk.latency_s = (10, 10)
    world.decide(1, [1, 2], replicas=[1, 2, 3])
    order = asyncio.ensure_future(world.tell(1))
    await asyncio.sleep(5)
    assert leader.partition().is_changing_role
    assert leader.partition().propose_shrink(leader.agent.manager.now_ms()) is None
    await asyncio.sleep(4)
    assert world.controller.requests == []
    await order
    leader.disk.latency_s = (0, 0)
    await until(lambda: leader.partition().isr == (1,))
    [request] = world.controller.requests
    assert request.partitions[0].leader_epoch == 1
    del world.agents[2]
    await world.stop()


@pytest.mark.rule("R8.9", "R0.6")
@virtually
async def test_a_follower_that_fetches_during_a_change_of_role_is_proposed_only_in_the_new_epoch() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    world.decide(1, [1], replicas=[1, 2])
    await world.update_metadata()
    await world.tell(1)
    leader = world.agents[1]
    leader.disk.latency_s = (10, 10)
    world.decide(1, [1])
    order = asyncio.ensure_future(world.tell(1))
    await asyncio.sleep(5)
    data = await leader.fetch(0, replica=2, epoch=0)
    assert data.error_code is ErrorCode.NONE
    assert leader.partition().isr_state == CommittedIsr((BrokerId(1),))
    await order
    leader.disk.latency_s = (0, 0)
    await leader.fetch(0, replica=2, epoch=1)
    assert proposal(leader) == joining_proposal(leader)
    await until(lambda: leader.partition().isr == (1, 2))
    assert world.controller.requests[0].partitions[0].leader_epoch == 1
    await world.stop()


@pytest.mark.rule("R8.12", "R8.11")
@virtually
async def test_a_follower_joins_by_its_offset_although_it_was_never_caught_up_in_time() -> None:
    world = AgentWorld(replica_lag_time_max_ms=1000, min_insync_replicas=2)
    await world.start(1)
    world.decide(1, [1], replicas=[1, 2])
    world.agents[2] = world.agents[1]
    await world.update_metadata(1, 2, to=[1])
    del world.agents[2]
    await world.tell(1)
    leader = world.agents[1]
    await leader.produce(10)
    world.decide(1, [1])
    await world.tell(1)
    partition = leader.partition()
    assert (partition.epoch_start_offset, leader.offsets()) == (10, (0, 10))  # Under its min ISR it commits nothing.
    await leader.produce(10)
    world.controller.answer = lambda _: None
    for offset in (0, 5, 9):
        await leader.fetch(offset, replica=2, epoch=1, max_bytes=1)
        assert partition.isr_state == CommittedIsr((BrokerId(1),))  # Above the high watermark, below the epoch.
    await leader.fetch(10, replica=2, epoch=1, max_bytes=1)
    assert partition.remote[BrokerId(2)].last_caught_up_ms < 0
    assert proposal(leader) == joining_proposal(leader)
    await world.stop()


@pytest.mark.rule("R8.10")
@virtually
async def test_a_follower_whose_broker_is_not_known_to_live_is_not_proposed() -> None:
    world = AgentWorld()
    await world.start(1)
    world.decide(1, [1], replicas=[1, 2])
    await world.update_metadata(1)
    await world.tell(1)
    leader = world.agents[1]
    await leader.fetch(0, replica=2, epoch=0)
    assert leader.partition().isr_state == CommittedIsr((BrokerId(1),))
    world.agents[2] = leader
    await world.update_metadata(1, 2, to=[1])
    del world.agents[2]
    await leader.fetch(0, replica=2, epoch=0)
    assert proposal(leader) == joining_proposal(leader)
    await world.stop()


@pytest.mark.rule("R8.27")
@virtually
async def test_a_leader_writes_no_node_for_the_changes_it_proposes() -> None:
    world = AgentWorld(replica_lag_time_max_ms=3000)
    leader = await lead_beside_a_joining_follower(world)
    tree = world.zookeeper.tree

    def nodes() -> dict[str, int]:
        return {path: node.mzxid for path, node in tree.znodes.items() if not path.startswith("/controllers")}

    before = nodes()
    await until(lambda: leader.partition().isr == (1, 2))
    await world.agents.pop(2).crash()
    await leader.produce(1)
    await until(lambda: leader.partition().isr == (1,), within_s=10)
    after = {path: mzxid for path, mzxid in nodes().items() if not path.startswith("/brokers/ids")}
    assert after == {path: mzxid for path, mzxid in before.items() if not path.startswith("/brokers/ids")}
    assert tree.children("/isr_change_notification") == ()
    assert leader.agent.metrics.isr_expands.count == leader.agent.metrics.isr_shrinks.count == 1
    await world.stop()


@pytest.mark.rule("R8.26", "P43")
@virtually
async def test_without_a_controller_a_change_waits_and_is_sent_every_50_ms_until_there_is_one() -> None:
    world = AgentWorld()
    world.controller.top_level = ErrorCode.NOT_CONTROLLER
    leader = await lead_beside_a_joining_follower(world)
    await until(lambda: len(world.controller.requests) == 1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await until(lambda: len(world.controller.requests) == 21)
    assert 1.0 <= loop.time() - began <= 1.15
    assert leader.agent.metrics.failed_isr_updates.count == 0
    assert proposes_expansion(leader)
    world.controller.top_level = ErrorCode.NONE
    await until(lambda: leader.partition().isr == (1, 2))
    await world.stop()


@pytest.mark.rule("R8.14", "P43")
@virtually
async def test_a_change_of_a_leader_that_became_a_follower_is_forgotten() -> None:
    world = AgentWorld(replica_lag_time_max_ms=3000)
    await world.start(1, 2)
    await world.create(1, [1, 2])
    world.controller.top_level = ErrorCode.NOT_CONTROLLER
    leader = world.agents[1]
    world.network.cut("broker-2:9092", "broker-1:9092")
    await leader.produce(1)
    await until(lambda: proposal(leader) is not None and not proposes_expansion(leader), within_s=60)
    world.network.heal("broker-2:9092", "broker-1:9092")
    world.decide(2, [2, 1])
    await world.tell(2, 1)
    assert leader.partition().isr_state == CommittedIsr(())
    world.controller.answer = lambda item: success(item, leader_epoch=LeaderEpoch(1))
    world.controller.top_level = ErrorCode.NONE
    await asyncio.sleep(2)
    assert leader.partition(TP).isr_state == CommittedIsr(())
    assert leader.agent.metrics.isr_shrinks.count == 0
    await world.stop()
