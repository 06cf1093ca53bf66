"""Configs of single topics: the broker's defaults with the overrides in `/config/topics/<topic>`.

Source: Kafka LogConfig (R15.1).
"""

import asyncio
from collections.abc import Mapping, Sequence

import structlog
from msgspec.structs import replace

from broker_agent.log.config import LogConfig
from cluster.config.settings import Settings
from cluster.config.topic_configs import BROKER_KEYS, CHECKS
from cluster.model.errors import ZooKeeperError
from cluster.znodes.configs import ConfigEntity
from cluster.znodes.paths import CONFIG_TOPICS
from cluster.zookeeper.configs import overrides_of, read_configs
from cluster.zookeeper.port import ZooKeeper

_log = structlog.stdlib.get_logger()


def default_log_config(settings: Settings) -> LogConfig:
    """The config of a topic without overrides."""
    fields = {key.replace(".", "_"): broker_key.replace(".", "_") for key, broker_key in BROKER_KEYS.items()}
    return LogConfig(
        **{field: getattr(settings, fields[field]) for field in LogConfig.__struct_fields__ if field in fields}
    )


def override(defaults: LogConfig, overrides: Mapping[str, str], topic: str) -> LogConfig:
    """Apply a topic's overrides to the defaults. An invalid value is logged and ignored."""
    changes: dict[str, int | float | str] = {}
    for key, text in overrides.items():
        field = key.replace(".", "_")
        if field not in LogConfig.__struct_fields__:
            _log.info("Ignored an unused topic config", topic=topic, key=key)
            continue
        if CHECKS[key](text) is None:
            changes[field] = type(getattr(defaults, field))(text)
        else:
            _log.warning("Ignored an invalid topic config; using the default", topic=topic, key=key, value=text)
    return replace(defaults, **changes) if changes else defaults


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
