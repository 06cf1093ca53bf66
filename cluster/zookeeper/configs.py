"""Reads the config znodes of topics, brokers and other entities."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from cluster.model.errors import MalformedZnodeError
from cluster.znodes.configs import ConfigEntity, decode_config
from cluster.zookeeper.decoding import report_malformed
from cluster.zookeeper.port import ZooKeeper


class StoredConfig(Struct, frozen=True):
    """Holds the overrides of an entity and the data version of its znode; empty and None if there is no znode."""

    overrides: dict[str, str]
    version: int | None


async def read_configs(
    zookeeper: ZooKeeper, entities: Sequence[ConfigEntity]
) -> dict[ConfigEntity, StoredConfig | MalformedZnodeError]:
    """Read the stored config of each entity; a malformed one is logged and returned as its error. Raises
    ZooKeeperError.
    """
    found: dict[ConfigEntity, StoredConfig | MalformedZnodeError] = {}
    for entity, znode in zip(entities, await zookeeper.get_many([e.path for e in entities]), strict=True):
        try:
            found[entity] = (
                StoredConfig({}, None)
                if znode is None
                else StoredConfig(decode_config(entity.path, znode.data), znode.stat.version)
            )
        except MalformedZnodeError as error:
            report_malformed(error)
            found[entity] = error
    return found


def overrides_of(config: StoredConfig | MalformedZnodeError) -> Mapping[str, str]:
    """The overrides; empty if the znode is malformed."""
    return {} if isinstance(config, MalformedZnodeError) else config.overrides
