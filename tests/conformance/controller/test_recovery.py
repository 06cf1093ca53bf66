"""RecoverCluster on a running controller: what it asks, writes and refuses, and who is active afterwards."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch, TopicId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import ReplicaAssignment
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest
from cluster.requests.control import LeaderAndIsrRequest
from cluster.requests.recovery import (
    DescribedReplica,
    DescribeReplicasResponse,
    KnownLeadership,
    PlanClusterRecoveryRequest,
    RecoverClusterRequest,
)
from cluster.requests.topics import ListTopicsRequest
from cluster.znodes.cluster_wide import decode_producer_id_block
from cluster.znodes.controller import decode_controller_epoch
from cluster.znodes.paths import CONTROLLER_EPOCH, PRODUCER_ID_BLOCK, broker_path
from cluster.zookeeper.port import SetData
from controller.active_controller import RESUMPTION_PAUSE_S
from controller.handlers.recovery.questions import ANSWER_MAX_S
from tests.controllers.contexts import ids
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

T, U = TopicId("A" * 21 + "Q"), TopicId("B" * 21 + "Q")


def describe(c: RunningController, broker: int, *items: tuple[str, TopicId, tuple[int, ...], int]) -> None:
    """The broker has a replica of partition 0 of each topic: (name, id, ISR, end of log), all in leader epoch 5."""
    replicas = tuple(
        DescribedReplica(name, topic_id, 0, LeaderEpoch(5), LeaderEpoch(5), Offset(end))
        for name, topic_id, _, end in items
    )
    known = tuple(
        KnownLeadership(name, topic_id, 0, BrokerId(isr[0]), LeaderEpoch(5), PartitionEpoch(8), ids(*isr), ids(*isr))
        for name, topic_id, isr, _ in items
    )
    c.brokers.descriptions[BrokerId(broker)] = DescribeReplicasResponse(
        BrokerId(broker), ControllerEpoch(12), 4242, replicas, known
    )


async def stale_cluster() -> tuple[World, RunningController]:
    """ZooKeeper says that broker 1 leads t-0 with 2; the brokers that 3 leads it with 2, and that there is u."""
    world, c = await running_cluster(1, 2, 3, auto_leader_rebalance_enable=False)
    await world.create_topic("t", [1, 2], topic_id=T)
    await world.leads("t", leader=1)
    describe(c, 1, ("u", U, (1, 3), 7))
    describe(c, 2, ("t", T, (3, 2), 90))
    describe(c, 3, ("t", T, (3, 2), 95), ("u", U, (1, 3), 6))
    return world, c


async def everything(world: World) -> dict[str, Any]:
    return {path: (znode.data, znode.version) for path, znode in world.server.tree.znodes.items()}


@pytest.mark.rule("RC-1")
def test_a_dry_run_decides_and_writes_nothing() -> None:
    async def main() -> None:
        world, c = await stale_cluster()
        before = await everything(world)
        planned = (await c.ask(PlanClusterRecoveryRequest())).recovery
        assert await everything(world) == before
        assert [(p.topic, p.after.leader, p.after.isr) for p in planned.partitions] == [
            ("t", 3, ids(3, 2)),
            ("u", 1, ids(1, 3)),
        ]
        assert (planned.only_on_brokers, planned.refusals, planned.controller_epoch) == (("u",), (), 12)
        carried_out = (await c.ask(RecoverClusterRequest())).recovery
        assert carried_out == planned
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RC-2", "RC-5", "RC-6", "RC-8")
def test_the_next_controller_is_above_all_that_the_brokers_know() -> None:
    async def main() -> None:
        world, c = await stale_cluster()
        await c.ask(RecoverClusterRequest())
        await until(lambda: c.is_active and c.context.epoch == 13, "active again in epoch 13")
        state = await world.leads("t", leader=3, isr=[3, 2])
        assert (state.leader_epoch, state.partition_epoch) == (6, 9)
        created = await world.topic("u")
        assert created is not None
        assert (created.topic_id, created.partitions) == (U, {0: ReplicaAssignment(ids(1, 3))})
        state = await world.leads("u", leader=1, isr=[1, 3])
        assert (state.leader_epoch, state.partition_epoch) == (6, 9)
        epoch, block = await world.tool.get(CONTROLLER_EPOCH), await world.tool.get(PRODUCER_ID_BLOCK)
        assert epoch is not None
        assert block is not None
        assert decode_controller_epoch(epoch.data) == 13
        last = decode_producer_id_block(block.data)
        assert last is not None
        assert (last.start, last.end) == (4000, 4999)
        for broker in (1, 3):
            sent = c.brokers.of(broker, LeaderAndIsrRequest)[-1]
            assert {(t.topic_name, t.topic_id) for t in sent.topic_states} >= {("u", U)}
            assert sent.controller_epoch == 13
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RC-7")
def test_a_second_run_changes_no_partition() -> None:
    async def main() -> None:
        world, c = await stale_cluster()
        await c.ask(RecoverClusterRequest())
        await until(lambda: c.is_active and c.context.epoch == 13, "active again")
        assert (await c.ask(PlanClusterRecoveryRequest())).recovery.partitions == ()
        before = [await world.state(topic) for topic in ("t", "u")]
        await c.ask(RecoverClusterRequest())
        await until(lambda: c.is_active and c.context.epoch == 14, "active again")
        assert [await world.state(topic) for topic in ("t", "u")] == before
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RC-4")
@pytest.mark.parametrize("how", ["dead", "silent"])
def test_it_is_refused_while_a_member_of_the_last_isr_is_absent(how: str) -> None:
    async def main() -> None:
        world, c = await stale_cluster()
        if how == "dead":
            await world.stop_broker(3)
            await quiesce()
        else:
            c.brokers.unreachable.add(BrokerId(3))
        before = await everything(world)
        with pytest.raises(ApiError) as refused:
            await c.ask(RecoverClusterRequest())
        assert refused.value.code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        assert "3" in refused.value.message
        assert await everything(world) == before
        await c.ask(RecoverClusterRequest(accept_loss=True))
        await until(lambda: c.is_active and c.context.epoch == 13, "active again")
        await world.leads("t", leader=2, isr=[2])
        await quiesce(RESUMPTION_PAUSE_S)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RC-10")
@pytest.mark.parametrize("accept_loss", [False, True])
def test_a_broker_that_hangs_holds_up_nobody_else(accept_loss: bool) -> None:
    async def main() -> None:
        _, c = await stale_cluster()
        await quiesce()
        c.brokers.hanging.add(BrokerId(2))
        now = asyncio.get_running_loop().time
        asked_at = now()
        planning = asyncio.create_task(c.ask(PlanClusterRecoveryRequest(accept_loss)))
        await quiesce()
        await c.ask(ListTopicsRequest())
        assert now() - asked_at < 1
        planned = (await planning).recovery
        assert now() - asked_at <= ANSWER_MAX_S + 1
        assert planned.silent_brokers == ids(2)
        silence = "broker 2 is registered, but does not answer: what it has is not known"
        assert (silence in planned.refusals) == (not accept_loss)
        if accept_loss:
            await c.ask(RecoverClusterRequest(accept_loss=True))
            assert set(c.brokers.recovering) == {1, 3}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RC-10")
@pytest.mark.parametrize("change", ["broker joins", "broker restarts", "broker dies", "isr"])
@pytest.mark.parametrize("changes", [1, 2])
def test_answers_are_not_used_after_the_cluster_has_changed(change: str, changes: int) -> None:
    """Brokers are asked again once."""

    async def main() -> None:
        world, c = await stale_cluster()
        await quiesce()
        c.brokers.hanging.add(BrokerId(2))
        planning = asyncio.create_task(c.ask(RecoverClusterRequest(accept_loss=True)))
        for done in range(changes):
            await quiesce(1 + done * ANSWER_MAX_S)
            match change:
                case "broker joins":
                    await world.start_broker(4 + done)
                case "broker restarts":
                    await world.stop_broker(3)
                    await world.start_broker(3)
                case "broker dies":
                    await world.stop_broker(1 + 2 * done)
                case _:
                    epoch = await world.broker_epoch(1)
                    isr = (ids(1), ids(1, 2))[done]
                    item = AlterPartitionItem("t", T, 0, LeaderEpoch(0), isr, PartitionEpoch(done))
                    await c.ask(AlterPartitionRequest(BrokerId(1), epoch, (item,)))
        if changes == 1:
            await planning
        else:
            with pytest.raises(ApiError, match="changed while the brokers were asked"):
                await planning
            assert c.brokers.recovering == []
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RC-9")
@pytest.mark.parametrize("accept_loss", [False, True])
@pytest.mark.parametrize("hostile", ["controller epoch", "leader epoch", "partition epoch", "producer ids"])
def test_it_writes_nothing_after_which_no_controller_or_leader_could_be_elected(
    hostile: str, accept_loss: bool
) -> None:
    async def main() -> None:
        world, c = await stale_cluster()
        answer, largest = c.brokers.descriptions[BrokerId(3)], 2**31 - 1
        first, *others = answer.leaderships
        match hostile:
            case "controller epoch":
                answer = replace(answer, controller_epoch=ControllerEpoch(largest))
            case "leader epoch":
                first = replace(first, leader_epoch=LeaderEpoch(largest))
            case "partition epoch":
                first = replace(first, partition_epoch=PartitionEpoch(largest))
            case _:
                await world.tool.multi([SetData(PRODUCER_ID_BLOCK, b"{")])
        c.brokers.descriptions[BrokerId(3)] = replace(answer, leaderships=(first, *others))
        before = await everything(world)
        planned = (await c.ask(PlanClusterRecoveryRequest(accept_loss))).recovery
        named = PRODUCER_ID_BLOCK if hostile == "producer ids" else f"broker 3 knows {hostile} {largest}"
        assert named in planned.refusals[0]
        with pytest.raises(ApiError, match=named) as refused:
            await c.ask(RecoverClusterRequest(accept_loss))
        assert refused.value.code is ErrorCode.POLICY_VIOLATION
        assert await everything(world) == before
        assert c.is_active
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RC-1", "RC-4", "D-40")
def test_a_broker_that_has_not_joined_is_asked_too() -> None:
    """It waits until it has named its damaged replicas, and it alone has the last records."""

    async def main() -> None:
        world, c = await stale_cluster()
        await world.start_broker(4, damaged=True)
        await quiesce(5)
        assert BrokerId(4) not in c.context.brokers.registered
        describe(c, 4, ("v", TopicId("C" * 21 + "Q"), (4,), 400))
        planned = (await c.ask(PlanClusterRecoveryRequest())).recovery
        assert planned.only_on_brokers == ("u", "v")
        c.brokers.unreachable.add(BrokerId(4))
        planned = (await c.ask(PlanClusterRecoveryRequest())).recovery
        assert planned.refusals == ("broker 4 is registered, but does not answer: what it has is not known",)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RC-4")
@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (b"{", "the znode /brokers/ids/4 is malformed, so what broker 4 has is not known: restart it"),
        (
            b'{"version":4,"endpoints":["OTHER://h:1"]}',
            "broker 4 is registered, but does not answer: what it has is not known",
        ),
    ],
)
def test_a_broker_whose_registration_is_malformed_or_that_cannot_join_is_no_broker_without_records(
    data: bytes, refusal: str
) -> None:
    async def main() -> None:
        world, c = await stale_cluster()
        await world.create(broker_path(BrokerId(4)), data)
        await quiesce(5)
        c.brokers.unreachable.add(BrokerId(4))
        planned = (await c.ask(PlanClusterRecoveryRequest())).recovery
        assert planned.refusals == (refusal,)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RC-9")
@pytest.mark.parametrize("accept_loss", [False, True])
def test_it_is_refused_where_the_next_controller_would_admit_nobody(accept_loss: bool) -> None:
    """Whoever governs now stays active."""

    async def main() -> None:
        world, c = await stale_cluster()
        for broker in sorted(c.context.brokers.registered):
            await world.write(SetData(broker_path(broker), b"{"))
        await quiesce(1)
        before = await everything(world)
        with pytest.raises(ApiError, match="the znode /brokers/ids/1 is malformed") as refused:
            await c.ask(RecoverClusterRequest(accept_loss))
        assert refused.value.code is ErrorCode.POLICY_VIOLATION
        assert await everything(world) == before
        await quiesce(5)
        assert c.is_active
        await c.stop()

    run_virtually(main)
