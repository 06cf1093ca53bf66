"""Requests to a controller beyond their bounds: refused as Kafka would, never an internal error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.aio.slices import SLICE
from cluster.model import bounds, replica_placement
from cluster.model.broker import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest, ControlledShutdownRequest
from cluster.requests.cluster import WatchRequest
from cluster.requests.configs import (
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    ConfigResource,
    DescribeConfigsRequest,
)
from cluster.requests.elections import PlanControlledShutdownRequest
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DescribeTopicsRequest,
    NewPartitions,
    NewPartitionsAssignment,
    NewTopic,
)
from tests.controllers.contexts import ids
from tests.controllers.worlds import RunningController, World, run_virtually, running_cluster
from tests.turns import turns_during


async def has_topic() -> tuple[World, RunningController]:
    world, c = await running_cluster(1, 2)
    await world.create_topic("t", [1, 2])
    await world.leads("t", leader=1)
    return world, c


@pytest.mark.rule("BD-2")
@pytest.mark.parametrize(
    "cursor", ["9" * 5000, f"{'9' * 5000}-1", f"1-{'9' * 5000}", "1", "-", "1-", "-1", "²-1", "1-٣", "1-2-3", "x", "\0"]
)
def test_a_cursor_that_no_stream_has_is_an_invalid_request(cursor: str) -> None:
    async def main() -> None:
        _, c = await running_cluster(1)
        with pytest.raises(ApiError) as refused:
            await c.ask(WatchRequest(cursor))
        assert (refused.value.code, refused.value.field) == (ErrorCode.INVALID_REQUEST, "cursor")
        assert len(refused.value.message) < 200
        await c.stop()

    run_virtually(main)


@pytest.mark.parametrize("broker", [9, -1, 2**31 - 1])
def test_a_shutdown_of_an_unknown_broker_cannot_be_planned_and_is_not_to_be_retried(broker: int) -> None:
    async def main() -> None:
        _, c = await running_cluster(1)
        with pytest.raises(ApiError) as refused:
            await c.ask(PlanControlledShutdownRequest(BrokerId(broker)))
        assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-1", "TP-1")
def test_more_partitions_than_a_topic_can_have_are_refused_at_once() -> None:
    async def main() -> None:
        _, c = await has_topic()
        created = await c.ask(
            CreateTopicsRequest((NewTopic("many", 2**31 - 1, 1), NewTopic("one", 1, 1), NewTopic("r", 1, 2**31 - 1)))
        )
        assert [(t.name, t.error_code) for t in created.topics] == [
            ("many", ErrorCode.INVALID_PARTITIONS),
            ("one", ErrorCode.NONE),
            ("r", ErrorCode.INVALID_REPLICATION_FACTOR),
        ]
        assert "2147483647" in created.topics[0].error_message
        expanded = await c.ask(CreatePartitionsRequest((NewPartitions("t", 2**31 - 1), NewPartitions("one", 2))))
        assert [r.error_code for r in expanded.results] == [ErrorCode.INVALID_PARTITIONS, ErrorCode.NONE]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-1", "IS-5")
def test_a_bad_isr_proposal_leaves_the_others_as_they_were() -> None:
    async def main() -> None:
        world, c = await has_topic()
        epoch = await world.broker_epoch(1)

        def item(**changes: Any) -> AlterPartitionItem:
            values: dict[str, Any] = {
                "topic_name": "t",
                "topic_id": None,
                "partition_index": 0,
                "leader_epoch": LeaderEpoch(0),
                "new_isr": (BrokerId(1), BrokerId(2)),
                "partition_epoch": PartitionEpoch(0),
            }
            return AlterPartitionItem(**{**values, **changes})

        items = (
            item(topic_name="../../x"),
            item(),
            item(new_isr=(1, 1)),
            item(new_isr=(-1,)),
            item(topic_id=TopicId("x")),
            item(partition_index=-1),
            item(leader_epoch=2**31),
        )
        response = await c.ask(AlterPartitionRequest(BrokerId(1), epoch, items))
        codes = [result.error_code for result in response.partitions]
        bad, invalid = ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REQUEST
        assert codes == [bad, ErrorCode.NONE, invalid, invalid, invalid, invalid, invalid]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-2")
def test_a_broker_beyond_its_bounds_is_answered_between_nodes_by_a_code() -> None:
    async def main() -> None:
        _, c = await has_topic()
        for request in (
            ControlledShutdownRequest(BrokerId(-5)),
            ControlledShutdownRequest(BrokerId(1), BrokerEpoch(-9)),
            AlterPartitionRequest(BrokerId(2**31), BrokerEpoch(1), ()),
        ):
            assert (await c.ask(request)).error_code is ErrorCode.INVALID_REQUEST
        assert c.context.brokers.live_ids == {1, 2}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BD-1")
@pytest.mark.parametrize("name", ["../../x", "a" * 300, "", "x\0", "\ud800", "."])
def test_configs_of_a_topic_that_cannot_exist_are_refused(name: str) -> None:
    async def main() -> None:
        world, c = await has_topic()
        settings = (AlterableConfig("retention.ms", 0, "7"),)
        resources = (
            AlterConfigsResource(TOPIC_RESOURCE, name, settings),
            AlterConfigsResource(TOPIC_RESOURCE, "t", settings),
        )
        response = await c.ask(AlterConfigsRequest(resources))
        assert [r.error_code is ErrorCode.NONE for r in response.responses] == [False, True]
        assert await world.tool.children("/config/topics") == ("t",)
        await c.stop()

    run_virtually(main)


BOUND = bounds.REPLICAS_OF_CALL.maximum
TOO_MUCH_WORK: dict[str, Callable[[], Any]] = {
    "counts": lambda: CreateTopicsRequest(tuple(NewTopic(f"n{n}", BOUND // 10, 2) for n in range(9))),
    "assignments": lambda: CreateTopicsRequest(
        tuple(NewTopic(f"n{n}", assignments=dict.fromkeys(range(BOUND // 10), ids(1, 2))) for n in range(9))
    ),
    "expansions": lambda: CreatePartitionsRequest(tuple(NewPartitions(f"t{n}", BOUND // 10 + 2) for n in range(9))),
    "a grown topic with assignments": lambda: CreatePartitionsRequest(
        (NewPartitions("t0", 2, (NewPartitionsAssignment(ids(1, 2)),) * BOUND),)
    ),
    "moves": lambda: AlterPartitionReassignmentsRequest((moves("t0", BOUND // 2 + 1, ids(1, 2)),)),
    "cancellations": lambda: AlterPartitionReassignmentsRequest((moves("t0", BOUND, None), moves("t1", 1, None))),
}
"""Made by the tests themselves: all of them at a time are a hundred thousand objects."""


def moves(topic: str, count: int, target: tuple[BrokerId, ...] | None) -> ReassignableTopic:
    return ReassignableTopic(topic, tuple(ReassignablePartition(number, target) for number in range(count)))


@pytest.mark.rule("BD-8")
@pytest.mark.parametrize("is_dry_run", [False, True], ids=["in earnest", "dry run"])
@pytest.mark.parametrize("make", TOO_MUCH_WORK.values(), ids=list(TOO_MUCH_WORK))
def test_a_call_that_asks_for_too_many_replicas_is_refused_before_any_is_placed(
    make: Callable[[], Any], is_dry_run: bool
) -> None:
    request = replace(make(), validate_only=is_dry_run)

    async def main() -> None:
        world, c = await running_cluster(1, 2)
        for topic in range(9):
            await world.create_topic(f"t{topic}", [1, 2])
            await world.leads(f"t{topic}", leader=1)
        before = c.context.topics.assignments
        with no_placement(), pytest.raises(ApiError) as refused:
            await c.ask(request)
        assert refused.value.code is ErrorCode.POLICY_VIOLATION
        assert refused.value.field is not None
        assert refused.value.field.startswith("topics.")
        assert int(str(refused.value.value)) > bounds.REPLICAS_OF_CALL.maximum
        assert f"not {int(str(refused.value.value)):,}: use several calls" in refused.value.message
        assert f"{bounds.REPLICAS_OF_CALL.maximum:,} replicas" in refused.value.message
        assert c.context.topics.assignments == before
        await c.stop()

    run_virtually(main)


@contextmanager
def no_placement() -> Iterator[None]:
    """Fails as soon as a partition is placed."""

    def watch(frame: FrameType, event: str, _: Any) -> None:
        is_placing = event == "call" and frame.f_code is replica_placement._place_partition.__code__
        assert not is_placing, "a replica was placed"

    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.rule("BD-8")
def test_as_many_replicas_as_a_large_topic_has_are_placed_in_one_call() -> None:
    async def main() -> None:
        _, c = await running_cluster(1, 2, 3)
        created = await c.ask(CreateTopicsRequest((NewTopic("large", 10_000, 3),), validate_only=True))
        assert [(t.error_code, t.num_partitions) for t in created.topics] == [(ErrorCode.NONE, 10_000)]
        await c.stop()

    run_virtually(main, max_steps=10_000_000)


MANY = 20 * SLICE
NAMES = tuple(f"t{number}" for number in range(MANY))


@pytest.mark.rule("BD-9")
@pytest.mark.parametrize(
    "request_",
    [
        DescribeConfigsRequest(tuple(ConfigResource(TOPIC_RESOURCE, name) for name in NAMES)),
        DescribeConfigsRequest((ConfigResource(TOPIC_RESOURCE, "t"),) * MANY),
        DescribeTopicsRequest(NAMES),
    ],
    ids=["configs", "configs of one topic", "topics"],
)
def test_a_query_of_many_items_lets_others_have_their_turn(request_: Any) -> None:
    async def main() -> None:
        _, c = await has_topic()
        assert await turns_during(c.ask(request_)) >= MANY // SLICE
        await c.stop()

    run_virtually(main)


def test_configs_of_a_resource_that_is_named_twice_are_refused_each_time() -> None:
    async def main() -> None:
        _, c = await has_topic()
        resources = [ConfigResource(TOPIC_RESOURCE, name) for name in ("t", "u", "t")]
        described = await c.ask(DescribeConfigsRequest(tuple(resources)))
        refused, unknown = ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [r.error_code for r in described.results] == [refused, unknown, refused]
        await c.stop()

    run_virtually(main)
