"""The quotas of clients by their client id, as they are configured in `/config/clients`.

Source: Kafka QuotaConfigs, ClientQuotaManager, ClientIdQuotaConfigHandler; KIP-13, KIP-124, KIP-599.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import structlog

from cluster.config.values import Check, positive_number, whole_number
from cluster.znodes.configs import DEFAULT_ENTITY, ConfigEntity, entity_name
from cluster.znodes.paths import CONFIG_CLIENTS
from cluster.zookeeper.configs import overrides_of, read_configs
from cluster.zookeeper.port import ZooKeeper

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CLIENT_QUOTA_CHECKS: Final[Mapping[str, Check]] = {
    PRODUCER_BYTE_RATE: whole_number(1),
    CONSUMER_BYTE_RATE: whole_number(1),
    REQUEST_PERCENTAGE: positive_number,
    CONTROLLER_MUTATION_RATE: positive_number,
}
"""Bytes per second, the same, percent of one thread, and partitions per second."""
_log = structlog.stdlib.get_logger()


def parse_client_quotas(overrides: Mapping[str, str], keys: Iterable[str]) -> dict[str, float]:
    """The valid quotas of these keys among the configs of a client id; others are left out."""
    found = {}
    for key in keys:
        try:
            value = float(overrides[key])
        except (KeyError, ValueError):
            continue
        if 0 < value < float("inf"):
            found[key] = value
    return found


class ClientQuotaConfigs:
    """The quotas of all client ids, as far as this process has read them."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Follow the quotas of these keys, which this process keeps."""
        self._keys = frozenset(keys)
        self._quotas: dict[str, dict[str, float]] = {}
        """By name of the entity, which is the client id as it is in the path of its znode."""

    def __bool__(self) -> bool:
        """Whether there is any quota."""
        return bool(self._quotas)

    def quota(self, key: str, client_id: str) -> float | None:
        """The client's own quota, else the default; None without one."""
        own = self._quotas.get(entity_name(client_id)) if client_id else None
        if own is not None and key in own:
            return own[key]
        return self._quotas.get(DEFAULT_ENTITY, {}).get(key)

    async def take_over(self, zookeeper: ZooKeeper, entities: Sequence[ConfigEntity], *, is_new_session: bool) -> None:
        """Read the quotas of the changed entities; of all client ids after a new session. Raises ZooKeeperError."""
        clients = {entity.name for entity in entities if entity.type == "clients"}
        if is_new_session:
            clients |= {*(await zookeeper.children(CONFIG_CLIENTS) or ()), *self._quotas}
        stored = await read_configs(zookeeper, [ConfigEntity("clients", name) for name in sorted(clients)])
        for entity, config in stored.items():
            quotas = parse_client_quotas(overrides_of(config), self._keys)
            if quotas:
                self._quotas[entity.name] = quotas
            else:
                self._quotas.pop(entity.name, None)
        await self._warn_of_users(zookeeper, [entity for entity in entities if entity.type == "users"])

    async def _warn_of_users(self, zookeeper: ZooKeeper, users: Sequence[ConfigEntity]) -> None:
        """Log which of the changed users have quotas that nothing here keeps: klamm has those of client ids only."""
        for entity, config in (await read_configs(zookeeper, users)).items():
            keys = sorted(self._keys & overrides_of(config).keys())
            if keys:
                _log.warning(
                    "Ignored quotas of a user: klamm has those of client ids only", path=entity.path, keys=keys
                )
