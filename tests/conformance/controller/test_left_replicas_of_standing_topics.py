"""What a record of deleted replicas must not cost: data of a newer topic, or of one that stands after all."""

from typing import Any

import pytest

from cluster.model.broker import BrokerId, TopicId
from cluster.model.errors import ErrorCode
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest
from cluster.znodes.paths import delete_topic_path
from cluster.zookeeper.port import Create
from tests.conformance.controller.test_left_replicas import ID, THREE, about_t, create_again, record, without_broker_3
from tests.controllers.contexts import ids
from tests.controllers.topics_without_ids import describe, id_in_znode
from tests.controllers.worlds import quiesce, run_virtually, running_cluster, until
from tests.kafka.old_tools import rewrite_as_old_tool


@pytest.mark.rule("D-99", "IS-10")
def test_a_broker_that_still_has_a_deleted_topic_joins_no_isr_of_a_newer_one() -> None:
    """It may follow the newer one without having been told to, as the process that lost only its session does: names
    and leader epochs are the same. What it fetched is deleted with the rest.
    """

    async def main() -> None:
        world, c = await without_broker_3(delete_topic_absent_broker_grace_ms=0)
        new_id = await create_again(world)
        c.brokers.unreachable.add(THREE)
        await world.start_broker(3)
        await quiesce()
        for code, isr in ((ErrorCode.INELIGIBLE_REPLICA, (1,)), (ErrorCode.NONE, (1, 3))):
            state = await world.state("t")
            assert state is not None
            item = AlterPartitionItem("", TopicId(new_id), 0, state.leader_epoch, ids(1, 3), state.partition_epoch)
            answer = await c.ask(AlterPartitionRequest(BrokerId(1), await world.broker_epoch(1), (item,)))
            assert [result.error_code for result in answer.partitions] == [code]
            await world.leads("t", leader=1, isr=isr)
            c.brokers.unreachable.clear()
            await quiesce()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-98")
@pytest.mark.parametrize("settings", [{}, {"delete_topic_enable": False}], ids=["marker removed", "disabled"])
def test_a_topic_that_is_not_deleted_after_all_keeps_the_only_replica_of_a_broker_that_was_away(
    settings: dict[str, Any],
) -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3, delete_topic_absent_broker_grace_ms=0)
        await world.create_topic("t", [2], [3], topic_id=ID)
        await world.leads("t", 1, leader=3)
        await quiesce()
        await world.stop_broker(3)
        c.brokers.deletions[BrokerId(2)] = ErrorCode.KAFKA_STORAGE_ERROR
        await world.write(Create(delete_topic_path("t")))
        await quiesce()
        assert await record(world) is not None
        await c.stop()
        if not settings:
            await world.delete(delete_topic_path("t"))
        second = world.start_controller(1002, **settings)
        await until(lambda: second.is_active)
        await world.start_broker(3)
        await world.leads("t", 1, leader=3, isr=(3,))
        await quiesce()
        assert await record(world) is None
        assert {kind for kind, _ in about_t(second)} == {"lead or follow"}
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("D-99", "D-102")
def test_the_id_of_a_deleted_topic_in_what_is_left_of_it_is_not_given_to_a_newer_one() -> None:
    async def main() -> None:
        world, c = await without_broker_3(delete_topic_absent_broker_grace_ms=0)
        new_id = await create_again(world)
        await c.stop()
        await rewrite_as_old_tool(world.tool, "t", {})
        await world.stop_broker(1)
        await world.start_broker(3)
        second = world.start_controller(1002)
        second.brokers.deletions[THREE] = ErrorCode.KAFKA_STORAGE_ERROR
        describe(second, 3, {"t": TopicId(ID)})
        describe(second, 1, {"t": TopicId(new_id)})
        await until(lambda: second.is_active)
        await quiesce(20)
        assert await id_in_znode(world) is None
        await world.start_broker(1)
        await quiesce(20)
        assert await id_in_znode(world) == new_id
        await second.stop()

    run_virtually(main)
