"""Validates topic configs.

Checked before a topic is created, so that an invalid value is refused at once and not found by an agent later. Source:
Kafka TopicConfig, LogConfig.
"""

from collections.abc import Mapping
from typing import Final

from cluster.model.errors import ApiError, ErrorCode, all_refusals
from controller.decisions.configs import values
from controller.kafka_configs.validation import refused_topic_configs


def _replica_list(value: str) -> str | None:
    pairs = [pair.strip().split(":") for pair in value.split(",") if pair.strip()]
    if value.strip() == "*" or all(len(pair) == 2 and all(part.isdecimal() for part in pair) for pair in pairs):
        return None
    return "must be * or partition:broker, separated by commas"


def _cleanup_policy(value: str) -> str | None:
    """Accept `delete` and `compact`, either or both; each may stand twice in Kafka's list."""
    policies = {part.strip() for part in value.split(",")}
    return None if policies <= {"delete", "compact"} else "must be delete, compact, or compact,delete"


_CHECKS: Final[dict[str, values.Check]] = {
    "cleanup.policy": _cleanup_policy,
    "compression.type": values.one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "delete.retention.ms": values.whole_number(0),
    "file.delete.delay.ms": values.whole_number(0),
    "flush.messages": values.whole_number(1),
    "flush.ms": values.whole_number(0),
    "follower.replication.throttled.replicas": _replica_list,
    "index.interval.bytes": values.whole_number(0, values.INT32_MAX),
    "leader.replication.throttled.replicas": _replica_list,
    "max.compaction.lag.ms": values.whole_number(1),
    "max.message.bytes": values.whole_number(0, values.INT32_MAX),
    "message.downconversion.enable": values.boolean,
    "message.timestamp.after.max.ms": values.whole_number(0),
    "message.timestamp.before.max.ms": values.whole_number(0),
    "message.timestamp.difference.max.ms": values.whole_number(0),
    "message.timestamp.type": values.one_of("CreateTime", "LogAppendTime"),
    "min.cleanable.dirty.ratio": values.fraction,
    "min.compaction.lag.ms": values.whole_number(0),
    "min.insync.replicas": values.whole_number(1, values.INT32_MAX),
    "preallocate": values.boolean,
    "retention.bytes": values.whole_number(-1),
    "retention.ms": values.whole_number(-1),
    "segment.bytes": values.whole_number(14, values.INT32_MAX),
    "segment.index.bytes": values.whole_number(4, values.INT32_MAX),
    "segment.jitter.ms": values.whole_number(0),
    "segment.ms": values.whole_number(1),
    "unclean.leader.election.enable": values.boolean,
}

UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"
MIN_COMPACTION_LAG: Final = "min.compaction.lag.ms"
MAX_COMPACTION_LAG: Final = "max.compaction.lag.ms"
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


def check_topic_configs(configs: Mapping[str, str], kafka_release: str | None = None) -> None:
    """Raise ApiError(INVALID_CONFIG) that names every unknown key and invalid value, sorted by key.

    `kafka_release`: of the brokers, if they are of Apache Kafka, e.g. `3.9`: then what that release accepts is valid.
    """
    if kafka_release is None:
        values.check_values(configs, _CHECKS, of="topic")
        _check_lags(configs)
        return
    refused = sorted(refused_topic_configs(configs, kafka_release), key=lambda refusal: refusal.key)
    if refused:
        raise all_refusals([ApiError(ErrorCode.INVALID_CONFIG, r.message, field=r.key, value=r.value) for r in refused])


def _check_lags(configs: Mapping[str, str]) -> None:
    """Raise ApiError if records must be compacted before they may be. The numbers are valid."""
    least, most = (configs.get(key) for key in (MIN_COMPACTION_LAG, MAX_COMPACTION_LAG))
    if least is not None and most is not None and int(least) > int(most):
        message = f"{MIN_COMPACTION_LAG}={least!r}: must not exceed {MAX_COMPACTION_LAG} ({most})"
        raise ApiError(ErrorCode.INVALID_CONFIG, message, field=MIN_COMPACTION_LAG, value=least)


def min_insync_replicas(configs: Mapping[str, str], default: int) -> int:
    """The topic's min.insync.replicas as agents read it: a valid override, else the default."""
    value = configs.get(MIN_INSYNC_REPLICAS)
    return default if value is None or _CHECKS[MIN_INSYNC_REPLICAS](value) is not None else int(value)


def parse_unclean_override(configs: Mapping[str, str]) -> bool | None:
    """The topic's override of unclean elections; None if there is none. Raises ValueError unless true or false."""
    value = configs.get(UNCLEAN_LEADER_ELECTION)
    if value is None:
        return None
    if values.boolean(value) is not None:
        raise ValueError(f"{UNCLEAN_LEADER_ELECTION} is {value!r}")
    return value.lower() == "true"
