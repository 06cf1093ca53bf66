"""ControlledShutdown: refusals, moved leaderships, requests to brokers, and the response."""

import asyncio
from typing import Any

import pytest

from cluster.model.broker import BrokerEpoch, BrokerId, ControllerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import LeaderAndIsr
from cluster.requests.agents import (
    AlterPartitionItem,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest
from cluster.requests.elections import PlanControlledShutdownRequest, ThreatenedPartition
from cluster.requests.plans import PlannedRequest
from cluster.requests.topics import CreatePartitionsRequest, CreateTopicsRequest, NewPartitions, NewTopic
from cluster.znodes.configs import encode_config
from cluster.znodes.controller import encode_controller
from cluster.znodes.paths import CONTROLLER, CONTROLLER_EPOCH, state_path, topic_config_path
from cluster.zookeeper.port import Create, Delete, SetData
from controller.changes import DeletionsQueued
from state_log.record import Kind
from tests.controllers.contexts import leadership, tp
from tests.controllers.worlds import RunningController, quiesce, run_virtually, running_cluster, until

Answer = ControlledShutdownResponse
ELSEWHERE = encode_controller(ControllerId(1009), 0)


async def shut_down(controller: RunningController, broker: int, epoch: int = -1) -> Answer:
    answer: Answer = await controller.ask(ControlledShutdownRequest(BrokerId(broker), BrokerEpoch(epoch)))
    await quiesce()
    return answer


def remaining(*partitions: tuple[str, int]) -> Answer:
    return Answer(ErrorCode.NONE, tuple(RemainingPartition(topic, p) for topic, p in partitions))


def states_of(requests: list[LeaderAndIsrRequest], topic: str) -> list[Any]:
    return [s for r in requests for t in r.topic_states if t.topic_name == topic for s in t.partition_states]


@pytest.mark.rule("CS-1")
def test_a_standby_answers_that_the_controller_moved() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        standby = world.start_controller(1002)
        await quiesce(1)
        assert await shut_down(standby, 1) == Answer(ErrorCode.STALE_CONTROLLER_EPOCH)
        await standby.stop()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("CS-1", "FN-2", "FN-4", "EV-9")
def test_a_controller_that_was_replaced_meanwhile_answers_that_it_moved_and_resigns() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        before = await world.leads("t", leader=1)
        await world.write(
            SetData(CONTROLLER_EPOCH, b"2"), Delete(CONTROLLER), Create(CONTROLLER, ELSEWHERE, ephemeral=True)
        )
        assert await shut_down(c, 1) == Answer(ErrorCode.STALE_CONTROLLER_EPOCH)
        assert await world.state("t") == before
        await until(lambda: c.gauge("ActiveControllerCount") == 0, "resigned")
        assert await shut_down(c, 1) == Answer(ErrorCode.STALE_CONTROLLER_EPOCH)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("CS-1", "EV-6", "EV-7")
def test_a_request_that_still_waits_when_the_controller_epoch_ends_is_answered_that_the_controller_moved() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await until(lambda: c.is_active, "idle")
        in_progress, waiting = (asyncio.ensure_future(shut_down(c, broker)) for broker in (1, 2))
        await asyncio.sleep(0)
        await c.stop()
        assert await in_progress == remaining()
        assert await waiting == Answer(ErrorCode.STALE_CONTROLLER_EPOCH)

    run_virtually(main)


@pytest.mark.rule("CS-2", "CS-3", "CS-4", "CS-5", "FN-10", "D-5")
def test_an_unknown_broker_and_an_old_incarnation_are_refused_and_nothing_changes() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        before = await world.leads("t", leader=1)
        epoch = await world.broker_epoch(1)
        assert await shut_down(c, 9) == Answer(ErrorCode.BROKER_NOT_AVAILABLE)
        assert await shut_down(c, 9, 5) == Answer(ErrorCode.BROKER_NOT_AVAILABLE)
        assert await shut_down(c, 1, epoch - 1) == Answer(ErrorCode.STALE_BROKER_EPOCH)
        assert await world.state("t") == before
        assert c.context.brokers.shutting_down == set()
        assert not c.brokers.of(1, StopReplicaRequest)
        # A higher epoch than the known one is good, and none is not looked at.
        assert await shut_down(c, 1, epoch + 1) == remaining()
        assert await shut_down(c, 2) == remaining(("t", 0))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("CS-8", "CS-9", "CS-10", "CS-11", "CS-12", "PS-13")
def test_the_worked_example_of_three_shutdowns_one_after_the_other() -> None:
    async def main() -> None:
        world, c = await running_cluster(0, 1, 2)
        await world.create_topic("t", [0, 1, 2])
        await world.leads("t", leader=0, isr=[0, 1, 2])
        assert await shut_down(c, 2) == remaining()
        assert await world.state("t") == leadership(0, [0, 1], leader_epoch=1, partition_epoch=1)
        assert await shut_down(c, 1) == remaining()
        assert await world.state("t") == leadership(0, [0], leader_epoch=2, partition_epoch=2)
        assert await shut_down(c, 0) == remaining(("t", 0))
        assert await world.state("t") == leadership(0, [0], leader_epoch=2, partition_epoch=2)
        assert c.context.brokers.live_ids == set()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("CS-7", "CS-8", "CS-9", "CS-10", "CS-13", "D-15")
def test_leaders_move_and_brokers_learn_of_it_and_followers_stop() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("led", [1, 2, 3])
        await world.create_topic("followed", [2, 1, 3])
        await world.leads("led", leader=1)
        await world.leads("followed", leader=2)
        await quiesce()
        c.brokers.received.clear()
        c.sink.changes.clear()
        assert await shut_down(c, 1, await world.broker_epoch(1)) == remaining()
        assert await world.state("led") == leadership(2, [2, 3], leader_epoch=1, partition_epoch=1)
        assert await world.state("followed") == leadership(2, [2, 3], leader_epoch=1, partition_epoch=1)
        # The leaving broker is told of its successor, so that it becomes a follower in an orderly way.
        for broker in (1, 2, 3):
            (state,) = states_of(c.brokers.of(broker, LeaderAndIsrRequest), "led")
            assert (state.leader, state.leader_epoch, state.isr, state.is_new) == (2, 1, (2, 3), False)
        assert states_of(c.brokers.of(1, LeaderAndIsrRequest), "followed") == []
        stops = [s for r in c.brokers.of(1, StopReplicaRequest) for s in r.partition_states]
        assert 1 <= len(stops) <= 2
        # The leader epoch is that before the ISR shrank; what was led is not stopped by this request.
        assert {(s.topic_name, s.leader_epoch, s.delete_partition) for s in stops} == {("followed", 0, False)}
        assert [(x.broker, x.to_state) for x in c.sink.of(Kind.BROKER)] == [(1, "shutting_down")]
        assert [(x.topic, x.from_state, x.to_state) for x in c.sink.of(Kind.REPLICA)] == [
            ("followed", "OnlineReplica", "OfflineReplica")
        ]
        # A repeated request stops what was moved away by the first.
        assert await shut_down(c, 1) == remaining()
        stops = [s for r in c.brokers.of(1, StopReplicaRequest) for s in r.partition_states if s.topic_name == "led"]
        assert [(s.leader_epoch, s.delete_partition) for s in stops] == [(1, False)]
        assert (await world.state("led")).leader_epoch == 1  # type: ignore[union-attr]
        assert len(c.sink.of(Kind.BROKER)) == 1
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("CS-7", "CS-14", "PS-14")
def test_what_has_no_successor_stays_and_single_replicas_are_not_even_reported() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("single", [1])
        await world.create_topic("alone", [1, 2])
        await world.leads("alone", leader=1)
        await world.stop_broker(2)
        await world.leads("alone", leader=1, isr=[1])
        await quiesce()
        single, alone = await world.state("single"), await world.state("alone")
        assert await shut_down(c, 1) == remaining(("alone", 0))
        assert (await world.state("single"), await world.state("alone")) == (single, alone)
        context = c.context
        assert context.leaderships.partition_state(tp("alone-0")).value == "OnlinePartition"
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("CS-6", "IS-10", "CX-1")
def test_a_broker_that_shuts_down_is_not_elected_and_joins_no_isr() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2, 3])
        await world.leads("t", leader=1, isr=[1, 2, 3])
        assert await shut_down(c, 2) == remaining()
        state = await world.leads("t", leader=1, isr=[1, 3])
        item = AlterPartitionItem(
            "t", c.context.topics.ids["t"], 0, state.leader_epoch, (BrokerId(1), BrokerId(2)), state.partition_epoch
        )
        answer = await c.ask(AlterPartitionRequest(BrokerId(1), await world.broker_epoch(1), (item,)))
        assert answer.partitions[0].error_code is ErrorCode.INELIGIBLE_REPLICA
        await world.stop_broker(1)
        assert await world.leads("t", leader=3) == leadership(3, [3], leader_epoch=2, partition_epoch=2)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("CS-15", "CS-17", "BK-20", "RM-11")
def test_the_end_of_a_broker_that_left_in_order_changes_no_state_and_its_return_makes_it_whole() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.create_topic("single", [1])
        await world.leads("t", leader=1)
        await shut_down(c, 1)
        moved = await world.leads("t", leader=2, isr=[2])
        await world.stop_broker(1)
        assert await world.leads("single", leader=-1) == leadership(-1, [1], leader_epoch=1, partition_epoch=1)
        await quiesce()
        assert await world.state("t") == moved
        assert c.context.brokers.shutting_down == set()
        await world.start_broker(1)
        await world.leads("single", leader=1)
        assert c.gauge("ActiveBrokerCount") == 2
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("CS-15", "TP-1")
def test_a_topic_that_needs_brokers_that_shut_down_is_refused_with_their_names() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await shut_down(c, 2)
        created = await c.ask(CreateTopicsRequest((NewTopic("u", 1, 2),)))
        grown = await c.ask(CreatePartitionsRequest((NewPartitions("t", 2),)))
        for refused in (created.topics[0], grown.results[0]):
            assert refused.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
            assert refused.error_message.endswith("live brokers (1); broker 2 is shutting down and not counted")
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("CS-15", "C-2")
def test_a_bounce_ends_the_shutdown_of_the_earlier_incarnation() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await shut_down(c, 1)
        assert c.context.brokers.shutting_down == {1}
        await world.stop_broker(1)
        await world.start_broker(1)
        await until(lambda: c.context.brokers.live_ids == {1, 2}, "no longer shutting down")
        assert c.context.brokers.shutting_down == set()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("CS-7", "CX-6")
def test_topics_that_are_being_deleted_are_left_alone() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2], [2, 1])
        await world.leads("t", 1, leader=2)
        await quiesce()
        before: list[LeaderAndIsr | None] = [await world.state("t", p) for p in (0, 1)]
        c.context.apply(DeletionsQueued(("t",)))
        assert await shut_down(c, 1) == remaining()
        assert [await world.state("t", p) for p in (0, 1)] == before
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("CS-8", "PS-10", "PS-11", "PS-14")
def test_a_partition_whose_state_is_gone_is_reported_and_the_others_move() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2], [1, 2])
        await world.leads("t", 1, leader=1)
        await world.delete(state_path(tp("t-0")))
        assert await shut_down(c, 1) == remaining(("t", 0))
        await world.leads("t", 1, leader=2)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("CS-16")
def test_the_next_controller_goes_on_with_a_broker_that_repeats_its_request() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2, 3])
        await world.leads("t", leader=1)
        assert await shut_down(c, 1) == remaining()
        await c.stop()
        successor = world.start_controller(1002)
        await until(lambda: successor.is_active, "active")
        # It knows nothing of the request, and learns of it when it comes again.
        assert successor.context.brokers.shutting_down == set()
        assert await shut_down(successor, 1) == remaining()
        assert (await world.state("t")).isr == (2, 3)  # type: ignore[union-attr]
        await successor.stop()

    run_virtually(main)


def test_a_preview_says_what_a_shutdown_would_do_and_changes_nothing() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3, min_insync_replicas=2)
        await world.create_topic("led", [1, 2, 3])
        await world.create(topic_config_path("strict"), encode_config({"min.insync.replicas": "3"}))
        await world.create_topic("strict", [2, 1, 3])
        await world.create_topic("single", [1])
        await world.leads("single", leader=1)
        await quiesce()
        c.brokers.received.clear()
        version = world.server.tree.zxid
        plan = await c.ask(PlanControlledShutdownRequest(BrokerId(1)))
        assert world.server.tree.zxid == version
        assert c.brokers.received == []
        assert c.context.brokers.shutting_down == set()
        assert plan.leaderless == (ThreatenedPartition("single", 0, 0, 1),)
        assert plan.below_min_isr == (ThreatenedPartition("strict", 0, 2, 3),)
        changes = {change.topic: change for change in plan.plan.changes}
        assert sorted(changes) == ["led", "strict"]
        after = changes["led"].after
        assert (after.leader, after.leader_epoch, after.partition_epoch, after.isr) == (2, 1, 1, (2, 3))
        assert (changes["strict"].after.leader, changes["strict"].after.isr) == (2, (2, 3))

        await shut_down(c, 1)
        sent = [
            PlannedRequest(broker, type(r).__name__.removesuffix("Request"), _partitions(r))
            for broker, r in c.brokers.received
        ]
        assert sorted(map(repr, sent)) == sorted(map(repr, plan.plan.requests))
        for topic, change in changes.items():
            state = await world.state(topic)
            assert state is not None
            assert (state.leader, state.isr, state.leader_epoch, state.partition_epoch) == (
                change.after.leader,
                change.after.isr,
                change.after.leader_epoch,
                change.after.partition_epoch,
            )
        await c.stop()

    run_virtually(main)


def _partitions(request: Any) -> int:
    if isinstance(request, StopReplicaRequest):
        return len(request.partition_states)
    return sum(len(topic.partition_states) for topic in request.topic_states)


def test_a_preview_for_an_unknown_broker_names_it() -> None:
    async def main() -> None:
        _, c = await running_cluster(1)
        with pytest.raises(ApiError, match="broker 9 is not registered") as caught:
            await c.ask(PlanControlledShutdownRequest(BrokerId(9)))
        assert caught.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("CS-8", "CS-10", "D-24")
def test_a_broker_with_thousands_of_partitions_leaves_by_a_few_transactions() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("led", *[[1, 2]] * 1000)
        await world.create_topic("followed", *[[2, 1]] * 1000)
        await world.leads("led", 999, leader=1)
        await world.leads("followed", 999, leader=2)
        await quiesce()
        before = world.server.tree.zxid
        assert await shut_down(c, 1) == remaining()
        assert await world.leads("led", 999, leader=2, isr=[2])
        assert await world.leads("followed", 999, leader=2, isr=[2])
        assert world.server.tree.zxid - before <= 20
        await c.stop()

    run_virtually(main)
