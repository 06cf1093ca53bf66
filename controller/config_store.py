"""Config znodes of topics and brokers, read and written by the active controller; same layout as Kafka's tools."""

from collections.abc import Mapping, Sequence

from cluster.model.errors import MalformedZnodeError
from cluster.znodes.configs import CONFIG_CHANGE_PREFIX, ConfigEntity, encode_config, encode_config_change
from cluster.zookeeper.configs import StoredConfig, read_configs
from cluster.zookeeper.port import Create, Op, SetData, ZooKeeper
from controller.fenced_writes import FencedWriter, Outcome


class ConfigStore:
    """Reads and fenced writes of config znodes by one active controller."""

    def __init__(self, zookeeper: ZooKeeper, writer: FencedWriter) -> None:
        self._zookeeper = zookeeper
        self._writer = writer

    async def read(self, entities: Sequence[ConfigEntity]) -> dict[ConfigEntity, StoredConfig | MalformedZnodeError]:
        return await read_configs(self._zookeeper, entities)

    async def write(self, configs: Mapping[ConfigEntity, StoredConfig]) -> dict[ConfigEntity, Outcome]:
        """Write each config and its change notification in one transaction; Conflict if the znode has changed."""
        units: list[tuple[Op, Op]] = []
        for entity, config in configs.items():
            body = encode_config(config.overrides)
            announcement = Create(CONFIG_CHANGE_PREFIX, encode_config_change(entity), sequential=True)
            # The config last: if it is visible, the notification was written, too.
            settings: Op = (
                Create(entity.path, body) if config.version is None else SetData(entity.path, body, config.version)
            )
            units.append((announcement, settings))
        return dict(zip(configs, await self._writer.write(units), strict=True))
