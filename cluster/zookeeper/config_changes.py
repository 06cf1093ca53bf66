"""Follows config change notifications: sequential znodes under `/config/changes`.

A notification names the entity only; its config is read again. Every listening process processes each change at least
once across its sessions. Source: Kafka ZkNodeChangeNotificationListener, ZkConfigManager.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, Protocol

import structlog

from cluster.aio.clock import WallClock
from cluster.znodes.configs import CONFIG_CHANGE_PREFIX, ConfigEntity, decode_config_change
from cluster.znodes.paths import CONFIG_CHANGES
from cluster.zookeeper.decoding import decode_each
from cluster.zookeeper.port import Delete, WatchKind, Znode, ZooKeeper
from cluster.zookeeper.recipes import watched_children

EXPIRY_MS: Final = 15 * 60 * 1000
"""After this time every listener has processed a change, or reads everything on its return (EP-34)."""
_NEXT_ATTEMPT_S: Final = 1
_SEQUENCE_DIGITS: Final = 10
"""The number of digits in the name of a sequential znode."""
_log = structlog.stdlib.get_logger()


class ConfigChangeHandler(Protocol):
    """Reads the configs of these entities and applies them.

    With a new session, notifications may have been missed: everything relevant must be read.
    """

    def __call__(self, entities: Sequence[ConfigEntity], *, is_new_session: bool) -> Awaitable[None]: ...


class ConfigChanges:
    """Listens to `/config/changes` for one process, across its sessions. `run` does the work."""

    def __init__(self, zookeeper: ZooKeeper, clock: WallClock, take_over: ConfigChangeHandler) -> None:
        self._zookeeper = zookeeper
        self._clock = clock
        self._take_over = take_over
        self._woken = asyncio.Event()
        self._is_new_session = True
        self._highest = -1

    def changed(self, kind: WatchKind) -> None:
        """Note that the watch on `/config/changes` fired. If the znode is created again, its children's numbers
        restart.
        """
        if kind is WatchKind.DELETED:
            self.start_session()
        self._woken.set()

    def start_session(self) -> None:
        """Start without watches, as in a new session: everything is read and processed again."""
        self._is_new_session = True
        self._woken.set()

    async def run(self) -> None:
        """Process changes until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            is_new_session, self._is_new_session = self._is_new_session, False
            try:
                await self._catch_up(is_new_session=is_new_session)
            except Exception as error:
                # Whatever the error, the process keeps its current settings.
                _log.warning("Reading config changes failed", error=repr(error))
                self._is_new_session |= is_new_session
                await asyncio.sleep(_NEXT_ATTEMPT_S)
                self._woken.set()

    async def _catch_up(self, *, is_new_session: bool) -> None:
        if is_new_session:
            self._highest = -1
        names = await watched_children(self._zookeeper, CONFIG_CHANGES) or ()
        changes = sorted((sequence, name) for name in names if (sequence := _sequence(name)) is not None)
        paths = [f"{CONFIG_CHANGES}/{name}" for _, name in changes]
        znodes = await self._zookeeper.get_many(paths)
        fresh = [
            (path, znode)
            for (sequence, _), path, znode in zip(changes, paths, znodes, strict=True)
            if znode is not None and sequence > self._highest
        ]
        await self._take_over(_entities(fresh), is_new_session=is_new_session)
        if changes:
            self._highest = max(self._highest, changes[-1][0])
        await self._purge(paths, znodes)

    async def _purge(self, paths: Sequence[str], znodes: Sequence[Znode | None]) -> None:
        """Delete expired notifications. Other listeners do the same, so one may be gone already."""
        now = self._clock.now_ms()
        old = [
            p
            for p, znode in zip(paths, znodes, strict=True)
            if znode is not None and now - znode.stat.ctime > EXPIRY_MS
        ]
        if old:
            await self._zookeeper.multi_many([[Delete(path)] for path in old])


def _sequence(name: str) -> int | None:
    digits = name.removeprefix(CONFIG_CHANGE_PREFIX.rpartition("/")[2])
    is_number = digits != name and digits.isascii() and digits.isdecimal() and len(digits) == _SEQUENCE_DIGITS
    return int(digits) if is_number else None


def _entities(changes: Sequence[tuple[str, Znode]]) -> tuple[ConfigEntity, ...]:
    """List the changed entities, each once, in order of the first change."""
    paths, znodes = [path for path, _ in changes], [znode for _, znode in changes]
    return tuple(dict.fromkeys(decode_each(paths, znodes, _entity).values()))


def _entity(path: str, znode: Znode) -> ConfigEntity:
    return decode_config_change(path, znode.data)
