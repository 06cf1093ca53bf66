"""Configs of single topics: the broker's defaults with the overrides in `/config/topics/<topic>`.

Source: Kafka LogConfig (R15.1).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import structlog
from msgspec.structs import replace

from broker_agent.log.config import LogConfig
from cluster.config.settings import Settings
from cluster.model import bounds
from cluster.model.errors import ZooKeeperError
from cluster.znodes.configs import ConfigEntity
from cluster.znodes.paths import CONFIG_TOPICS
from cluster.zookeeper.configs import overrides_of, read_configs
from cluster.zookeeper.port import ZooKeeper

_MINIMUM: Final = {
    "segment_bytes": 14,
    "segment_ms": 1,
    "segment_index_bytes": 4,
    "retention_ms": -1,
    "retention_bytes": -1,
    "min_insync_replicas": 1,
    "flush_messages": 1,
    "max_compaction_lag_ms": 1,
}
"""The smallest valid value of each numeric key; 0 if not listed."""
_MAXIMUM: Final = dict.fromkeys(
    ("segment_bytes", "segment_index_bytes", "index_interval_bytes", "max_message_bytes", "min_insync_replicas"),
    bounds.INT32_MAX,
)
"""The largest valid value of each key that has 32 bits; the others have 64."""
_CHOICES: Final = {"message_timestamp_type": ("CreateTime", "LogAppendTime")}
_CLEANUP_POLICIES: Final = frozenset({"delete", "compact"})
_log = structlog.stdlib.get_logger()


def default_log_config(settings: Settings) -> LogConfig:
    """The config of a topic without overrides."""
    return LogConfig(
        segment_bytes=settings.log_segment_bytes,
        segment_ms=settings.log_roll_ms,
        segment_jitter_ms=settings.log_roll_jitter_ms,
        segment_index_bytes=settings.log_index_size_max_bytes,
        index_interval_bytes=settings.log_index_interval_bytes,
        retention_ms=settings.log_retention_ms,
        retention_bytes=settings.log_retention_bytes,
        max_message_bytes=settings.message_max_bytes,
        min_insync_replicas=settings.min_insync_replicas,
        flush_messages=settings.log_flush_interval_messages,
        flush_ms=settings.log_flush_interval_ms,
        file_delete_delay_ms=settings.log_segment_delete_delay_ms,
        cleanup_policy=settings.log_cleanup_policy,
        delete_retention_ms=settings.log_cleaner_delete_retention_ms,
        min_cleanable_dirty_ratio=settings.log_cleaner_min_cleanable_ratio,
        min_compaction_lag_ms=settings.log_cleaner_min_compaction_lag_ms,
        max_compaction_lag_ms=settings.log_cleaner_max_compaction_lag_ms,
        message_timestamp_type=settings.log_message_timestamp_type,
    )


def override(defaults: LogConfig, overrides: Mapping[str, str], topic: str) -> LogConfig:
    """Apply a topic's overrides to the defaults. An invalid value is logged and ignored."""
    changes: dict[str, int | float | str] = {}
    for key, text in overrides.items():
        field = key.replace(".", "_")
        if field not in LogConfig.__struct_fields__:
            _log.info("Ignored an unused topic config", topic=topic, key=key)
            continue
        value = _parse(field, text)
        if value is None:
            _log.warning("Ignored an invalid topic config; using the default", topic=topic, key=key, value=text)
        else:
            changes[field] = value
    return replace(defaults, **changes) if changes else defaults


def _parse(field: str, text: str) -> int | float | str | None:
    if field == "cleanup_policy":
        return text if {part.strip() for part in text.split(",")} <= _CLEANUP_POLICIES else None
    if field == "min_cleanable_dirty_ratio":
        return _parse_share(text)
    choices = _CHOICES.get(field)
    if choices is not None:
        return text if text in choices else None
    try:
        number = int(text)
    except ValueError:
        return None
    return number if _MINIMUM.get(field, 0) <= number <= _MAXIMUM.get(field, bounds.INT64_MAX) else None


def _parse_share(text: str) -> float | None:
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0 <= share <= 1 else None


class TopicConfigs:
    """Reads topic configs from ZooKeeper."""

    def __init__(self, zookeeper: ZooKeeper, defaults: LogConfig, timeout_ms: int) -> None:
        self.defaults = defaults
        self._zookeeper = zookeeper
        self._timeout_ms = timeout_ms

    async def read(self, topics: Sequence[str]) -> dict[str, LogConfig]:
        """The configs of these topics; the defaults if there is none or it is malformed.

        Raises ZooKeeperError, also without a response within the connection timeout.
        """
        if not topics:
            return {}
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                found = await read_configs(self._zookeeper, [ConfigEntity("topics", topic) for topic in topics])
        except TimeoutError:
            raise ZooKeeperError(f"no answer about {len(topics)} topic configurations") from None
        return {e.name: override(self.defaults, overrides_of(config), e.name) for e, config in found.items()}

    async def read_all(self) -> dict[str, LogConfig]:
        """The configs of every topic that has overrides. Raises ZooKeeperError."""
        return await self.read(await self._zookeeper.children(CONFIG_TOPICS) or ())
