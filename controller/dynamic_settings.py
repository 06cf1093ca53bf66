"""Settings that change at run time, and the listener of their changes.

Every candidate follows them in a task of its own, active or not, so that a newly elected controller decides with
current settings. Source: Kafka DynamicBrokerConfig, TopicConfigHandler.
"""

from collections.abc import Callable, Mapping, Sequence

import structlog

from cluster.aio.clock import WallClock
from cluster.config.client_quotas import ClientQuotaConfigs
from cluster.config.scram_users import ScramUsers
from cluster.process.log_level import LogLevel
from cluster.znodes.configs import DEFAULT_ENTITY, ConfigEntity
from cluster.zookeeper.config_changes import ConfigChanges
from cluster.zookeeper.configs import overrides_of, read_configs
from cluster.zookeeper.port import ZooKeeper
from controller.config import ControllerConfig
from controller.decisions.configs.topic_configs import parse_unclean_override
from controller.events import Event, TopicUncleanLeaderElectionEnable, UncleanLeaderElectionEnable

_log = structlog.stdlib.get_logger()


class DynamicSettings:
    """Settings in force for this process. Precedence: overrides of this broker id, cluster-wide overrides, the file."""

    def __init__(self, config: ControllerConfig) -> None:
        self._of_file = config.settings.unclean_leader_election_enable
        self.unclean_leader_election_enable = self._of_file
        """The setting for topics without an override."""

    def override(self, *, own: Mapping[str, str], of_all: Mapping[str, str]) -> None:
        """Replace the overrides; an invalid value is logged and ignored."""
        found = (_unclean_override(overrides) for overrides in (own, of_all))
        self.unclean_leader_election_enable = next((value for value in found if value is not None), self._of_file)


def _unclean_override(overrides: Mapping[str, str]) -> bool | None:
    try:
        return parse_unclean_override(overrides)
    except ValueError as error:
        _log.warning("Ignored an invalid setting", error=str(error))
        return None


class ConfigListener:
    """Applies config changes to one candidate, across its sessions and elections."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        config: ControllerConfig,
        clock: WallClock,
        *,
        put: Callable[[Event], None],
        is_active: Callable[[], bool],
        topic_changed: Callable[[str], None],
        client_quotas: ClientQuotaConfigs,
        log_level: LogLevel,
        users: ScramUsers,
    ) -> None:
        """`topic_changed` is called with each topic whose config changed, but not those read at a session's start."""
        self.settings = DynamicSettings(config)
        self.changes = ConfigChanges(zookeeper, clock, self.take_over)
        self._zookeeper = zookeeper
        self._own = ConfigEntity("brokers", str(config.id))
        self._of_all = ConfigEntity("brokers", DEFAULT_ENTITY)
        self._put = put
        self._is_active = is_active
        self._topic_changed = topic_changed
        self._client_quotas = client_quotas
        self._log_level, self._users = log_level, users

    async def take_over(self, entities: Sequence[ConfigEntity], *, is_new_session: bool) -> None:
        """Read the configs of these entities; enqueue events where unclean elections are newly allowed."""
        if is_new_session or self._own in entities or self._of_all in entities:
            await self._read_broker_settings()
        await self._client_quotas.take_over(self._zookeeper, entities, is_new_session=is_new_session)
        await self._users.take_over(self._zookeeper, entities, is_new_session=is_new_session)
        topics = [entity for entity in entities if entity.type == "topics"]
        await self._read_topics(topics)
        if not is_new_session:
            for topic in topics:
                self._topic_changed(topic.name)

    async def _read_broker_settings(self) -> None:
        """Read broker configs; enqueue elections for all partitions if unclean ones are newly allowed (EP-31)."""
        before = self.settings.unclean_leader_election_enable
        found = await read_configs(self._zookeeper, [self._own, self._of_all])
        own, of_all = overrides_of(found[self._own]), overrides_of(found[self._of_all])
        self._log_level.override(own=own, of_all=of_all)
        self.settings.override(own=own, of_all=of_all)
        now = self.settings.unclean_leader_election_enable
        if now is not before:
            _log.info("Unclean leader election setting changed", allowed=now)
        if now and not before:
            self._put(UncleanLeaderElectionEnable())

    async def _read_topics(self, topics: Sequence[ConfigEntity]) -> None:
        """Read topic configs; enqueue elections for topics that allow unclean ones (EP-30)."""
        for entity, config in (await read_configs(self._zookeeper, topics)).items():
            if _unclean_override(overrides_of(config)) and self._is_active():
                self._put(TopicUncleanLeaderElectionEnable(entity.name))
