"""Reassignments step by step: epochs, ISRs, replica lists in ZooKeeper, requests to brokers."""

from collections.abc import Sequence

import pytest

from cluster.model.broker import BrokerId
from cluster.model.protocol_version import ProtocolVersion
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest
from cluster.requests.control import UpdateMetadataRequest
from cluster.requests.reassignments import DescribeReassignmentsRequest
from cluster.znodes.admin_requests import encode_reassignments
from cluster.znodes.paths import REASSIGN_PARTITIONS, state_path
from cluster.znodes.topics import encode_state
from cluster.zookeeper.port import Op, OpResult, SetData
from simulator.recount import recount
from simulator.zookeeper import ServerSession
from state_log.record import Kind
from tests.controllers.contexts import assignment, ids, leadership
from tests.controllers.reassignments import T0, Cluster, E, cluster
from tests.controllers.worlds import quiesce, run_virtually, until


def counters_agree(c: Cluster) -> bool:
    context = c.controller.context
    return bool(
        recount(context)
        == (context.leaderships.offline_partition_count, context.leaderships.preferred_replica_imbalance_count)
    )


@pytest.mark.rule("RA-11", "RA-13", "RA-15", "RA-16", "RA-17", "RA-18", "RA-19", "RA-20", "RA-21", "RA-22", "RA-23")
@pytest.mark.rule("RA-14", "RA-40", "RQ-21", "RA-51", "IS-17")
def test_the_worked_example_goes_through_its_phases_with_kafkas_epochs() -> None:
    async def main() -> None:
        c = await cluster(2, 5, 7, 8, 9)
        await c.submit({0: [7, 8, 9]})
        assert await c.lists() == assignment([7, 8, 9, 2, 5], [8, 9], [2, 5])
        assert await c.state() == (2, 1, (2, 5, 7))
        assert c.sent_to(2) == c.sent_to(5) == c.sent_to(7) == ["lead or follow"]
        assert set(c.sent_to(8)) == set(c.sent_to(9)) == {"lead or follow as new"}
        c.forget()
        await c.in_sync(2, 5, 7, 8)
        assert (await c.lists()).is_being_reassigned
        assert c.sent_to(8) == []
        await c.in_sync(2, 5, 7, 8, 9)
        assert await c.lists() == assignment([7, 8, 9])
        assert await c.state() == (7, 4, (7, 8, 9))
        assert await c.requested() is None
        assert c.sent_to(2) == c.sent_to(5) == ["stop", "delete"]
        assert c.sent_to(7) == c.sent_to(8) == c.sent_to(9) == ["lead or follow", "lead or follow"]
        assert isinstance(c.controller.brokers.received[-1][1], UpdateMetadataRequest)
        sent = c.controller.brokers.of(2, UpdateMetadataRequest)[-1].topic_states[0].partition_states[0]
        assert (sent.leader, sent.replicas, sent.isr) == (7, (7, 8, 9), (7, 8, 9))
        lists = [(r.replicas, r.reason) for r in c.controller.sink.of(Kind.ASSIGNMENT)]
        assert lists == [((7, 8, 9, 2, 5), "adding [8, 9], removing [2, 5]"), ((7, 8, 9), "adding [], removing []")]
        assert counters_agree(c)
        assert c.controller.context.topics.being_reassigned == set()
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-18", "RA-19")
def test_the_shortest_move_costs_three_epochs() -> None:
    async def main() -> None:
        c = await cluster(1, 2, topic=[[1]])
        assert await c.alter({0: [2]}) == [E.NONE]
        assert await c.state() == (1, 1, (1,))
        await c.in_sync(1, 2)
        assert await c.state() == (2, 3, (2,))
        reasons = [record.reason for record in c.controller.sink.of(Kind.ISR)]
        assert reasons[-2:] == ["asked by broker 1", "replica removed"]
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("BK-15", "RA-52", "RA-30", "D-4")
def test_a_dead_target_is_waited_for_and_costs_one_more_epoch_when_it_starts() -> None:
    async def main() -> None:
        c = await cluster(1, topic=[[1]])
        await c.submit({0: [2]})
        assert await c.lists() == assignment([2, 1], [2], [1])
        assert await c.state() == (1, 1, (1,))
        (described,) = (await c.controller.ask(DescribeReassignmentsRequest())).reassignments
        assert described.stuck_reason == "target 2 not registered"
        assert (await c.controller.ask(DescribeReassignmentsRequest(("u",)))).reassignments == ()
        c.forget()
        await c.world.start_broker(2)
        await quiesce()
        assert await c.state() == (1, 2, (1,))
        assert c.sent_to(2)[-1] == "lead or follow as new"
        await c.in_sync(1, 2)
        assert await c.state() == (2, 4, (2,))
        assert await c.requested() is None
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-60", "RA-63", "RA-4", "C-6")
def test_a_cancelled_move_removes_its_new_replicas_even_from_the_isr() -> None:
    async def main() -> None:
        c = await cluster(0, 1, 2, 3, 4, topic=[[0, 1, 2]])
        assert await c.alter({0: [0, 3, 4]}) == [E.NONE]
        assert await c.lists() == assignment([0, 3, 4, 1, 2], [3, 4], [1, 2])
        await c.in_sync(0, 1, 2, 3)
        c.forget()
        _, epoch, _ = await c.state()
        assert await c.alter({0: None}) == [E.NONE]
        assert await c.lists() == assignment([0, 1, 2])
        # One for the removal of broker 3 from the ISR, one for the list as it was.
        assert await c.state() == (0, epoch + 2, (0, 1, 2))
        assert c.sent_to(3) == c.sent_to(4) == ["stop", "delete"]
        assert c.sent_to(1) == ["lead or follow", "lead or follow"]
        assert await c.alter({0: None}) == [E.NO_REASSIGNMENT_IN_PROGRESS]
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-60", "D-96")
def test_cancelling_elects_an_original_replica_when_a_new_one_leads() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2]])
        await c.alter({0: [3, 2]})
        await c.world.stop_broker(2)
        await quiesce()
        await c.in_sync(1, 3)
        await c.world.stop_broker(1)
        await quiesce()
        leader, epoch, isr = await c.state()
        assert (leader, isr) == (3, (3,))
        await c.world.start_broker(1)
        await quiesce()
        await c.in_sync(3, 1)
        assert await c.alter({0: None}) == [E.NONE]
        # One for the leader that stays, one for the removal of broker 3 from the ISR, one for the list as it was.
        assert await c.state() == (1, epoch + 3, (1,))
        assert (await c.lists()).replicas == (2, 1)
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-61", "CX-14")
def test_a_replaced_move_stops_only_what_the_new_target_does_not_want() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, 4, 5, topic=[[1, 2]])
        await c.alter({0: [3, 4]})
        c.forget()
        await c.alter({0: [4, 5]})
        assert await c.lists() == assignment([4, 5, 1, 2], [4, 5], [1, 2])
        assert c.sent_to(3) == ["stop", "delete"]
        assert "stop" not in c.sent_to(4)
        await c.in_sync(1, 2, 4, 5)
        assert await c.lists() == assignment([4, 5])
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-62")
def test_another_order_of_the_same_replicas_is_done_at_once_for_one_epoch() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2, 3]])
        assert await c.alter({0: [3, 1, 2]}) == [E.NONE]
        assert await c.lists() == assignment([3, 1, 2])
        assert await c.state() == (1, 1, (1, 2, 3))
        assert c.controller.gauge("PreferredReplicaImbalanceCount") == 1
        assert counters_agree(c)
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-24", "RA-11", "RA-20")
def test_hundreds_of_moves_go_through_each_step_together() -> None:
    async def main() -> None:
        count = 400
        c = await cluster(1, 2, 3, 4, topic=[[1, 2]] * count)
        transactions: list[int] = []
        carry_out = c.world.server.write

        def counted(session: ServerSession, ops: Sequence[Op]) -> list[OpResult]:
            transactions.append(len(ops))
            return carry_out(session, ops)

        c.world.server.write = counted  # type: ignore[method-assign]
        await c.submit({p: [3, 4] for p in range(count)})
        # What the tool writes, the topic node, and 400 epochs in transactions of 250.
        assert len(transactions) == 2 + 1 + 2
        leaderships = c.controller.context.leaderships.known
        items = tuple(
            AlterPartitionItem("t", None, tp.partition, state.leader_epoch, ids(1, 2, 3, 4), state.partition_epoch)
            for tp, state in leaderships.items()
        )
        transactions.clear()
        await c.controller.ask(AlterPartitionRequest(BrokerId(1), await c.world.broker_epoch(1), items))
        await quiesce()
        assert await c.lists(399) == assignment([3, 4])
        assert await c.state(399) == (3, 4, (3, 4))
        # ISRs, elections and two removals, two transactions each; the topic node and the request node.
        assert len(transactions) == 4 * 2 + 2
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-26")
def test_a_move_ends_without_a_leader_when_no_target_can_lead() -> None:
    async def main() -> None:
        c = await cluster(1, 2, topic=[[1, 2]])
        await c.world.stop_broker(1)
        await c.world.leads("t", leader=2, isr=[2])
        await c.world.stop_broker(2)
        await quiesce()
        await c.world.start_broker(1)
        await quiesce()
        assert await c.alter({0: [2]}) == [E.NONE]
        assert await c.lists() == assignment([2])
        leader, _, isr = await c.state()
        assert (leader, isr) == (-1, (2,))
        assert c.controller.context.topics.being_reassigned == set()
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("FO-12", "RA-52", "RA-53")
def test_the_next_controller_carries_on_and_puts_the_request_node_before_the_topic_node() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2], [1, 2]])
        await c.submit({0: [1, 4], 1: [2, 4]})
        await c.controller.stop()
        await c.world.write(SetData(REASSIGN_PARTITIONS, encode_reassignments({T0: ids(1, 3)})))
        successor = c.world.start_controller(1002)
        await until(lambda: successor.is_active)
        await quiesce()
        assert await c.lists(0) == assignment([1, 3, 2], [3], [2])
        assert await c.lists(1) == assignment([2, 4, 1], [4], [1])
        # One epoch for the request, one for the failover.
        assert (await c.state(0))[1] == (await c.state(1))[1] == 2
        c = Cluster(c.world, successor)
        await c.in_sync(1, 2, 3)
        assert await c.lists(0) == assignment([1, 3])
        assert await c.requested() is None
        await successor.stop()

    run_virtually(main)


@pytest.mark.rule("RA-52", "D-96")
def test_the_next_controller_ends_a_cancellation_that_was_only_recorded() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2]])
        await c.controller.stop()
        # As if it had died right after it had taken broker 3 out of the topic node.
        await c.world.write(SetData(state_path(T0), encode_state(leadership(3, [1, 2, 3], leader_epoch=4))))
        successor = c.world.start_controller(1002)
        await until(lambda: successor.is_active)
        await quiesce()
        c = Cluster(c.world, successor)
        assert await c.state() == (1, 6, (1, 2))
        assert c.sent_to(3) == ["stop", "delete"]
        assert counters_agree(c)
        led_by = [record.leader for record in successor.sink.of(Kind.PARTITION)]
        assert led_by == [1]
        assert -1 not in [record.leader for record in successor.sink.of(Kind.ISR)]
        await successor.stop()

    run_virtually(main)


@pytest.mark.rule("RA-10", "RA-27", "D-1")
def test_a_deletion_waits_for_no_move() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2]])
        await c.alter({0: [1, 3]})
        await c.world.create("/admin/delete_topics/t")
        await quiesce()
        assert await c.world.topic("t") is None
        assert all("delete" in c.sent_to(broker) for broker in (1, 2, 3))
        assert await c.alter({0: [1, 2]}) == [E.UNKNOWN_TOPIC_OR_PARTITION]
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-17", "RA-3", "FN-5")
def test_a_move_that_cannot_be_completed_is_remembered_as_it_stands_in_zookeeper() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2, 3]])
        newer = leadership(1, [1, 2, 3], controller_epoch=99)
        await c.world.write(SetData(state_path(T0), encode_state(newer)))
        assert await c.alter({0: [1, 2]}) == [E.UNKNOWN_SERVER_ERROR]
        assert await c.lists() == assignment([1, 2, 3], removing=[3])
        assert c.controller.context.topics.assignment(T0) == await c.lists()
        assert c.controller.context.topics.being_reassigned == {T0}
        assert c.sent_to(3) == []
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-12", "RA-31")
def test_where_leaders_write_the_isr_themselves_the_state_node_is_watched() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, 4, topic=[[1, 2]], protocol_version=ProtocolVersion((2, 6)))
        await c.submit({0: [3, 4]})
        for isr in ([1, 2, 3], [1, 2, 3, 4]):
            assert (await c.lists()).is_being_reassigned
            state = leadership(1, isr, leader_epoch=1)
            await c.world.write(SetData(state_path(T0), encode_state(state)))
            await quiesce()
        assert await c.lists() == assignment([3, 4])
        assert await c.state() == (3, 4, (3, 4))
        assert await c.requested() is None
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-24", "D-10", "RM-20")
def test_a_removed_replica_on_a_dead_broker_is_left_behind() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2]])
        await c.world.stop_broker(2)
        await quiesce()
        await c.alter({0: [1, 3]})
        await c.in_sync(1, 3)
        assert await c.lists() == assignment([1, 3])
        c.forget()
        await c.world.start_broker(2)
        await quiesce()
        assert c.sent_to(2) == []
        await c.controller.stop()

    run_virtually(main)
