"""Applies changed topic configs to open logs. Source: Kafka TopicConfigHandler (R15.2)."""

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.requests.topic_configs import TopicConfigs
from cluster.znodes.configs import ConfigEntity

_TOPICS: Final = "topics"
_log = structlog.stdlib.get_logger()


class TopicConfigChanges:
    """Sets the current topic configs on open logs; they apply from the next operation on."""

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
            for tp, log in self._manager.logs.all_logs().items():
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
