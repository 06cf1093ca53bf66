"""What a dry run says where the real one would be refused, or would find what the controller has not seen yet."""

import pytest
from msgspec.structs import replace

from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.plans import Plan
from cluster.requests.topics import CreatePartitionsRequest, CreateTopicsRequest, NewPartitions, NewTopic
from cluster.znodes.paths import CONTROLLER_EPOCH, topic_path
from cluster.zookeeper.port import SetData
from tests.controllers.contexts import ids
from tests.controllers.dry_runs import planned, received
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster

NEW = CreateTopicsRequest((NewTopic("new", assignments={0: ids(1)}),), timeout_ms=5000)


@pytest.mark.rule("FN-2", "TP-1")
@pytest.mark.parametrize("validate_only", [True, False])
def test_who_was_replaced_plans_nothing_any_more(validate_only: bool) -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        # Written by the controller that was elected next, of which this one has not heard.
        c.zookeeper.listen(lambda _: None)
        await world.write(SetData(CONTROLLER_EPOCH, b"7"))
        with pytest.raises(ApiError) as refused:
            await c.ask(replace(NEW, validate_only=validate_only))
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        assert await world.topic("new") is None

    run_virtually(main)


async def with_unseen_topic() -> tuple[World, RunningController]:
    world, c = await running_cluster(1)
    assert c.zookeeper._session is not None
    c.zookeeper._session.watches.clear()
    await world.create_topic("unseen", [1])
    await quiesce()
    assert "unseen" not in c.context.topics.names
    return world, c


@pytest.mark.rule("TP-1")
def test_a_topic_that_zookeeper_has_is_there_although_the_controller_has_not_seen_it() -> None:
    async def main() -> None:
        _, c = await with_unseen_topic()
        request = CreateTopicsRequest((NewTopic("unseen", assignments={0: ids(1)}),), validate_only=True)
        answer = await c.ask(request)
        assert answer.topics[0].error_code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert answer.plan == Plan()
        grown = await c.ask(CreatePartitionsRequest((NewPartitions("unseen", 2),), validate_only=True))
        assert grown.results[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "unseen" not in c.context.topics.names

    run_virtually(main)


@pytest.mark.rule("TP-10")
def test_what_the_controller_comes_to_see_by_a_request_is_in_its_plan() -> None:
    async def main() -> None:
        _, c = await with_unseen_topic()
        # The watch that the request fires.
        await c.zookeeper.children("/brokers/topics", watch=True)
        c.brokers.received.clear()
        plan = (await c.ask(replace(NEW, validate_only=True))).plan
        assert [change.topic for change in plan.changes] == ["new", "unseen"]
        assert "unseen" not in c.context.topics.names
        await c.ask(NEW)
        await quiesce()
        assert received(c) == planned(plan)
        assert {"new", "unseen"} <= c.context.topics.names

    run_virtually(main)


def test_a_topic_whose_node_cannot_be_read_stays_as_it_is() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create(topic_path("bad"), b"malformed")
        await quiesce()
        grown = await c.ask(CreatePartitionsRequest((NewPartitions("bad", 2),), validate_only=True))
        assert grown.results[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        plan = (await c.ask(replace(NEW, validate_only=True))).plan
        assert [change.topic for change in plan.changes] == ["new"]

    run_virtually(main)
