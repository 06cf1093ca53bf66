"""The SCRAM credentials of users, as they are in `/config/users`, where Apache Kafka's tools write them, too.

Source: Kafka CredentialProvider, UserConfigHandler; KIP-84.
"""

from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import unquote

import structlog

from cluster.model.errors import ConfigError, MalformedZnodeError, ZooKeeperAccessError
from cluster.sasl.mechanisms import SCRAM
from cluster.sasl.scram import ScramCredential, parse_credential
from cluster.znodes.configs import DEFAULT_ENTITY, ConfigEntity
from cluster.znodes.paths import CONFIG_USERS
from cluster.zookeeper.configs import read_configs
from cluster.zookeeper.port import ZooKeeper

_USERS: Final = "users"
_log = structlog.stdlib.get_logger()


class ScramUsers:
    """The credentials of all users, as far as this process has read them. Threads may ask at any time.

    `is_needed`: whether any listener has SCRAM; else nothing is read. `on_removal` is called with the name of each user
    whose last credential is gone.
    """

    def __init__(self, *, is_needed: bool = False, on_removal: Callable[[str], None] = lambda _: None) -> None:
        self._is_needed, self.on_removal = is_needed, on_removal
        self._credentials: dict[str, dict[str, ScramCredential]] = {}
        """By name of the user and mechanism."""
        self.is_loaded = False

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """The credential of a user for a mechanism; None for a user without one."""
        return self._credentials.get(user, {}).get(mechanism)

    async def take_over(self, zookeeper: ZooKeeper, entities: Sequence[ConfigEntity], *, is_new_session: bool) -> None:
        """Read the credentials of the changed users; of all after a new session. Raises ZooKeeperError."""
        if not self._is_needed:
            return
        try:
            await self._read(zookeeper, entities, is_new_session=is_new_session)
        except ZooKeeperAccessError as error:
            # Nothing else that is configured has to wait for it.
            _log.error("Users cannot be read, and none with SCRAM can authenticate", error=str(error))

    async def _read(self, zookeeper: ZooKeeper, entities: Sequence[ConfigEntity], *, is_new_session: bool) -> None:
        names = {entity.name for entity in entities if entity.type == _USERS}
        if is_new_session:
            names |= {*(await zookeeper.children(CONFIG_USERS) or ())}
        # What has quotas of a user and client id together is named `ann/clients/app`.
        users = sorted(name for name in names if "/" not in name and name != DEFAULT_ENTITY)
        stored = await read_configs(zookeeper, [ConfigEntity(_USERS, name) for name in users])
        # Of a malformed one, which was logged, what was known before stays.
        found = {
            unquote(entity.name): self._credentials.get(unquote(entity.name), {})
            if isinstance(config, MalformedZnodeError)
            else _credentials(entity, config.overrides)
            for entity, config in stored.items()
        }
        if is_new_session:
            found |= {user: {} for user in self._credentials if user not in found}
        for user, credentials in found.items():
            self._set(user, credentials)
        self.is_loaded = True

    def _set(self, user: str, credentials: dict[str, ScramCredential]) -> None:
        if credentials:
            self._credentials[user] = credentials
        elif self._credentials.pop(user, None) is not None:
            _log.info("User removed", user=user)
            self.on_removal(user)


def _credentials(entity: ConfigEntity, overrides: dict[str, str]) -> dict[str, ScramCredential]:
    """The credentials that can be used; others are logged, without what is in them."""
    found = {}
    for mechanism in SCRAM:
        text = overrides.get(mechanism)
        if text is None:
            continue
        try:
            found[mechanism] = parse_credential(mechanism, text)
        except ConfigError as error:
            _log.warning("Ignored a credential", path=entity.path, mechanism=mechanism, why=str(error))
    return found
