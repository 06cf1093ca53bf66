"""Validates topic configs.

Checked before a topic is created, so that an invalid value is refused at once and not found by an agent later. Source:
Kafka TopicConfig, LogConfig.
"""

from collections.abc import Mapping
from typing import Final

from controller.decisions.configs.values import (
    INT32_MAX,
    Check,
    boolean,
    check_values,
    fraction,
    one_of,
    some_of,
    whole_number,
)


def _replica_list(value: str) -> str | None:
    pairs = [pair.strip().split(":") for pair in value.split(",") if pair.strip()]
    if value.strip() == "*" or all(len(pair) == 2 and all(part.isdecimal() for part in pair) for pair in pairs):
        return None
    return "must be * or partition:broker, separated by commas"


_CHECKS: Final[dict[str, Check]] = {
    "cleanup.policy": some_of("delete", "compact"),
    "compression.type": one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "delete.retention.ms": whole_number(0),
    "file.delete.delay.ms": whole_number(0),
    "flush.messages": whole_number(1),
    "flush.ms": whole_number(0),
    "follower.replication.throttled.replicas": _replica_list,
    "index.interval.bytes": whole_number(0, INT32_MAX),
    "leader.replication.throttled.replicas": _replica_list,
    "max.compaction.lag.ms": whole_number(1),
    "max.message.bytes": whole_number(0, INT32_MAX),
    "message.downconversion.enable": boolean,
    "message.timestamp.after.max.ms": whole_number(0),
    "message.timestamp.before.max.ms": whole_number(0),
    "message.timestamp.difference.max.ms": whole_number(0),
    "message.timestamp.type": one_of("CreateTime", "LogAppendTime"),
    "min.cleanable.dirty.ratio": fraction,
    "min.compaction.lag.ms": whole_number(0),
    "min.insync.replicas": whole_number(1, INT32_MAX),
    "preallocate": boolean,
    "retention.bytes": whole_number(-1),
    "retention.ms": whole_number(-1),
    "segment.bytes": whole_number(14, INT32_MAX),
    "segment.index.bytes": whole_number(4, INT32_MAX),
    "segment.jitter.ms": whole_number(0),
    "segment.ms": whole_number(1),
    "unclean.leader.election.enable": boolean,
}

UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


def check_topic_configs(configs: Mapping[str, str]) -> None:
    """Raise ApiError(INVALID_CONFIG) that names every unknown key and invalid value, sorted by key."""
    check_values(configs, _CHECKS, of="topic")


def min_insync_replicas(configs: Mapping[str, str], default: int) -> int:
    """The topic's min.insync.replicas as agents read it: a valid override, else the default."""
    value = configs.get(MIN_INSYNC_REPLICAS)
    return default if value is None or _CHECKS[MIN_INSYNC_REPLICAS](value) is not None else int(value)


def parse_unclean_override(configs: Mapping[str, str]) -> bool | None:
    """The topic's override of unclean elections; None if there is none. Raises ValueError unless true or false."""
    value = configs.get(UNCLEAN_LEADER_ELECTION)
    if value is None:
        return None
    if boolean(value) is not None:
        raise ValueError(f"{UNCLEAN_LEADER_ELECTION} is {value!r}")
    return value.lower() == "true"
