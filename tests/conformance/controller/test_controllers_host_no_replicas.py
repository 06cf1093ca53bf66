"""Apache Kafka's brokers take the active controller for a broker: it gets no replica, and is none in its own view."""

from typing import Any

import pytest

from cluster.model.broker import Broker, BrokerId, Endpoint
from cluster.model.errors import ErrorCode
from cluster.model.partition import ReplicaAssignment
from cluster.requests.cluster import DescribeClusterRequest
from cluster.requests.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from cluster.znodes.admin_requests import encode_reassignments
from cluster.znodes.paths import REASSIGN_PARTITIONS, broker_path
from cluster.znodes.registrations import encode_broker
from cluster.zookeeper.port import Create
from tests.controllers.contexts import ids, tp
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

KAFKA: dict[str, Any] = {"controller_id": 901, "takeover": "atomic", "governs_kafka": True}


async def replicas(world: World, topic: str) -> list[tuple[BrokerId, ...]]:
    found = await world.topic(topic)
    assert found is not None
    return [found.partitions[p].replicas for p in sorted(found.partitions)]


async def kafka_cluster(*brokers: int) -> tuple[World, RunningController]:
    return await running_cluster(*brokers, **KAFKA)


@pytest.mark.rule("TO-10")
def test_a_topic_that_a_broker_placed_on_the_controller_is_rewritten_before_its_first_election() -> None:
    async def main() -> None:
        world, c = await kafka_cluster(1, 2, 3)
        await world.create_topic("auto", [3, 2, 901], [901, 3, 1])
        await world.leads("auto", 0, leader=3, isr=[3, 2, 1])
        await world.leads("auto", 1, leader=2, isr=[2, 3, 1])
        assert await replicas(world, "auto") == [ids(3, 2, 1), ids(2, 3, 1)]
        assert c.context.topics.assignment(tp("auto-0")) == ReplicaAssignment(ids(3, 2, 1))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TO-10")
def test_a_failover_rewrites_what_brokers_placed_on_the_controller_before_it() -> None:
    async def main() -> None:
        world, c = await kafka_cluster(1, 2, 3)
        await world.create_topic("elected", [1, 2])
        await world.leads("elected", leader=1)
        await c.stop()
        await world.create_topic("waiting", [3, 2, 901])
        # Its log remains when the candidate is gone, and its id is in the brokers' caches for a while.
        await world.create("/klamm/state_log/controller-901")
        other = world.start_controller(902, takeover="atomic", governs_kafka=True)
        await world.leads("waiting", leader=3, isr=[3, 2, 1])
        assert await replicas(world, "waiting") == [ids(3, 2, 1)]
        assert await replicas(world, "elected") == [ids(1, 2)]
        await other.stop()

    run_virtually(main)


@pytest.mark.rule("TO-10")
def test_over_klamms_own_brokers_ids_are_not_examined() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [3, 2, 1001])
        await world.leads("t", leader=3, isr=[3, 2])
        assert await replicas(world, "t") == [ids(3, 2, 1001)]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TO-11")
def test_replicas_on_a_controller_are_refused_by_every_way_and_named() -> None:
    async def main() -> None:
        world, c = await kafka_cluster(1, 2)
        standby = world.start_controller(902, takeover="atomic", governs_kafka=True)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        for controller in (901, 902):
            (created,) = (
                await c.ask(CreateTopicsRequest((NewTopic("u", assignments={0: ids(1, controller)}),)))
            ).topics
            assert created.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert str(controller) in created.error_message
            move = ReassignableTopic("t", (ReassignablePartition(0, ids(1, controller)),))
            answer = await c.ask(AlterPartitionReassignmentsRequest((move,)))
            (refused,) = answer.responses[0].partitions
            assert refused.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert str(controller) in refused.error_message
            await world.create(REASSIGN_PARTITIONS, encode_reassignments({tp("t-0"): ids(1, controller)}))
            await until(lambda: world.server.tree.get(REASSIGN_PARTITIONS) is None, "the request is refused")
        assert await replicas(world, "t") == [ids(1, 2)]
        await standby.stop()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TO-12")
def test_a_controller_that_registers_as_a_broker_is_none_in_its_own_view() -> None:
    async def main() -> None:
        world, c = await kafka_cluster(1, 2)
        registration = encode_broker(Broker(BrokerId(901), (Endpoint("controller", 9092),)), 1)
        await world.write(Create(broker_path(BrokerId(901)), registration))
        await quiesce()
        assert c.gauge("ActiveBrokerCount") == 2
        described = await c.ask(DescribeClusterRequest())
        assert [broker.id for broker in described.brokers] == [1, 2]
        (created,) = (await c.ask(CreateTopicsRequest((NewTopic("t", 4, 2),)))).topics
        assert created.error_code is ErrorCode.NONE
        assert {b for found in await replicas(world, "t") for b in found} == {1, 2}
        await c.stop()

    run_virtually(main)
