"""Settings that change while the process runs, and who follows their changes.

`/config/changes` only says whose settings changed; what they are is read again. A candidate follows it whether it
is in office or not, in a task of its own, so that what a new reign decides with is already up to date.
Source: Kafka ZkConfigManager, DynamicBrokerConfig, TopicConfigHandler, ZkNodeChangeNotificationListener.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from cluster.errors import MalformedZnodeError
from cluster.node import WallClock
from cluster.znodes import (
    CONFIG_CHANGE_PREFIX,
    CONFIG_CHANGES,
    DEFAULT_ENTITY,
    ConfigEntity,
    decode_config,
    decode_config_change,
)
from cluster.zookeeper.port import Delete, Node, ZooKeeper
from controller.config import ControllerConfig
from controller.decisions.topic_configs import parse_unclean_override
from controller.events import Event, TopicUncleanLeaderElectionEnable, UncleanLeaderElectionEnable

EXPIRY_MS: Final = 15 * 60 * 1000
"""After this time every listener has seen a change, or reads everything anew when it comes back (EP-34)."""
_NEXT_ATTEMPT_S: Final = 1
log = structlog.stdlib.get_logger(__name__)


class DynamicSettings:
    """What holds now for this process: its own overrides, those of all brokers, its file, in this order (§16.1)."""

    def __init__(self, config: ControllerConfig) -> None:
        self._of_file = config.unclean_leader_election_enable
        self.unclean_leader_election_enable = self._of_file
        """What holds for topics that do not say it themselves."""

    def override(self, *, own: Mapping[str, str], of_all: Mapping[str, str]) -> None:
        """A value that makes no sense is passed over."""
        found = (_unclean_override(overrides) for overrides in (own, of_all))
        self.unclean_leader_election_enable = next((value for value in found if value is not None), self._of_file)


def _unclean_override(overrides: Mapping[str, str]) -> bool | None:
    try:
        return parse_unclean_override(overrides)
    except ValueError as error:
        log.warning("A setting is not valid", error=str(error))
        return None


class ConfigListener:
    """Follows `/config/changes` for one candidate, over all its sessions and reigns."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        config: ControllerConfig,
        clock: WallClock,
        *,
        put: Callable[[Event], None],
        in_office: Callable[[], bool],
    ) -> None:
        self.settings = DynamicSettings(config)
        self._zookeeper = zookeeper
        self._own = ConfigEntity("brokers", str(config.id))
        self._of_all = ConfigEntity("brokers", DEFAULT_ENTITY)
        self._clock = clock
        self._put = put
        self._in_office = in_office
        self._woken = asyncio.Event()
        self._is_new_session = True
        self._highest = -1

    def changed(self) -> None:
        """There are new changes, or old ones went."""
        self._woken.set()

    def start_session(self) -> None:
        """A new session has no watches: everything is read and processed again."""
        self._is_new_session = True
        self._woken.set()

    async def run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            is_new_session, self._is_new_session = self._is_new_session, False
            try:
                await self._catch_up(is_new_session=is_new_session)
            except Exception as error:
                # Whatever it is, the controller rules on with the settings it has.
                log.warning("Changes of settings cannot be read", error=repr(error))
                self._is_new_session |= is_new_session
                await asyncio.sleep(_NEXT_ATTEMPT_S)
                self._woken.set()

    async def _catch_up(self, *, is_new_session: bool) -> None:
        if is_new_session:
            self._highest = -1
        names = await self._zookeeper.children(CONFIG_CHANGES, watch=True) or ()
        changes = sorted((sequence, name) for name in names if (sequence := _sequence(name)) is not None)
        paths = [f"{CONFIG_CHANGES}/{name}" for _, name in changes]
        nodes = await self._zookeeper.get_many(paths)
        fresh = [
            (path, node)
            for (sequence, _), path, node in zip(changes, paths, nodes, strict=True)
            if node is not None and sequence > self._highest
        ]
        entities = _entities(fresh)
        if is_new_session or self._own in entities or self._of_all in entities:
            await self._read_broker_settings()
        await self._read_topics([entity for entity in entities if entity.type == "topics"])
        if changes:
            self._highest = max(self._highest, changes[-1][0])
        await self._purge(paths, nodes)

    async def _read_broker_settings(self) -> None:
        """EP-31."""
        before = self.settings.unclean_leader_election_enable
        own, of_all = await self._read([self._own, self._of_all])
        self.settings.override(own=own, of_all=of_all)
        now = self.settings.unclean_leader_election_enable
        if now is not before:
            log.info("Unclean elections", allowed=now)
        if now and not before:
            self._put(UncleanLeaderElectionEnable())

    async def _read_topics(self, topics: Sequence[ConfigEntity]) -> None:
        """EP-30."""
        for entity, overrides in zip(topics, await self._read(topics), strict=True):
            if _unclean_override(overrides) and self._in_office():
                self._put(TopicUncleanLeaderElectionEnable(entity.name))

    async def _read(self, entities: Sequence[ConfigEntity]) -> list[dict[str, str]]:
        """Overrides of each entity; none where there is no readable node."""
        found: list[dict[str, str]] = []
        for entity, node in zip(entities, await self._zookeeper.get_many([e.path for e in entities]), strict=True):
            try:
                found.append({} if node is None else decode_config(entity.path, node.data))
            except MalformedZnodeError as error:
                log.warning("Settings cannot be read and count as none", path=error.path, why=error.why)
                found.append({})
        return found

    async def _purge(self, paths: Sequence[str], nodes: Sequence[Node | None]) -> None:
        """Delete changes that everybody has seen. Other listeners do the same, so one may be gone already."""
        now = self._clock.now_ms()
        old = [
            p for p, node in zip(paths, nodes, strict=True) if node is not None and now - node.stat.ctime > EXPIRY_MS
        ]
        if old:
            await self._zookeeper.multi_many([[Delete(path)] for path in old])


def _sequence(name: str) -> int | None:
    digits = name.removeprefix(CONFIG_CHANGE_PREFIX.rpartition("/")[2])
    return int(digits) if digits != name and digits.isdecimal() else None


def _entities(changes: Sequence[tuple[str, Node]]) -> dict[ConfigEntity, None]:
    """Whose settings changed, each once, in order of the first change."""
    found: dict[ConfigEntity, None] = {}
    for path, node in changes:
        try:
            found[decode_config_change(path, node.data)] = None
        except MalformedZnodeError as error:
            log.warning("A change of settings names nobody", path=path, data=node.data, why=error.why)
    return found
