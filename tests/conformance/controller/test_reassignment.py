"""Partitions move between brokers: epochs, ISRs, lists in ZooKeeper, and what brokers are told, step by step."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from cluster.broker import BrokerId
from cluster.errors import ApiError, ErrorCode
from cluster.partition import ReplicaAssignment, TopicPartition
from cluster.protocol_version import ProtocolVersion
from cluster.requests import (
    AlterPartitionItem,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    DescribeReassignmentsRequest,
    LeaderAndIsrRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignableTopic,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from cluster.state_change_log import Kind
from cluster.znodes import (
    REASSIGN_PARTITIONS,
    decode_reassignments,
    encode_reassignments,
    encode_state,
    state_path,
)
from cluster.zookeeper.port import SetData
from tests.contexts import assignment, ids, leadership
from tests.controllers import RunningController, World, run_virtually, settle, until

E = ErrorCode
T0 = TopicPartition("t", 0)


class Cluster:
    """A controller, brokers that only answer, and what the tests do in their place."""

    def __init__(self, world: World, controller: RunningController) -> None:
        self.world, self.controller = world, controller

    async def submit(self, targets: Mapping[int, Sequence[int]], topic: str = "t") -> None:
        """As Kafka's tools do it."""
        entries = {TopicPartition(topic, p): ids(*target) for p, target in targets.items()}
        await self.world.create(REASSIGN_PARTITIONS, encode_reassignments(entries))
        await settle()

    async def alter(self, targets: Mapping[int, Sequence[int] | None], topic: str = "t", **options: Any) -> list[E]:
        answer = await self.ask_for(targets, topic, **options)
        return [p.error_code for t in answer.responses for p in t.partitions]

    async def ask_for(
        self, targets: Mapping[int, Sequence[int] | None], topic: str = "t", **options: Any
    ) -> AlterPartitionReassignmentsResponse:
        partitions = tuple(ReassignablePartition(p, None if t is None else ids(*t)) for p, t in targets.items())
        request = AlterPartitionReassignmentsRequest((ReassignableTopic(topic, partitions),), **options)
        answer = await self.controller.ask(request)
        await settle()
        assert isinstance(answer, AlterPartitionReassignmentsResponse)
        return answer

    async def in_sync(self, *isr: int, partition: int = 0) -> None:
        """The leader has the ISR written."""
        state = await self.world.state("t", partition)
        assert state is not None
        item = AlterPartitionItem("t", None, partition, state.leader_epoch, ids(*isr), state.partition_epoch)
        epoch = await self.world.broker_epoch(state.leader)
        answer = await self.controller.ask(AlterPartitionRequest(state.leader, epoch, (item,)))
        assert [r.error_code for r in answer.partitions] == [E.NONE]
        await settle()

    async def lists(self, partition: int = 0) -> ReplicaAssignment:
        topic = await self.world.topic("t")
        assert topic is not None
        return topic.partitions[partition]

    async def state(self, partition: int = 0) -> tuple[int, int, tuple[int, ...]]:
        """Leader, leader epoch, ISR."""
        state = await self.world.state("t", partition)
        assert state is not None
        return state.leader, state.leader_epoch, state.isr

    async def requested(self) -> dict[TopicPartition, tuple[BrokerId, ...]] | None:
        node = await self.world.tool.get(REASSIGN_PARTITIONS)
        return None if node is None else decode_reassignments(node.data)

    def heard(self, broker: int) -> list[str]:
        """Which requests a broker got about partitions, in order; what LeaderAndIsr says about being new."""
        said: list[str] = []
        for _, request in (r for r in self.controller.brokers.received if r[0] == broker):
            match request:
                case LeaderAndIsrRequest():
                    new = {s.is_new for t in request.topic_states for s in t.partition_states}
                    said.append("lead or follow as new" if new == {True} else "lead or follow")
                case StopReplicaRequest():
                    (deletes,) = {s.delete_partition for s in request.partition_states}
                    said.append("delete" if deletes else "stop")
                case UpdateMetadataRequest():
                    pass
        return said

    def forget(self) -> None:
        self.controller.brokers.received.clear()


async def cluster(*brokers: int, topic: Sequence[Sequence[int]] = ((2, 5, 7),), **settings: Any) -> Cluster:
    world = await World().start()
    controller = world.start_controller(**settings)
    await until(lambda: controller.gauge("ActiveControllerCount") == 1, "in office")
    await world.start_broker(*brokers)
    await until(lambda: controller.gauge("ActiveBrokerCount") == len(brokers), "brokers known")
    await world.create_topic("t", *topic)
    for partition, replicas in enumerate(topic):
        await world.leads("t", partition, leader=replicas[0])
    await settle()
    controller.brokers.received.clear()
    return Cluster(world, controller)


def counters_agree(c: Cluster) -> bool:
    context = c.controller.context
    return bool(context.recount() == (context.offline_partition_count, context.preferred_replica_imbalance_count))


@pytest.mark.rule("RA-11", "RA-13", "RA-15", "RA-16", "RA-17", "RA-18", "RA-19", "RA-20", "RA-21", "RA-22", "RA-23")
@pytest.mark.rule("RA-14", "RA-40", "RQ-21", "RA-51", "IS-17")
def test_the_worked_example_goes_through_its_phases_with_kafkas_epochs() -> None:
    async def main() -> None:
        c = await cluster(2, 5, 7, 8, 9)
        await c.submit({0: [7, 8, 9]})
        assert await c.lists() == assignment([7, 8, 9, 2, 5], [8, 9], [2, 5])
        assert await c.state() == (2, 1, (2, 5, 7))
        assert c.heard(2) == c.heard(5) == c.heard(7) == ["lead or follow"]
        assert set(c.heard(8)) == set(c.heard(9)) == {"lead or follow as new"}
        c.forget()
        await c.in_sync(2, 5, 7, 8)
        assert (await c.lists()).is_being_reassigned
        assert c.heard(8) == []
        await c.in_sync(2, 5, 7, 8, 9)
        assert await c.lists() == assignment([7, 8, 9])
        assert await c.state() == (7, 4, (7, 8, 9))
        assert await c.requested() is None
        assert c.heard(2) == c.heard(5) == ["stop", "delete"]
        assert c.heard(7) == c.heard(8) == c.heard(9) == ["lead or follow", "lead or follow"]
        assert isinstance(c.controller.brokers.received[-1][1], UpdateMetadataRequest)
        told = c.controller.brokers.of(2, UpdateMetadataRequest)[-1].topic_states[0].partition_states[0]
        assert (told.leader, told.replicas, told.isr) == (7, (7, 8, 9), (7, 8, 9))
        lists = [(r.replicas, r.reason) for r in c.controller.sink.of(Kind.ASSIGNMENT)]
        assert lists == [((7, 8, 9, 2, 5), "adding [8, 9], removing [2, 5]"), ((7, 8, 9), "adding [], removing []")]
        assert counters_agree(c)
        assert c.controller.context.partitions_being_reassigned == set()
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
        await settle()
        assert await c.state() == (1, 2, (1,))
        assert c.heard(2)[-1] == "lead or follow as new"
        await c.in_sync(1, 2)
        assert await c.state() == (2, 4, (2,))
        assert await c.requested() is None
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-60", "RA-63", "RA-4")
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
        assert c.heard(3) == c.heard(4) == ["stop", "delete"]
        assert c.heard(1) == ["lead or follow", "lead or follow"]
        assert await c.alter({0: None}) == [E.NO_REASSIGNMENT_IN_PROGRESS]
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-60")
def test_cancelling_elects_an_original_replica_when_a_new_one_leads() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2]])
        await c.alter({0: [3, 2]})
        await c.world.stop_broker(2)
        await settle()
        await c.in_sync(1, 3)
        await c.world.stop_broker(1)
        await settle()
        leader, epoch, isr = await c.state()
        assert (leader, isr) == (3, (3,))
        await c.world.start_broker(1)
        await settle()
        await c.in_sync(3, 1)
        assert await c.alter({0: None}) == [E.NONE]
        assert await c.state() == (1, epoch + 2, (1,))
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
        assert c.heard(3) == ["stop", "delete"]
        assert "stop" not in c.heard(4)
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


@pytest.mark.rule("RA-26")
def test_a_move_ends_without_a_leader_when_no_target_can_lead() -> None:
    async def main() -> None:
        c = await cluster(1, 2, topic=[[1, 2]])
        await c.world.stop_broker(1)
        await c.world.leads("t", leader=2, isr=[2])
        await c.world.stop_broker(2)
        await settle()
        await c.world.start_broker(1)
        await settle()
        assert await c.alter({0: [2]}) == [E.NONE]
        assert await c.lists() == assignment([2])
        leader, _, isr = await c.state()
        assert (leader, isr) == (-1, (2,))
        assert c.controller.context.partitions_being_reassigned == set()
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-1", "RA-3")
def test_each_partition_of_a_request_gets_its_own_answer() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2], [1, 2], [1, 2], [1, 2], [1, 2], [1, 2]])
        codes = await c.alter({0: [], 1: [1, 1], 2: [-1, 1], 3: [1, 9], 4: None, 5: [2, 3], 9: [1, 2]})
        refused = E.INVALID_REPLICA_ASSIGNMENT
        assert codes == [
            *[refused] * 4,
            E.NO_REASSIGNMENT_IN_PROGRESS,
            E.NONE,
            E.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert (await c.lists(5)).adding == (3,)
        assert c.controller.context.partitions_being_reassigned == {TopicPartition("t", 5)}
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-14", "RA-3")
def test_a_partition_that_never_had_a_leader_cannot_be_moved() -> None:
    async def main() -> None:
        world = await World().start()
        controller = world.start_controller()
        await until(lambda: controller.gauge("ActiveControllerCount") == 1)
        await world.start_broker(3)
        await world.create_topic("t", [1, 2], [3])
        await world.leads("t", 1, leader=3)
        c = Cluster(world, controller)
        assert await c.alter({0: [3], 1: [3]}) == [E.UNKNOWN_SERVER_ERROR, E.NONE]
        await controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-2", "RA-40", "RA-33")
def test_an_instruction_through_the_api_takes_the_older_one_out_of_the_request_node() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2], [1, 2]])
        await c.submit({0: [1, 4], 1: [2, 4]})
        assert await c.alter({0: [1, 3]}) == [E.NONE]
        assert await c.requested() == {TopicPartition("t", 1): (2, 4)}
        assert (await c.lists(0)).adding == (3,)
        # Deleting the node by hand cancels nothing.
        await c.world.delete(REASSIGN_PARTITIONS)
        await settle()
        assert (await c.lists(1)).adding == (4,)
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-32", "RA-40", "ZK-33")
def test_entries_that_fail_leave_the_node_and_the_watch_is_armed_again() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2]])
        await c.submit({0: [], 7: [1]})
        assert await c.requested() is None
        twice = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[9]},'
        twice += b'{"topic":"t","partition":0,"replicas":[3,1]},{"topic":"x","partition":0,"replicas":[1]}]}'
        await c.world.create(REASSIGN_PARTITIONS, twice)
        await settle()
        assert await c.requested() == {T0: (3, 1)}
        assert await c.lists() == assignment([3, 1, 2], [3], [2])
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("ZK-34")
@pytest.mark.parametrize(
    "body",
    [
        b"nonsense",
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3],"log_dirs":["any"]}]}',
        b'{"version":1,"partitions":[{"topic":"t","partition":"0","replicas":[3]}]}',
        b'{"version":1,"partitions":[],"hint":1}',
    ],
)
def test_an_unreadable_request_does_nothing_and_stays(body: bytes) -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2]])
        await c.world.create(REASSIGN_PARTITIONS, body)
        await settle()
        assert await c.alter({0: [2, 1]}) == [E.NONE]
        node = await c.world.tool.get(REASSIGN_PARTITIONS)
        assert node is not None
        assert node.data == body
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-40")
def test_an_empty_request_goes_with_the_next_entry_that_is_done() -> None:
    async def main() -> None:
        c = await cluster(1, 2, topic=[[1, 2]])
        await c.submit({})
        assert await c.requested() == {}
        assert await c.alter({0: [2, 1]}) == [E.NONE]
        assert await c.requested() is None
        await c.submit({0: [1, 2]})
        assert await c.lists() == assignment([1, 2])
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-50", "IN-1")
def test_moves_under_way_are_listed_with_their_lists() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2], [1, 2], [2, 1]])
        await c.alter({0: [1, 3], 2: [2, 3]})
        first = OngoingPartitionReassignment(0, ids(1, 3, 2), ids(3), ids(2))
        last = OngoingPartitionReassignment(2, ids(2, 3, 1), ids(3), ids(1))
        everything = await c.controller.ask(ListPartitionReassignmentsRequest())
        assert everything.topics == (OngoingTopicReassignment("t", (first, last)),)
        asked = (ListPartitionReassignmentsTopics("t", (0, 1, 9)), ListPartitionReassignmentsTopics("x", (0,)))
        some = await c.controller.ask(ListPartitionReassignmentsRequest(asked))
        assert some.topics == (OngoingTopicReassignment("t", (first,)),)
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("RA-50", "EV-8")
def test_a_standby_neither_moves_nor_lists() -> None:
    async def main() -> None:
        c = await cluster(1, 2, topic=[[1, 2]])
        standby = c.world.start_controller(1002)
        await settle()
        for request in (AlterPartitionReassignmentsRequest(()), ListPartitionReassignmentsRequest()):
            with pytest.raises(ApiError) as refused:
                await standby.ask(request)
            assert refused.value.code is E.NOT_CONTROLLER
        await standby.stop()
        await c.controller.stop()

    run_virtually(main)


def test_a_dry_run_changes_nothing_and_tells_what_would_be() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2]])
        answer = await c.ask_for({0: [2, 3], 9: [1]}, validate_only=True)
        assert [p.error_code for p in answer.responses[0].partitions] == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]
        assert answer.plan is not None
        (change,) = answer.plan.changes
        assert change.after.replicas == (2, 3, 1)
        assert await c.lists() == assignment([1, 2])
        assert c.controller.brokers.received == []
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("FO-12", "RA-52", "RA-53")
def test_the_next_controller_carries_on_and_puts_the_request_node_before_the_topic_node() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2], [1, 2]])
        await c.submit({0: [1, 4], 1: [2, 4]})
        await c.world.write(SetData(REASSIGN_PARTITIONS, encode_reassignments({T0: ids(1, 3)})))
        await c.controller.stop()
        successor = c.world.start_controller(1002)
        await until(lambda: successor.gauge("ActiveControllerCount") == 1)
        await settle()
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


def test_the_next_controller_ends_a_cancellation_that_was_only_recorded() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2]])
        await c.controller.stop()
        # As if it had died right after it had taken broker 3 out of the topic node.
        await c.world.write(SetData(state_path(T0), encode_state(leadership(3, [1, 2, 3], leader_epoch=4))))
        successor = c.world.start_controller(1002)
        await until(lambda: successor.gauge("ActiveControllerCount") == 1)
        await settle()
        c = Cluster(c.world, successor)
        assert await c.state() == (1, 6, (1, 2))
        assert c.heard(3) == ["stop", "delete"]
        assert counters_agree(c)
        await successor.stop()

    run_virtually(main)


@pytest.mark.rule("RA-10", "RA-27", "D-1", "TD-2", "TD-6")
def test_a_deletion_waits_for_the_move_and_goes_on_after_it() -> None:
    async def main() -> None:
        c = await cluster(1, 2, 3, topic=[[1, 2]])
        await c.alter({0: [1, 3]})
        await c.world.create("/admin/delete_topics/t")
        await settle()
        assert await c.world.topic("t") is not None
        assert "delete" not in c.heard(1)
        assert await c.alter({0: [1, 2]}) == [E.UNKNOWN_TOPIC_OR_PARTITION]
        await c.in_sync(1, 2, 3)
        assert "delete" in c.heard(1)
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("D-22")
def test_a_topic_that_vanishes_takes_its_entries_out_of_the_request_node() -> None:
    async def main() -> None:
        c = await cluster(1, 2, topic=[[1, 2]])
        await c.submit({0: [1, 9]})
        for path in (state_path(T0), "/brokers/topics/t/partitions/0", "/brokers/topics/t/partitions"):
            await c.world.delete(path)
        await c.world.delete("/brokers/topics/t")
        await settle()
        assert await c.requested() is None
        assert c.controller.context.partitions_being_reassigned == set()
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
            await settle()
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
        await settle()
        await c.alter({0: [1, 3]})
        await c.in_sync(1, 3)
        assert await c.lists() == assignment([1, 3])
        c.forget()
        await c.world.start_broker(2)
        await settle()
        assert c.heard(2) == []
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("EV-3")
def test_moves_are_timed_under_their_historical_name() -> None:
    async def main() -> None:
        c = await cluster(1, 2, topic=[[1, 2]])
        timer = c.controller.metrics.timer("kafka.controller", "ControllerStats", "PartitionReassignmentRateAndTimeMs")
        before = timer.count
        await c.alter({0: [2, 1]})
        assert timer.count == before + 1
        await c.controller.stop()

    run_virtually(main)
