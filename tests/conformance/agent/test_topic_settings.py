"""Topic configs that change while logs are open, and change notifications that were missed."""

import asyncio

import pytest

from broker_agent.log.config import LogConfig
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.znodes.configs import CONFIG_CHANGE_PREFIX, ConfigEntity, encode_config, encode_config_change
from cluster.znodes.paths import topic_config_path
from cluster.zookeeper.port import Create, Op, SetData
from simulator.zookeeper_client import SimulatedZooKeeperClient
from tests.brokers.agents import TOPIC, TP, AgentWorld, until, virtually


class Tool:
    """An operator's own ZooKeeper client."""

    def __init__(self, world: AgentWorld) -> None:
        self.client = SimulatedZooKeeperClient(world.zookeeper)
        self._tree = world.zookeeper.tree

    async def set(self, topic: str, *, announce: bool = True, body: bytes | None = None, **settings: str) -> None:
        """`min_insync_replicas="2"` and so on."""
        if self.client.session_id == 0:
            self.client.listen(lambda _: None)
            await self.client.start_session()
        data = encode_config({key.replace("_", "."): value for key, value in settings.items()})
        path = topic_config_path(topic)
        ops: list[Op] = [Create(path, data) if self._tree.exists(path) is None else SetData(path, data)]
        if announce:
            change = encode_config_change(ConfigEntity("topics", topic)) if body is None else body
            ops.append(Create(CONFIG_CHANGE_PREFIX, change, sequential=True))
        results = await self.client.multi(ops)
        assert all(result.ok for result in results), results


def settings_of(world: AgentWorld, broker: int = 1, tp: TopicPartition = TP) -> LogConfig:
    log = world.agents[broker].partition(tp).log
    assert log is not None
    return log.config


@pytest.mark.rule("R15.2")
@virtually
async def test_a_change_reaches_live_logs_of_leaders_and_followers_and_the_next_test_goes_by_it() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, [1, 2])
    tool = Tool(world)
    assert (await world.agents[1].produce(1, acks=-1)).error_code is ErrorCode.NONE
    await tool.set(TOPIC, min_insync_replicas="2", max_message_bytes="70")
    for broker in (1, 2):
        await until(lambda: settings_of(world, broker).min_insync_replicas == 2)  # noqa: B023 (awaited at once)
    world.decide(1, [1])
    await world.tell(1, 2)
    assert (await world.agents[1].produce(1, acks=-1)).error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await world.agents[1].produce(1, acks=1)).error_code is ErrorCode.MESSAGE_TOO_LARGE
    await tool.set(TOPIC)
    await until(lambda: settings_of(world) == LogConfig())
    assert (await world.agents[1].produce(1, acks=-1)).error_code is ErrorCode.NONE
    await world.stop()


@pytest.mark.rule("R15.2")
@virtually
async def test_gauges_follow_a_changed_minimum_of_the_isr() -> None:
    world = AgentWorld()
    await world.start(1)
    world.decide(1, [1], replicas=(1, 2))
    await world.update_metadata()
    await world.tell(1)
    tool, metrics = Tool(world), world.agents[1].metrics
    gauges = [
        metrics.gauge("kafka.server", "ReplicaManager", name)
        for name in ("AtMinIsrPartitionCount", "UnderMinIsrPartitionCount")
    ]
    assert [gauge.value for gauge in gauges] == [1, 0]
    await tool.set(TOPIC, min_insync_replicas="2")
    await until(lambda: [gauge.value for gauge in gauges] == [0, 1])
    await tool.set(TOPIC)
    await until(lambda: [gauge.value for gauge in gauges] == [1, 0])
    await world.stop()


@pytest.mark.rule("R15.2")
@virtually
async def test_only_the_topic_that_is_named_is_read_again_and_only_announced_changes_count() -> None:
    world = AgentWorld()
    await world.start(1)
    other = TopicPartition("other", 0)
    for tp in (TP, other):
        world.decide(1, [1], tp=tp)
    await world.update_metadata()
    await world.tell(1, tp=TP)
    await world.tell(1, tp=other, topic_id=None)
    # All configs are read once when a session begins, announced or not: a change in its middle would be among them.
    await asyncio.sleep(1)
    tool = Tool(world)
    await tool.set("other", announce=False, retention_ms="5")
    await tool.set(TOPIC, retention_ms="6")
    await until(lambda: settings_of(world).retention_ms == 6)
    assert settings_of(world, tp=other).retention_ms == LogConfig().retention_ms
    await tool.set("other", retention_ms="7")
    await until(lambda: settings_of(world, tp=other).retention_ms == 7)
    await world.stop()


@pytest.mark.rule("R15.2", "ZK-3")
@pytest.mark.parametrize(
    "body",
    [
        b'{"version":2,"entity_path":"topics/orders"}',
        b'{"version":1,"entity_type":"topics","entity_name":"orders"}',
        b'{"version":2,"entity_path":"topics/orders","new_field":3}',
    ],
)
@virtually
async def test_announcements_of_both_versions_are_understood_and_malformed_ones_passed_over(body: bytes) -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, [1])
    tool = Tool(world)
    for malformed in (b"no json", b'{"version":2}', b'{"version":3,"entity_path":"topics/orders"}'):
        await tool.set("other", body=malformed)
    await tool.set(TOPIC, body=body, segment_bytes="1000")
    await until(lambda: settings_of(world).segment_bytes == 1000)
    await world.stop()


@pytest.mark.rule("R15.2", "EP-34")
@virtually
async def test_a_change_that_came_and_went_while_the_session_was_lost_is_found_by_reading_everything() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, [1])
    tool = Tool(world)
    await tool.set(TOPIC, retention_ms="1")
    await until(lambda: settings_of(world).retention_ms == 1)
    agent = world.agents[1]
    session = world.zookeeper._sessions[agent.zookeeper.session_id]
    await tool.set(TOPIC, announce=False, retention_ms="2")
    world.zookeeper.end_session(session)
    await until(lambda: settings_of(world).retention_ms == 2)
    # And the new session hears of later ones.
    await tool.set(TOPIC, retention_ms="3")
    await until(lambda: settings_of(world).retention_ms == 3)
    await world.stop()


@pytest.mark.rule("R15.2")
@virtually
async def test_a_change_while_zookeeper_cannot_be_reached_is_taken_over_afterwards() -> None:
    world = AgentWorld()
    await world.start(1)
    await world.create(1, [1])
    tool = Tool(world)
    await tool.set(TOPIC, retention_ms="1")
    world.zookeeper.shut_down()
    world.zookeeper.start_up()
    await until(lambda: settings_of(world).retention_ms == 1)
    await world.stop()
