"""Which settings a topic may have and what values they take.

Checked before a topic is created, so that a typing error is refused at once and not found by an agent later.
Source: Kafka TopicConfig, LogConfig.
"""

from collections.abc import Callable, Mapping
from typing import Final

from cluster.errors import ApiError, ErrorCode, all_refusals

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1

_Check = Callable[[str], str | None]


def _integer(least: int, most: int = _INT64_MAX) -> _Check:
    def check(value: str) -> str | None:
        try:
            number = int(_plain(value))
        except ValueError:
            return "must be a whole number"
        return None if least <= number <= most else f"must be between {least} and {most}"

    return check


def _plain(value: str) -> str:
    """Python alone takes `1_000` for a number; other programs read these settings, too. Raises ValueError."""
    if "_" in value:
        raise ValueError(f"{value} is no number")
    return value


def _fraction(value: str) -> str | None:
    try:
        number = float(_plain(value))
    except ValueError:
        return "must be a number"
    return None if 0 <= number <= 1 else "must be between 0 and 1"


def _one_of(*allowed: str) -> _Check:
    return lambda value: None if value in allowed else f"must be one of {', '.join(allowed)}"


def _boolean(value: str) -> str | None:
    return None if value.lower() in {"true", "false"} else "must be true or false"


def _some_of(*allowed: str) -> _Check:
    def check(value: str) -> str | None:
        parts = {part.strip() for part in value.split(",")}
        return None if parts <= set(allowed) else f"must be a list of {', '.join(allowed)}"

    return check


def _replica_list(value: str) -> str | None:
    pairs = [pair.strip().split(":") for pair in value.split(",") if pair.strip()]
    if value.strip() == "*" or all(len(pair) == 2 and all(part.isdecimal() for part in pair) for pair in pairs):
        return None
    return "must be * or partition:broker, separated by commas"


_CHECKS: Final[dict[str, _Check]] = {
    "cleanup.policy": _some_of("delete", "compact"),
    "compression.type": _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "delete.retention.ms": _integer(0),
    "file.delete.delay.ms": _integer(0),
    "flush.messages": _integer(1),
    "flush.ms": _integer(0),
    "follower.replication.throttled.replicas": _replica_list,
    "index.interval.bytes": _integer(0, _INT32_MAX),
    "leader.replication.throttled.replicas": _replica_list,
    "max.compaction.lag.ms": _integer(1),
    "max.message.bytes": _integer(0, _INT32_MAX),
    "message.downconversion.enable": _boolean,
    "message.timestamp.after.max.ms": _integer(0),
    "message.timestamp.before.max.ms": _integer(0),
    "message.timestamp.difference.max.ms": _integer(0),
    "message.timestamp.type": _one_of("CreateTime", "LogAppendTime"),
    "min.cleanable.dirty.ratio": _fraction,
    "min.compaction.lag.ms": _integer(0),
    "min.insync.replicas": _integer(1, _INT32_MAX),
    "preallocate": _boolean,
    "retention.bytes": _integer(-1),
    "retention.ms": _integer(-1),
    "segment.bytes": _integer(14, _INT32_MAX),
    "segment.index.bytes": _integer(4, _INT32_MAX),
    "segment.jitter.ms": _integer(0),
    "segment.ms": _integer(1),
    "unclean.leader.election.enable": _boolean,
}

UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


def check_topic_configs(configs: Mapping[str, str]) -> None:
    """Raise ApiError(INVALID_CONFIG) that names every key, in order of keys, that is unknown or has a bad value."""
    errors: list[ApiError] = []
    for key in sorted(configs):
        check = _CHECKS.get(key)
        why = f"unknown topic config {key}" if check is None else check(configs[key])
        if why is not None:
            message = why if check is None else f"{key}={configs[key]!r}: {why}"
            errors.append(ApiError(ErrorCode.INVALID_CONFIG, message, field=key, value=configs[key]))
    if errors:
        raise all_refusals(errors)


def min_insync_replicas(configs: Mapping[str, str], default: int) -> int:
    """What agents take the topic's word to be: its override if that makes sense, else the default."""
    value = configs.get(MIN_INSYNC_REPLICAS)
    return default if value is None or _CHECKS[MIN_INSYNC_REPLICAS](value) is not None else int(value)


def parse_unclean_override(configs: Mapping[str, str]) -> bool | None:
    """The topic's own word on unclean elections; None when it has none. Raises ValueError unless true or false."""
    value = configs.get(UNCLEAN_LEADER_ELECTION)
    if value is None:
        return None
    if _boolean(value) is not None:
        raise ValueError(f"{UNCLEAN_LEADER_ELECTION} is {value!r}")
    return value.lower() == "true"
