"""What the `--zookeeper` tools of Apache Kafka 2.8.2 wrote, byte by byte, and what klamm makes of it.

The documents were copied from ZooKeeper after kafka-topics, kafka-reassign-partitions,
kafka-preferred-replica-election and kafka-configs had run against a cluster of klamm without a controller.
"""

import pytest

from cluster.model.broker import BrokerId
from cluster.model.partition import ReplicaAssignment
from cluster.znodes.paths import (
    CONFIG_CHANGES,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    delete_topic_path,
    topic_config_path,
    topic_path,
)
from cluster.zookeeper.port import Create, SetData
from tests.controllers.contexts import tp
from tests.controllers.elections import catch_up, cluster
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until

CREATED = b'{"partitions":{"0":[1,2],"1":[2,3]},"adding_replicas":{},"removing_replicas":{},"version":3}'
CONFIGURED = b'{"version":1,"config":{"retention.ms":"100000"}}'
GROWN = (
    b'{"partitions":{"0":[1,2],"1":[2,3],"2":[3,1]},"topic_id":"%s","adding_replicas":{},"removing_replicas":{},'
    b'"version":3}'
)
MOVED = (
    b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[2,3]},'
    b'{"topic":"orders","partition":1,"replicas":[3,2]}]}'
)
ELECTED = b'{"version":1,"partitions":[{"topic":"orders","partition":1}]}'
CHANGED = b'{"version":1,"config":{"min.insync.replicas":"1","unclean.leader.election.enable":"true"}}'
NOTIFIED = b'{"version":2,"entity_path":"topics/orders"}'


async def created() -> tuple[World, RunningController]:
    world, c = await cluster(1, 2, 3)
    await world.write(Create(topic_config_path("orders"), CONFIGURED), Create(topic_path("orders"), CREATED))
    await world.leads("orders", 0, leader=1, isr=(1, 2))
    await world.leads("orders", 1, leader=2, isr=(2, 3))
    return world, c


async def topic_id(world: World) -> bytes:
    found = await world.topic("orders")
    assert found is not None
    assert found.topic_id is not None
    return found.topic_id.encode()


@pytest.mark.rule("ZK-21", "TP-10", "TP-20")
def test_a_topic_created_and_grown_by_kafka_topics_gets_an_id_and_leaders() -> None:
    async def main() -> None:
        world, _ = await created()
        given = await topic_id(world)
        await world.write(SetData(topic_path("orders"), GROWN % given))
        await world.leads("orders", 2, leader=3, isr=(3, 1))
        assert await topic_id(world) == given

    run_virtually(main)


@pytest.mark.rule("RA-30", "RA-22", "EP-10", "EP-11")
def test_moves_and_elections_of_kafkas_tools_are_carried_out_and_their_nodes_removed() -> None:
    async def main() -> None:
        world, c = await created()
        await world.write(Create(REASSIGN_PARTITIONS, MOVED))
        await until(lambda: c.context.topics.assignment(tp("orders-0")).adding == (3,))
        await quiesce()
        await catch_up(world, c, tp("orders-0"), broker=3)
        await world.leads("orders", 0, leader=2, isr=(2, 3))
        moved = await world.topic("orders")
        assert moved is not None
        assert moved.partitions == {
            0: ReplicaAssignment((BrokerId(2), BrokerId(3))),
            1: ReplicaAssignment((BrokerId(3), BrokerId(2))),
        }
        assert await world.tool.get(REASSIGN_PARTITIONS) is None
        await world.write(Create(PREFERRED_REPLICA_ELECTION, ELECTED))
        await world.leads("orders", 1, leader=3, isr=(2, 3))
        assert await world.tool.get(PREFERRED_REPLICA_ELECTION) is None

    run_virtually(main)


@pytest.mark.rule("ZK-3")
def test_settings_of_kafka_configs_take_effect() -> None:
    async def main() -> None:
        world, _ = await created()
        await world.stop_broker(1)
        await world.leads("orders", 0, leader=2, isr=(2,))
        await world.stop_broker(2)
        await world.leads("orders", 0, leader=-1)
        await world.start_broker(1)
        await quiesce()
        await world.leads("orders", 0, leader=-1)
        await world.write(SetData(topic_config_path("orders"), CHANGED))
        await world.write(Create(f"{CONFIG_CHANGES}/config_change_", NOTIFIED, sequential=True))
        await world.leads("orders", 0, leader=1, isr=(1,))

    run_virtually(main)


@pytest.mark.rule("TD-1")
def test_a_topic_marked_by_kafka_topics_is_deleted() -> None:
    async def main() -> None:
        world, _ = await created()
        await world.write(Create(delete_topic_path("orders")))

        async def gone() -> bool:
            paths = (topic_path("orders"), topic_config_path("orders"), delete_topic_path("orders"))
            return [await world.tool.get(path) for path in paths] == [None, None, None]

        await until(gone)

    run_virtually(main)
