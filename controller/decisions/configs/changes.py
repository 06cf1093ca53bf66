"""Incremental alteration of configs: validates alterations and computes the resulting overrides.

Source: Kafka ZkAdminManager.incrementalAlterConfigs; KIP-339, KIP-226.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from cluster.config.client_quotas import CLIENT_QUOTA_CHECKS
from cluster.config.settings import Settings
from cluster.config.values import INT32_MAX, Check, boolean, check_values, one_of, whole_number
from cluster.model import bounds
from cluster.model.bounds import shortened
from cluster.model.broker import ControllerId
from cluster.model.errors import ApiError, ErrorCode, all_refusals
from cluster.process.log_level import LOG_LEVEL, LOG_LEVELS
from cluster.requests.configs import (
    BROKER_RESOURCE,
    CLIENT_RESOURCE,
    DELETE_CONFIG,
    SET_CONFIG,
    TOPIC_RESOURCE,
    USER_RESOURCE,
    AlterableConfig,
)
from cluster.znodes.configs import DEFAULT_ENTITY, ConfigEntity, entity_name, users_entity
from controller.decisions.configs.topic_configs import UNCLEAN_LEADER_ELECTION, check_topic_configs

_CHECKS_OF_BROKERS: Final[Mapping[str, Check]] = {
    "num.replica.fetchers": whole_number(1, INT32_MAX),
    "replica.alter.log.dirs.io.max.bytes.per.second": whole_number(0),
    UNCLEAN_LEADER_ELECTION: boolean,
    "leader.replication.throttled.rate": whole_number(0),
    "follower.replication.throttled.rate": whole_number(0),
    LOG_LEVEL: lambda value: one_of(*LOG_LEVELS)(value.lower()),
}
DYNAMIC_BROKER_KEYS: Final = frozenset(_CHECKS_OF_BROKERS)
"""Configs of brokers and controllers that take effect without a restart. Source: Kafka DynamicBrokerConfig."""


def config_entity(resource_type: int, name: str, topics: Collection[str]) -> ConfigEntity:
    """The config entity of a resource. Raises ApiError for an unknown or impossible one."""
    match resource_type:
        case _ if resource_type == TOPIC_RESOURCE:
            if name not in topics:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}", field="resource_name")
            return ConfigEntity("topics", name)
        case _ if resource_type == BROKER_RESOURCE:
            if name and not _is_broker_id(name):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"a broker is named by its number, all of them by an empty name, not by {name!r}",
                    field="resource_name",
                    value=name,
                )
            return ConfigEntity("brokers", str(int(name)) if name else DEFAULT_ENTITY)
        case _ if resource_type == CLIENT_RESOURCE:
            return ConfigEntity("clients", entity_name(name) if name else DEFAULT_ENTITY)
        case _ if resource_type == USER_RESOURCE:
            entity = users_entity(name)
            if entity is None or not bounds.ZNODE_NAME.accepts(name):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    "a user is named as its znode below /config/users: USER, <default>, or one of these with "
                    f"/clients/CLIENT, each part percent-encoded; not {shortened(name)}",
                    field="resource_name",
                    value=shortened(name),
                )
            return entity
        case _:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"resource type {resource_type} has no settings here",
                field="resource_type",
                value=resource_type,
            )


def _is_broker_id(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) <= len(str(INT32_MAX)) and int(name) <= INT32_MAX


def check_broker_is_klamms(entity: ConfigEntity, controller: ControllerId, *, alters: bool) -> None:
    """Raise ApiError for configs of brokers of Apache Kafka, which have other keys than klamm's processes.

    Quotas are in the same znodes under the same keys, so they can be described; brokers check what is altered.
    """
    if alters and entity.type in {"clients", "users"}:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "the brokers are of Apache Kafka: alter quotas with kafka-configs.sh, at one of them",
            field="resource_name",
            value=entity.name,
        )
    if entity.type == "brokers" and entity.name != str(controller):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "the brokers are of Apache Kafka: describe and alter their configs with kafka-configs.sh, at one of them",
            field="resource_name",
            value=entity.name,
        )


def check_alterations(
    entity: ConfigEntity, configs: Sequence[AlterableConfig], kafka_release: str | None = None
) -> None:
    """Raise ApiError that names key and value of every invalid alteration.

    `kafka_release`: see `check_topic_configs`.
    """
    errors = [
        ApiError(ErrorCode.INVALID_REQUEST, f"{name} is altered twice", field=name)
        for name, count in sorted(Counter(c.name for c in configs).items())
        if count > 1
    ]
    errors += [error for config in configs if (error := _refuse(entity, config)) is not None]
    named = {violation.field for error in errors for violation in error.violations}
    wanted = [c for c in configs if c.config_operation == SET_CONFIG and c.name not in named]
    values = {c.name: c.value for c in wanted if c.value is not None}
    try:
        if entity.type == "brokers":
            check_values(values, _CHECKS_OF_BROKERS, of="broker")
        elif entity.type in {"clients", "users"}:
            check_values(values, CLIENT_QUOTA_CHECKS, of=entity.type.removesuffix("s"))
        else:
            check_topic_configs(values, kafka_release)
    except ApiError as error:
        errors.append(error)
    if errors:
        raise all_refusals(errors)


def _refuse(entity: ConfigEntity, config: AlterableConfig) -> ApiError | None:
    """The error of an alteration that is invalid whatever its value, or None."""
    key = config.name
    if config.config_operation not in {SET_CONFIG, DELETE_CONFIG}:
        why = f"{key}: operation {config.config_operation} is neither set nor delete"
        return ApiError(ErrorCode.INVALID_REQUEST, why, field=key, value=config.config_operation)
    if entity.type == "users" and key not in CLIENT_QUOTA_CHECKS:
        # Credentials are beside them in the same znode, and need another right.
        why = f"{key} is no quota of a user; quotas: {', '.join(CLIENT_QUOTA_CHECKS)}"
        return ApiError(ErrorCode.INVALID_CONFIG, why, field=key)
    if config.config_operation == DELETE_CONFIG:
        return None
    if config.value is None:
        return ApiError(ErrorCode.INVALID_REQUEST, f"{key} needs a value", field=key)
    if entity.type == "brokers" and key not in DYNAMIC_BROKER_KEYS:
        can = ", ".join(sorted(DYNAMIC_BROKER_KEYS))
        known = key.replace(".", "_") in Settings.model_fields
        what = f"{key} of a broker cannot be changed while it runs" if known else f"unknown config {key!r}"
        why = f"{what}; those that can be changed: {can}"
        return ApiError(ErrorCode.INVALID_CONFIG, why, field=key, value=config.value)
    return None


def altered(overrides: Mapping[str, str], configs: Sequence[AlterableConfig]) -> dict[str, str]:
    """The overrides after the alterations; other keys stay unchanged."""
    result = dict(overrides)
    for config in configs:
        if config.config_operation == DELETE_CONFIG:
            result.pop(config.name, None)
        else:
            assert config.value is not None, "checked before"
            result[config.name] = config.value
    return result
