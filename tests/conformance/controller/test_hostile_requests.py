"""Requests to a controller beyond their bounds: refused as Kafka would, never an internal error."""

from typing import Any

import pytest

from cluster.broker import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from cluster.errors import ApiError, ErrorCode
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest, ControlledShutdownRequest
from cluster.requests.cluster import WatchRequest
from cluster.requests.configs import TOPIC_RESOURCE, AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from cluster.requests.elections import PlanControlledShutdownRequest
from cluster.requests.topics import CreatePartitionsRequest, CreateTopicsRequest, NewPartitions, NewTopic
from tests.controllers import RunningController, World, run_virtually, running_cluster


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
        assert c.context.live_broker_ids == {1, 2}
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
