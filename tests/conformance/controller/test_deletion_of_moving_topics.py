"""Topics that are deleted while they are reassigned: the move ends, and the deletion begins at once."""

import pytest
from structlog.testing import capture_logs

from cluster.model.broker import BrokerId, TopicId
from cluster.model.partition import TopicAssignment
from cluster.requests.control import LeaderAndIsrRequest
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.znodes.admin_requests import decode_reassignments, encode_reassignments
from cluster.znodes.paths import REASSIGN_PARTITIONS, topic_path
from cluster.znodes.topics import encode_topic
from tests.controllers.contexts import assignment, ids, tp
from tests.controllers.topic_deletions import gone, mark, stops
from tests.controllers.worlds import RunningController, quiesce, run_virtually, running_cluster, until


async def move(c: RunningController, *target: int) -> None:
    await c.ask(
        AlterPartitionReassignmentsRequest((ReassignableTopic("t", (ReassignablePartition(0, ids(*target)),)),))
    )
    await quiesce()


@pytest.mark.rule("D-1", "D-22", "TD-12")
def test_deleting_a_topic_ends_its_move_and_begins_at_once() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1], [1])
        await world.create_topic("u", [1])
        await world.leads("t", 1, leader=1)
        await world.leads("u", leader=1)
        moves = {tp("t-0"): ids(2), tp("u-0"): ids(2)}
        await world.create(REASSIGN_PARTITIONS, encode_reassignments(moves))
        await until(lambda: len(c.context.topics.being_reassigned) == 2)
        await quiesce()
        await mark(world, "t")
        await gone(world, "t")
        assert ("t", 0, -2, True) in stops(c, 2), "also the replica that was being added"
        entries = await world.tool.get(REASSIGN_PARTITIONS)
        assert entries is not None
        assert decode_reassignments(entries.data) == {tp("u-0"): ids(2)}
        assert c.context.topics.being_reassigned == {tp("u-0")}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-1", "D-22", "RA-53")
def test_a_new_controller_does_not_go_on_with_the_move_of_a_doomed_topic() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await world.create(REASSIGN_PARTITIONS, encode_reassignments({tp("t-0"): ids(2)}))
        await until(lambda: first.context.topics.being_reassigned)
        await first.stop()
        await mark(world, "t")
        second = world.start_controller(1002)
        await gone(world, "t")
        await quiesce()
        assert await world.tool.get(REASSIGN_PARTITIONS) is None
        assert ("t", 0, -2, True) in stops(second, 2)
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("RQ-21", "D-1")
def test_the_answer_of_a_move_that_removes_a_replica_is_none_of_the_deletions() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        c.brokers.unreachable.add(BrokerId(3))
        await move(c, 1, 3)
        await move(c, 1, 2)
        # What tells broker 3 to delete its replica has not arrived when the topic is deleted, with broker 2 silent.
        c.brokers.unreachable.add(BrokerId(2))
        await mark(world, "t")
        await until(lambda: "t" in c.context.deletions.started)
        c.brokers.unreachable.discard(BrokerId(3))
        with capture_logs() as lines:
            await quiesce()
        assert stops(c, 3)[-1][3], "the request of the move to delete the replica"
        assert not [line for line in lines if line["log_level"] == "error"]
        c.brokers.unreachable.clear()
        await gone(world, "t")
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TD-28", "D-1")
def test_a_half_deleted_topic_on_the_move_is_not_created_again() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2)
        await first.stop()
        await world.stop_broker(2)
        half = TopicAssignment({0: assignment([2, 1], adding=[2], removing=[1])}, TopicId("Wx8MUo0-SnefEGwuS32aMQ"))
        await world.create(topic_path("t"), encode_topic(half))
        await mark(world, "t")
        second = world.start_controller(1002)
        await until(lambda: second.is_active)
        await quiesce()
        assert await world.state("t") is None
        assert not second.brokers.of(1, LeaderAndIsrRequest)
        await until(lambda: second.gauge("TopicsIneligibleToDeleteCount") == 1)
        await quiesce(600)
        await gone(world, "t")
        await second.stop()

    run_virtually(main)
