"""Settings altered key by key through the API: what may be altered, and what comes out of it.

Source: Kafka ZkAdminManager.incrementalAlterConfigs; KIP-339, KIP-226.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from cluster.errors import ApiError, ErrorCode
from cluster.requests import (
    BROKER_RESOURCE,
    DELETE_CONFIG,
    SET_CONFIG,
    TOPIC_RESOURCE,
    AlterableConfig,
)
from cluster.znodes import DEFAULT_ENTITY, ConfigEntity
from controller.decisions.topic_configs import UNCLEAN_LEADER_ELECTION, check_topic_configs

DYNAMIC_BROKER_KEYS: Final = frozenset({UNCLEAN_LEADER_ELECTION})
"""The settings of brokers that take effect without a restart."""


def config_entity(resource_type: int, name: str, topics: Collection[str]) -> ConfigEntity:
    """Whose settings a resource means. Raises ApiError for one that there cannot be."""
    match resource_type:
        case _ if resource_type == TOPIC_RESOURCE:
            if name not in topics:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}", field="resource_name")
            return ConfigEntity("topics", name)
        case _ if resource_type == BROKER_RESOURCE:
            if name and not (name.isascii() and name.isdecimal()):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"a broker is named by its number, all of them by an empty name, not by {name!r}",
                    field="resource_name",
                    value=name,
                )
            return ConfigEntity("brokers", str(int(name)) if name else DEFAULT_ENTITY)
        case _:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"resource type {resource_type} has no settings here",
                field="resource_type",
                value=resource_type,
            )


def check_alterations(entity: ConfigEntity, configs: Sequence[AlterableConfig]) -> None:
    """Raise ApiError that names key and value of the first alteration that makes no sense."""
    repeated = sorted(name for name, count in Counter(c.name for c in configs).items() if count > 1)
    if repeated:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{repeated[0]} is altered twice", field=repeated[0])
    for config in configs:
        if config.config_operation not in {SET_CONFIG, DELETE_CONFIG}:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{config.name}: operation {config.config_operation} is neither set nor delete",
                field=config.name,
                value=config.config_operation,
            )
        if config.config_operation == SET_CONFIG and config.value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{config.name} needs a value", field=config.name)
        if entity.type == "brokers" and config.config_operation == SET_CONFIG:
            _check_dynamic(config)
    check_topic_configs({c.name: c.value for c in configs if c.config_operation == SET_CONFIG and c.value is not None})


def _check_dynamic(config: AlterableConfig) -> None:
    if config.name not in DYNAMIC_BROKER_KEYS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{config.name} of a broker cannot be changed while it runs; "
            f"those that can: {', '.join(sorted(DYNAMIC_BROKER_KEYS))}",
            field=config.name,
            value=config.value,
        )


def altered(overrides: Mapping[str, str], configs: Sequence[AlterableConfig]) -> dict[str, str]:
    """The overrides after the alterations; keys that are not named stay, whoever wrote them."""
    result = dict(overrides)
    for config in configs:
        if config.config_operation == DELETE_CONFIG:
            result.pop(config.name, None)
        else:
            assert config.value is not None, "checked before"
            result[config.name] = config.value
    return result
