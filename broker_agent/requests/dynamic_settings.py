"""Settings that change at run time: topic configs, quotas of clients, and the dynamic configs of this broker.

Precedence: overrides of this broker, cluster-wide overrides, the file of the process. Source: Kafka
DynamicBrokerConfig, DynamicThreadPool; KIP-226; agent rules R5.6, R15.2.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from broker_agent.replication.copy_throttle import RATE_KEY, CopyThrottle
from broker_agent.replication.replica_fetchers import ReplicaFetchers
from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.replication.replication_quota import ReplicationQuota
from broker_agent.requests.topic_configs import TopicConfigs
from cluster.aio.clock import WallClock
from cluster.config.client_quotas import ClientQuotaConfigs
from cluster.config.scram_users import ScramUsers
from cluster.model import bounds
from cluster.model.broker import BrokerId
from cluster.process.log_level import LogLevel
from cluster.znodes.configs import DEFAULT_ENTITY, ConfigEntity
from cluster.zookeeper.config_changes import ConfigChanges
from cluster.zookeeper.configs import overrides_of, read_configs
from cluster.zookeeper.port import ZooKeeper

_TOPICS: Final = "topics"
_NUM_REPLICA_FETCHERS: Final = "num.replica.fetchers"
_log = structlog.stdlib.get_logger()


class TopicConfigChanges:
    """Sets the current topic configs on open logs; they apply from the next operation on.

    Source: Kafka TopicConfigHandler (R15.2).
    """

    def __init__(self, configs: TopicConfigs, manager: ReplicaManager, lock: asyncio.Lock) -> None:
        self._configs = configs
        self._manager = manager
        self._lock = lock

    async def take_over(self, entities: Sequence[ConfigEntity], *, is_new_session: bool) -> None:
        """Re-read the configs of these topics. Raises ZooKeeperError."""
        topics = {entity.name for entity in entities if entity.type == _TOPICS}
        if is_new_session:
            # Change notifications may have been created and deleted while there was no session.
            topics |= {tp.topic for tp in self._manager.logs.all_logs()}
        configs = await self._configs.read(sorted(topics))
        changed: set[str] = set()
        # A log being opened under this lock may otherwise get a config read before the change.
        async with self._lock:
            for tp, log in (*self._manager.logs.all_logs().items(), *self._manager.logs.futures.all.items()):
                config = configs.get(tp.topic)
                if config is not None and config != log.config:
                    log.config = config
                    changed.add(tp.topic)
                    partition = self._manager.online(tp)
                    if partition is not None:
                        # Gauges also show whether the ISR is below the minimum.
                        partition.update_status()
        if changed:
            _log.info("Topic configs changed", topics=sorted(changed))


class DynamicBrokerSettings:
    """Watches `/config/changes` for one agent."""

    def __init__(
        self,
        broker: BrokerId,
        zookeeper: ZooKeeper,
        clock: WallClock,
        *,
        topics: TopicConfigChanges,
        fetchers: ReplicaFetchers,
        fetchers_of_file: int,
        quotas: Sequence[ReplicationQuota],
        client_quotas: ClientQuotaConfigs,
        copy_throttle: CopyThrottle,
        log_level: LogLevel,
        users: ScramUsers,
    ) -> None:
        """Follow the configs. `fetchers_of_file`: the number of fetchers for each leader without an override."""
        self.changes = ConfigChanges(zookeeper, clock, self._take_over)
        self._zookeeper = zookeeper
        self._layers = (ConfigEntity("brokers", str(broker)), ConfigEntity("brokers", DEFAULT_ENTITY))
        self._topics = topics
        self._fetchers = fetchers
        self._fetchers_of_file = fetchers_of_file
        self._quotas, self._client_quotas = quotas, client_quotas
        self._copy_throttle = copy_throttle
        self._log_level, self._users = log_level, users

    async def _take_over(self, entities: Sequence[ConfigEntity], *, is_new_session: bool) -> None:
        """Apply the changed configs. Raises ZooKeeperError; the listener retries."""
        if is_new_session or any(layer in entities for layer in self._layers):
            await self._read_broker_settings()
        await self._client_quotas.take_over(self._zookeeper, entities, is_new_session=is_new_session)
        await self._users.take_over(self._zookeeper, entities, is_new_session=is_new_session)
        await self._topics.take_over(entities, is_new_session=is_new_session)

    async def _read_broker_settings(self) -> None:
        stored = await read_configs(self._zookeeper, self._layers)
        own, of_all = (overrides_of(stored[layer]) for layer in self._layers)
        self._log_level.override(own=own, of_all=of_all)
        fetchers = _first_number(_NUM_REPLICA_FETCHERS, (own, of_all), 1, bounds.INT32_MAX)
        self._fetchers.resize(self._fetchers_of_file if fetchers is None else fetchers)
        for quota in self._quotas:
            quota.set_rate(own=_rate(quota.side.rate_key, own), of_all=_rate(quota.side.rate_key, of_all))
        self._copy_throttle.override(own=_rate(RATE_KEY, own), of_all=_rate(RATE_KEY, of_all))


def _rate(key: str, layer: Mapping[str, str]) -> int | None:
    return _first_number(key, (layer,), 0, bounds.INT64_MAX)


def _first_number(key: str, layers: Sequence[Mapping[str, str]], lowest: int, highest: int) -> int | None:
    """The override in the first layer that has a valid one; None without any."""
    for text in (layer[key] for layer in layers if key in layer):
        try:
            number = int(text)
        except ValueError:
            number = lowest - 1
        if lowest <= number <= highest:
            return number
        _log.warning("Ignored an invalid broker config", key=key, value=text)
    return None
