"""The configs of a topic: which values they take, and which broker setting is the default of each.

Source: Kafka TopicConfig, LogConfig, and TopicConfig's server synonyms.
"""

from typing import Final

from cluster.config import values

BROKER_KEYS: Final[dict[str, str]] = {
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Topic config -> the name of its broker default, for the configs that have an effect."""


def _replica_list(value: str) -> str | None:
    pairs = [pair.strip().split(":") for pair in value.split(",") if pair.strip()]
    numbers = (len(pair) == 2 and all(part.isascii() and part.isdecimal() for part in pair) for pair in pairs)
    return None if value.strip() == "*" or all(numbers) else "must be * or partition:broker, separated by commas"


def _cleanup_policy(value: str) -> str | None:
    """Accept `delete` and `compact`, either or both; each may stand twice in Kafka's list."""
    policies = {part.strip() for part in value.split(",")}
    return None if policies <= {"delete", "compact"} else "must be delete, compact, or compact,delete"


CHECKS: Final[dict[str, values.Check]] = {
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
