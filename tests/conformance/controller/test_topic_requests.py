"""DeleteTopics and CreatePartitions through the API: refusals per item, and when the response is sent."""

from typing import Any

import pytest

from cluster.model.broker import BrokerId, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.partition import ReplicaAssignment
from cluster.requests.control import LeaderAndIsrRequest
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResult,
    DeleteTopicsRequest,
    DescribeTopicsRequest,
    NewPartitions,
    NewPartitionsAssignment,
    TopicToDelete,
)
from cluster.znodes.paths import delete_topic_path, topic_path
from cluster.znodes.topics import encode_topic
from cluster.zookeeper.port import Create, SetData
from tests.controllers.contexts import ids
from tests.controllers.worlds import RunningController, quiesce, run_virtually, running_cluster, until

E = ErrorCode


async def delete(c: RunningController, *topics: TopicToDelete, **options: Any) -> list[tuple[str | None, ErrorCode]]:
    answer = await c.ask(DeleteTopicsRequest(topics, **options))
    return [(result.name, result.error_code) for result in answer.responses]


@pytest.mark.rule("TP-3", "TP-4")
def test_each_topic_of_a_deletion_is_checked_by_itself() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        for topic in ("by-name", "by-id", "marked", "twice", "kept"):
            await world.create_topic(topic, [1])
            await world.leads(topic, leader=1)
        await quiesce()
        named = await world.topic("by-id")
        assert named is not None
        assert named.topic_id is not None
        await world.write(Create(delete_topic_path("marked")))
        answers = await delete(
            c,
            TopicToDelete("by-name"),
            TopicToDelete(topic_id=TopicId(named.topic_id)),
            TopicToDelete("marked"),
            TopicToDelete("twice"),
            TopicToDelete("twice"),
            TopicToDelete("unknown"),
            TopicToDelete(topic_id=TopicId("AAAAAAAAAAAAAAAAAAAAAQ")),
            TopicToDelete(),
            TopicToDelete("kept", TopicId(named.topic_id)),
        )
        assert answers == [
            ("by-name", E.NONE),
            ("by-id", E.NONE),
            ("marked", E.NONE),
            ("twice", E.INVALID_REQUEST),
            ("twice", E.INVALID_REQUEST),
            ("unknown", E.UNKNOWN_TOPIC_OR_PARTITION),
            (None, E.UNKNOWN_TOPIC_ID),
            (None, E.INVALID_REQUEST),
            ("kept", E.INVALID_REQUEST),
        ]
        assert world.server.tree.children("/brokers/topics") == ("kept", "twice")
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-3")
def test_where_deletion_is_disabled_nothing_is_marked() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, delete_topic_enable=False)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        assert await delete(c, TopicToDelete("t")) == [("t", E.TOPIC_DELETION_DISABLED)]
        assert world.server.tree.get(delete_topic_path("t")) is None
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-4")
@pytest.mark.parametrize("timeout_ms", [0, 200])
def test_a_deletion_that_takes_longer_than_asked_goes_on_behind_the_answer(timeout_ms: int) -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await quiesce()
        c.brokers.unreachable.add(BrokerId(1))
        assert await delete(c, TopicToDelete("t"), timeout_ms=timeout_ms) == [("t", E.REQUEST_TIMED_OUT)]
        (described,) = (await c.ask(DescribeTopicsRequest(("t",)))).topics
        assert described.queued_for_deletion
        c.brokers.unreachable.clear()
        await until(lambda: world.server.tree.get(topic_path("t")) is None)
        await c.stop()

    run_virtually(main)


def test_a_deletion_that_is_only_validated_marks_nothing() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        answers = await delete(c, TopicToDelete("t"), TopicToDelete("u"), validate_only=True)
        assert answers == [("t", E.NONE), ("u", E.UNKNOWN_TOPIC_OR_PARTITION)]
        await quiesce()
        assert world.server.tree.get(topic_path("t")) is not None
        await c.stop()

    run_virtually(main)


async def expand(c: RunningController, *topics: NewPartitions, **options: Any) -> list[CreatePartitionsResult]:
    return list((await c.ask(CreatePartitionsRequest(topics, **options))).results)


def wanted(name: str, count: int, *assignments: tuple[int, ...]) -> NewPartitions:
    return NewPartitions(name, count, tuple(NewPartitionsAssignment(ids(*a)) for a in assignments) or None)


@pytest.mark.rule("TP-2", "TP-4", "TP-5", "TP-20", "TP-23")
def test_a_topic_grows_where_it_would_have_been_placed_and_keeps_what_it_has() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [2, 3], [1, 3])
        await world.create_topic("u", [3])
        await world.leads("t", 1, leader=1)
        await world.leads("u", leader=3)
        before = await world.topic("t")
        assert before is not None
        t, u = await expand(c, wanted("t", 4), wanted("u", 2, (2,)))
        # Broker 2 is at index 1: partition 2 begins at (2 + 1) mod 3, its second replica 1 + 1 mod 2 further;
        # partition 3 has gone round once, which shifts by one more.
        assert (t.error_code, t.assignments) == (E.NONE, {2: ids(1, 3), 3: ids(2, 3)})
        assert (u.error_code, u.assignments) == (E.NONE, {1: ids(2)})
        after = await world.topic("t")
        assert after is not None
        assert after.topic_id == before.topic_id
        assert after.partitions == before.partitions | {
            2: ReplicaAssignment(ids(1, 3)),
            3: ReplicaAssignment(ids(2, 3)),
        }
        assert (await world.leads("t", 2, leader=1)).isr == (1, 3)
        assert (await world.leads("u", 1, leader=2)).isr == (2,)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-2")
def test_each_expansion_is_checked_by_itself() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        for topic in ("t", "doomed", "twice"):
            await world.create_topic(topic, [1, 2])
            await world.leads(topic, leader=1)
        await quiesce()
        c.brokers.unreachable.add(BrokerId(1))
        await world.write(Create(delete_topic_path("doomed")))
        results = await expand(
            c,
            wanted("t", 1),
            wanted("unknown", 2),
            wanted("doomed", 2),
            wanted("twice", 2),
            wanted("twice", 3),
        )
        assert [r.error_code for r in results] == [
            E.INVALID_PARTITIONS,
            E.UNKNOWN_TOPIC_OR_PARTITION,
            E.INVALID_TOPIC_EXCEPTION,
            E.INVALID_REQUEST,
            E.INVALID_REQUEST,
        ]
        for assignments in [((1, 2), (2, 1)), ((1,),), ((1, 1),), ((1, 9),)]:
            (refused,) = await expand(c, wanted("t", 2, *assignments))
            assert refused.error_code is E.INVALID_REPLICA_ASSIGNMENT, assignments
            assert refused.error_message
        assert set((await world.topic("t")).partitions) == {0}  # type: ignore[union-attr]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-2")
def test_a_topic_on_the_move_does_not_grow() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await c.ask(AlterPartitionReassignmentsRequest((ReassignableTopic("t", (ReassignablePartition(0, ids(2)),)),)))
        (refused,) = await expand(c, wanted("t", 2))
        assert refused.error_code is E.REASSIGNMENT_IN_PROGRESS
        await c.stop()

    run_virtually(main)


def test_an_expansion_that_is_only_validated_says_where_replicas_would_go() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        (planned,) = await expand(c, wanted("t", 3), validate_only=True)
        assert planned.assignments == {1: ids(2), 2: ids(1)}
        await quiesce()
        assert set((await world.topic("t")).partitions) == {0}  # type: ignore[union-attr]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-4")
def test_new_partitions_without_a_leader_in_time_are_there_all_the_same() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        (late,) = await expand(c, wanted("t", 2), timeout_ms=0)
        assert late.error_code is E.REQUEST_TIMED_OUT
        await world.leads("t", 1, leader=2)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-20", "TP-24")
def test_changed_and_missing_partitions_of_a_topic_znode_are_ignored() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1], [1])
        before = await world.leads("t", 1, leader=1)
        topic = await world.topic("t")
        assert topic is not None
        await quiesce()
        c.brokers.received.clear()
        changed = {0: ReplicaAssignment(ids(2, 1))}
        await world.write(SetData(topic_path("t"), encode_topic(type(topic)(changed, topic.topic_id))))
        await quiesce()
        assert c.context.topics.assignments["t"] == topic.partitions
        assert await world.state("t", 1) == before
        assert not c.brokers.of(2, LeaderAndIsrRequest)
        await c.stop()

    run_virtually(main)
