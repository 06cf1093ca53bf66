"""What happens to a cluster in the procedures whose writes are refused."""

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.znodes.admin_requests import encode_log_dir_event
from cluster.znodes.configs import DEFAULT_ENTITY, ConfigEntity, encode_config, encode_config_change
from cluster.znodes.paths import (
    CONFIG_CHANGES,
    LOG_DIR_EVENT_NOTIFICATION,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)
from cluster.znodes.topics import encode_state
from cluster.zookeeper.port import Create, SetData
from tests.controllers.contexts import leadership
from tests.controllers.worlds import RunningController, World, quiesce
from tests.kafka.old_tools import body_of_old_tool, rewrite_as_old_tool

T = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2)]


async def broker_dies(world: World, c: RunningController) -> None:
    await world.stop_broker(1)


async def both_die(world: World, c: RunningController) -> None:
    await world.stop_broker(1)
    await quiesce()
    await world.stop_broker(2)


async def broker_returns(world: World, c: RunningController) -> None:
    await world.start_broker(1)


async def disk_fails(world: World, c: RunningController) -> None:
    c.brokers.results[BrokerId(1)] = dict.fromkeys(T, ErrorCode.KAFKA_STORAGE_ERROR)
    await world.create(f"{LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_0000000000", encode_log_dir_event(BrokerId(1)))


async def unclean_is_allowed(world: World, c: RunningController) -> None:
    entity = ConfigEntity("topics", "t")
    await world.create(entity.path, encode_config({"unclean.leader.election.enable": "true"}))
    await world.create(CONFIG_CHANGES + "/config_change_0000000000", encode_config_change(entity))


async def unclean_is_allowed_everywhere(world: World, c: RunningController) -> None:
    entity = ConfigEntity("brokers", DEFAULT_ENTITY)
    await world.create(entity.path, encode_config({"unclean.leader.election.enable": "true"}))
    await world.create(CONFIG_CHANGES + "/config_change_0000000000", encode_config_change(entity))


async def drop_id(world: World, _: RunningController) -> None:
    await rewrite_as_old_tool(world.tool, "t", {})


async def find_led_topic(world: World, _: RunningController) -> None:
    """A topic that was led before appears, cannot be read, and is then repaired without its id."""
    led = TopicPartition("led", 0)
    state = leadership(1, [1, 2])
    await world.write(
        Create(topic_path("led"), b"{"),
        Create(partitions_path("led")),
        Create(partition_path(led)),
        Create(state_path(led), encode_state(state)),
    )
    await quiesce()
    await world.write(SetData(topic_path("led"), body_of_old_tool({0: [1, 2]})))
