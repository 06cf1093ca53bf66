"""The quotas of users and client ids, as they are configured in `/config/users` and `/config/clients`.

Source: Kafka QuotaConfigs, ClientQuotaManager, ClientIdQuotaConfigHandler, UserConfigHandler; KIP-13, KIP-55, KIP-124,
KIP-599.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import structlog

from cluster.config.values import Check, positive_number, whole_number
from cluster.model.errors import ZooKeeperAccessError
from cluster.znodes.configs import DEFAULT_ENTITY, ConfigEntity, entity_name
from cluster.znodes.paths import CONFIG_CLIENTS, CONFIG_USERS
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
CLIENTS: Final = "clients"
USERS: Final = "users"
ChildrenMany = Callable[[Sequence[str]], Awaitable[Sequence[tuple[str, ...] | None]]]
"""Lists the children of each znode; None of one that is missing."""
_log = structlog.stdlib.get_logger()


class QuotaOwner(NamedTuple):
    """Those whose use of a quota counts together. An empty user or client id: whatever it is."""

    user: str
    client_id: str

    def __str__(self) -> str:
        parts = (("user", self.user), ("client", self.client_id))
        return ", ".join(f"{what} {name!r}" for what, name in parts if name) or "client ''"


class Quota(NamedTuple):
    """A quota in force, and for whom the use counts."""

    rate: float
    owner: QuotaOwner


def chosen_quota(
    quotas: Mapping[ConfigEntity, Mapping[str, float]], key: str, user: str, client_id: str
) -> Quota | None:
    """Choose the quota of a key that is in force for a user with a client id; None without one.

    The first that has it of: user and client id, user and any client id, user, any user and client id, any user and any
    client id, any user, client id, any client id. A client without an id has the quota of any, so that nobody escapes
    by leaving it out; Kafka has none for it. Source: Kafka DefaultQuotaCallback.quotaMetricTags.
    """
    for entity, owner in _levels(user, client_id):
        of_entity = quotas.get(entity)
        if of_entity is not None and key in of_entity:
            return Quota(of_entity[key], owner)
    return None


def _levels(user: str, client_id: str) -> Iterator[tuple[ConfigEntity, QuotaOwner]]:
    clients = (*((entity_name(client_id),) if client_id else ()), DEFAULT_ENTITY)
    both, alone = QuotaOwner(user, client_id), QuotaOwner(user, "")
    for name in (entity_name(user), DEFAULT_ENTITY):
        for client in clients:
            yield ConfigEntity(USERS, f"{name}/{CLIENTS}/{client}"), both
        yield ConfigEntity(USERS, name), alone
    for client in clients:
        yield ConfigEntity(CLIENTS, client), QuotaOwner("", client_id)


def parse_client_quotas(overrides: Mapping[str, str], keys: Iterable[str]) -> dict[str, float]:
    """The valid quotas of these keys among the configs of a user or client id; others are left out."""
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
    """The quotas of all users and client ids, as far as this process has read them."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Follow the quotas of these keys, which this process keeps."""
        self._keys = frozenset(keys)
        self._quotas: dict[ConfigEntity, dict[str, float]] = {}

    def __bool__(self) -> bool:
        """Whether there is any quota."""
        return bool(self._quotas)

    def quota(self, key: str, user: str, client_id: str) -> Quota | None:
        """The quota in force for a user with a client id; None without one."""
        return chosen_quota(self._quotas, key, user, client_id)

    async def take_over(self, zookeeper: ZooKeeper, entities: Sequence[ConfigEntity], *, is_new_session: bool) -> None:
        """Read the quotas of the changed entities; of all after a new session. Raises ZooKeeperError."""
        changed = {entity for entity in entities if entity.type in {CLIENTS, USERS}}
        if is_new_session:
            changed |= {*self._quotas}
            changed |= {ConfigEntity(CLIENTS, name) for name in await zookeeper.children(CONFIG_CLIENTS) or ()}
        await self._read(zookeeper, {entity for entity in changed if entity.type == CLIENTS})
        try:
            users = {
                *(await configured_users(zookeeper.children_many) if is_new_session else ()),
                *(e for e in changed if e.type == USERS),
            }
            await self._read(zookeeper, users)
        except ZooKeeperAccessError as error:
            # Nothing else that is configured has to wait for it.
            _log.error("Quotas of users cannot be read; those read before stay in force", error=str(error))

    async def _read(self, zookeeper: ZooKeeper, entities: Iterable[ConfigEntity]) -> None:
        for entity, config in (await read_configs(zookeeper, sorted(entities))).items():
            quotas = parse_client_quotas(overrides_of(config), self._keys)
            if quotas:
                self._quotas[entity] = quotas
            else:
                self._quotas.pop(entity, None)


async def configured_users(children_many: ChildrenMany) -> list[ConfigEntity]:
    """List all users that have configs, and their client ids that have. Raises ZooKeeperError."""
    (found,) = await children_many([CONFIG_USERS])
    users = found or ()
    clients = await children_many([f"{CONFIG_USERS}/{user}/{CLIENTS}" for user in users])
    of_clients = [f"{u}/{CLIENTS}/{client}" for u, names in zip(users, clients, strict=True) for client in names or ()]
    return [ConfigEntity(USERS, name) for name in (*users, *of_clients)]
