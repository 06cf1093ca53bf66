"""`/config/<type>/<name>` and the notifications under `/config/changes`."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from cluster.model import bounds
from cluster.model.errors import MalformedZnodeError
from cluster.znodes.bodies import decode, require
from cluster.znodes.paths import CONFIG_CHANGES


class _Config(Struct):
    config: dict[str, str] = {}


_config_decoder = msgspec.json.Decoder(_Config)


def encode_config(config: Mapping[str, str]) -> bytes:
    return msgspec.json.encode({"version": 1, "config": dict(config)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """The overrides of an entity; none for an empty znode."""
    config = decode(_config_decoder, path, data).config if data else {}
    require(path, data, bounds.TEXT, *config, *config.values())
    return config


DEFAULT_ENTITY: Final = "<default>"
"""The literal name of the default of all under `/config/brokers`, `/config/clients` and `/config/users`."""
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"


@lru_cache(maxsize=1024)
def entity_name(name: str) -> str:
    """The name of a client or user as it is in paths. Source: Kafka Sanitizer."""
    # Java's URLEncoder encodes the tilde as well. What has no encoding has no name at all.
    return quote(name, safe="", errors="ignore").replace("~", "%7E")


class ConfigEntity(NamedTuple):
    """The entity of a config znode: `type` is `topics`, `brokers` or another child of `/config`; `name` follows it."""

    type: str
    name: str

    @property
    def path(self) -> str:
        return f"/config/{self.type}/{self.name}"

    @property
    def parents(self) -> tuple[str, ...]:
        """The paths above it that every cluster does not have: of a user with a client id, those of the user."""
        parts = self.path.split("/")
        return tuple("/".join(parts[:length]) for length in range(4, len(parts)))


def config_entity_of_path(path: str) -> ConfigEntity | None:
    """The entity of a config znode's path; None for other paths."""
    parts = path.split("/")
    return ConfigEntity(parts[2], "/".join(parts[3:])) if len(parts) > 3 and parts[1] == "config" else None


def users_entity(name: str) -> ConfigEntity | None:
    """The entity of a user, or of a user with a client id, of this name below `/config/users`; None for other names."""
    parts = name.split("/")
    if len(parts) not in {1, 3} or (len(parts) == 3 and parts[1] != "clients"):
        return None
    if all(part == DEFAULT_ENTITY or (part and entity_name(unquote(part)) == part) for part in parts):
        return ConfigEntity("users", name)
    return None


class _ConfigChange(Struct):
    version: int
    entity_path: str = ""
    entity_type: str = ""
    entity_name: str = ""


_config_change_decoder = msgspec.json.Decoder(_ConfigChange)


def encode_config_change(entity: ConfigEntity) -> bytes:
    return msgspec.json.encode({"version": 2, "entity_path": f"{entity.type}/{entity.name}"})


def decode_config_change(path: str, data: bytes) -> ConfigEntity:
    """Decode a change notification. Version 2 has an entity path, version 1 type and name of a
    topic or client (ZK-3).
    """
    body = decode(_config_change_decoder, path, data)
    if body.version == 1 and body.entity_type in {"topics", "clients"}:
        entity = ConfigEntity(body.entity_type, body.entity_name)
    elif body.version == 2:
        type_, _, name = body.entity_path.partition("/")
        entity = ConfigEntity(type_, name)
    else:
        raise MalformedZnodeError(path, data, "names no entity")
    require(path, data, bounds.ZNODE_NAME, *entity)
    if entity.type == "topics":
        require(path, data, bounds.TOPIC_NAME, entity.name)
    return entity
