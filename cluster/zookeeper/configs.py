"""Reading settings: what topics, brokers and others override."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from cluster.errors import MalformedZnodeError
from cluster.znodes.configs import ConfigEntity, decode_config
from cluster.zookeeper.decoding import report_malformed
from cluster.zookeeper.port import ZooKeeper


class StoredConfig(Struct, frozen=True):
    """Overrides of one entity and the data version of their node; none and None where there is no node."""

    overrides: dict[str, str]
    version: int | None


async def read_configs(
    zookeeper: ZooKeeper, entities: Sequence[ConfigEntity]
) -> dict[ConfigEntity, StoredConfig | MalformedZnodeError]:
    """What is stored of each entity; the error, already logged, where it cannot be read. Raises ZooKeeperError."""
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
    """For who takes settings that cannot be read for none."""
    return {} if isinstance(config, MalformedZnodeError) else config.overrides
