"""Lists the quotas of users and client ids, as they are in ZooKeeper now.

Source: Kafka ZkAdminManager.describeClientQuotas; KIP-546.
"""

from typing import Final
from urllib.parse import unquote

from cluster.aio.slices import in_slices
from cluster.config.client_quotas import CLIENT_QUOTA_CHECKS, CLIENTS, configured_users
from cluster.requests.quotas import (
    CLIENT_ENTITY,
    USER_ENTITY,
    ClientQuotaEntity,
    ClientQuotaEntry,
    ClientQuotaValue,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from cluster.znodes.configs import DEFAULT_ENTITY, ConfigEntity
from cluster.znodes.paths import CONFIG_CLIENTS
from cluster.zookeeper.configs import overrides_of
from controller.active_controller import ActiveController

_OF_PARTS: Final = (USER_ENTITY, CLIENT_ENTITY)


async def describe_client_quotas(
    active: ActiveController, _request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """List them, users first; what is stored besides quotas, such as credentials, is left out."""
    (clients,) = await active.reads.children_many((CONFIG_CLIENTS,))
    users = await configured_users(active.reads.children_many)
    entities = [*sorted(users), *(ConfigEntity(CLIENTS, name) for name in sorted(clients or ()))]
    stored = await active.configs.read(entities)
    entries: list[ClientQuotaEntry] = []
    async for entity in in_slices(entities):
        overrides = overrides_of(stored[entity])
        values = tuple(ClientQuotaValue(key, overrides[key]) for key in CLIENT_QUOTA_CHECKS if key in overrides)
        if values:
            entries.append(ClientQuotaEntry(_described(entity), values))
    return DescribeClientQuotasResponse(tuple(entries))


def _described(entity: ConfigEntity) -> tuple[ClientQuotaEntity, ...]:
    if entity.type == CLIENTS:
        return (ClientQuotaEntity(CLIENT_ENTITY, _name(entity.name)),)
    user, _, client = entity.name.partition(f"/{CLIENTS}/")
    names = (user, client) if client else (user,)
    return tuple(ClientQuotaEntity(kind, _name(name)) for kind, name in zip(_OF_PARTS, names, strict=False))


def _name(name: str) -> str | None:
    return None if name == DEFAULT_ENTITY else unquote(name)
