"""Requests for reassignments and their responses: API, znode, listing, dry runs."""

import pytest

from cluster.model.errors import ApiError
from cluster.model.partition import TopicPartition
from cluster.requests.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from cluster.znodes.paths import REASSIGN_PARTITIONS, state_path
from tests.controllers.contexts import assignment, ids
from tests.controllers.reassignments import T0, E, cluster
from tests.controllers.worlds import quiesce, run_virtually


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
        assert c.controller.context.topics.being_reassigned == {TopicPartition("t", 5)}
        await c.controller.stop()

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
        await quiesce()
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
        await quiesce()
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
        await quiesce()
        assert await c.alter({0: [2, 1]}) == [E.NONE]
        znode = await c.world.tool.get(REASSIGN_PARTITIONS)
        assert znode is not None
        assert znode.data == body
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
        await quiesce()
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


@pytest.mark.rule("D-22")
def test_a_topic_that_vanishes_takes_its_entries_out_of_the_request_node() -> None:
    async def main() -> None:
        c = await cluster(1, 2, topic=[[1, 2]])
        await c.submit({0: [1, 9]})
        for path in (state_path(T0), "/brokers/topics/t/partitions/0", "/brokers/topics/t/partitions"):
            await c.world.delete(path)
        await c.world.delete("/brokers/topics/t")
        await quiesce()
        assert await c.requested() is None
        assert c.controller.context.topics.being_reassigned == set()
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
