"""Changes of settings, announced by sequential nodes under `/config/changes`.

A node only says whose settings changed; what they are is read again. Every process that follows them sees each
change at least once over all its sessions. Source: Kafka ZkNodeChangeNotificationListener, ZkConfigManager.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, Protocol

import structlog

from cluster.process.clock import WallClock
from cluster.znodes.configs import CONFIG_CHANGE_PREFIX, ConfigEntity, decode_config_change
from cluster.znodes.paths import CONFIG_CHANGES
from cluster.zookeeper.decoding import decode_each
from cluster.zookeeper.listing import watched_children
from cluster.zookeeper.port import Delete, WatchKind, Znode, ZooKeeper

EXPIRY_MS: Final = 15 * 60 * 1000
"""After this time every listener has seen a change, or reads everything anew when it comes back (EP-34)."""
_NEXT_ATTEMPT_S: Final = 1
_log = structlog.stdlib.get_logger()


class ConfigChangeHandler(Protocol):
    """Reads the settings of these entities and takes them over.

    After a new session changes may have come and gone unseen: then everything that matters is to be read.
    """

    def __call__(self, entities: Sequence[ConfigEntity], *, is_new_session: bool) -> Awaitable[None]: ...


class ConfigChanges:
    """Follows `/config/changes` for one process, over all its sessions. `run` does the work."""

    def __init__(self, zookeeper: ZooKeeper, clock: WallClock, take_over: ConfigChangeHandler) -> None:
        self._zookeeper = zookeeper
        self._clock = clock
        self._take_over = take_over
        self._woken = asyncio.Event()
        self._is_new_session = True
        self._highest = -1

    def changed(self, kind: WatchKind) -> None:
        """The watch on `/config/changes` fired. Once the node is created again, its children are numbered anew."""
        if kind is WatchKind.DELETED:
            self.start_session()
        self._woken.set()

    def start_session(self) -> None:
        """There are no watches, as in a new session: everything is read and processed again."""
        self._is_new_session = True
        self._woken.set()

    async def run(self) -> None:
        """Process changes as they come, for ever."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            is_new_session, self._is_new_session = self._is_new_session, False
            try:
                await self._catch_up(is_new_session=is_new_session)
            except Exception as error:
                # Whatever it is, the process goes on with the settings it has.
                _log.warning("Changes of settings cannot be read", error=repr(error))
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
        """Delete changes that everybody has seen. Other listeners do the same, so one may be gone already."""
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
    return int(digits) if digits != name and digits.isdecimal() else None


def _entities(changes: Sequence[tuple[str, Znode]]) -> tuple[ConfigEntity, ...]:
    """Whose settings changed, each once, in order of the first change."""
    paths, znodes = [path for path, _ in changes], [znode for _, znode in changes]
    return tuple(dict.fromkeys(decode_each(paths, znodes, _entity).values()))


def _entity(path: str, znode: Znode) -> ConfigEntity:
    return decode_config_change(path, znode.data)
