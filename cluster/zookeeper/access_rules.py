"""Reads access control lists from ZooKeeper and follows their changes, for one process.

A process has a session of its own for them, as Kafka's AclAuthorizer: rules are known before its ports open, and
nothing of it is in the way of elections. Changes are announced by sequential znodes; what is announced is read again.
Without ZooKeeper the rules that were read last stay in force. Source: AclAuthorizer, ZkNodeChangeNotificationListener.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog
from msgspec import Struct

from cluster.aio.clock import WallClock
from cluster.model.errors import ConfigError, MalformedZnodeError
from cluster.security.acl_znodes import (
    CHANGE_PREFIX,
    UnsupportedAclVersionError,
    changes_of,
    decode_notice,
    decode_rules,
    path_of,
    top_of,
)
from cluster.security.acls import (
    AccessRule,
    Authorizer,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    RulesByPattern,
)
from cluster.security.principals import EVERY_USER
from cluster.zookeeper.decoding import report_malformed
from cluster.zookeeper.port import (
    Create,
    Delete,
    SessionEvent,
    SessionState,
    WatchEvent,
    WatchKind,
    Znode,
    ZooKeeper,
)
from cluster.zookeeper.recipes import check_present, watched_children

EXPIRY_MS: Final = 15 * 60 * 1000
"""After this time every process has read what a notice is about, or reads everything when it returns."""
_NEXT_ATTEMPT_S: Final = 1
_SEQUENCE_DIGITS: Final = 10
_NOBODY: Final = frozenset({AccessRule(EVERY_USER, Operation.ALL, Permission.DENY)})
_log = structlog.stdlib.get_logger()


class StoredRules(Struct, frozen=True):
    """The rules of a pattern, and the data version of their znode; without a znode empty and None.

    `problems`: what in the znode has no effect. `is_unknown`: nothing of it can be read, as it is of another version.
    """

    rules: frozenset[AccessRule] = frozenset()
    version: int | None = None
    problems: tuple[str, ...] = ()
    is_unknown: bool = False


async def read_rules(zookeeper: ZooKeeper, patterns: Sequence[Pattern]) -> dict[Pattern, StoredRules]:
    """Read the rules of these patterns. Raises ZooKeeperError."""
    znodes = await zookeeper.get_many([path_of(pattern) for pattern in patterns])
    return {pattern: _stored(znode) for pattern, znode in zip(patterns, znodes, strict=True)}


async def read_all_rules(zookeeper: ZooKeeper) -> dict[Pattern, StoredRules]:
    """Read the rules of every pattern that has some. Raises ZooKeeperError."""
    kinds = [(kind, resource_type) for kind in PatternType for resource_type in ResourceType]
    listed = await zookeeper.children_many([f"{top_of(kind)}/{resource_type}" for kind, resource_type in kinds])
    patterns = [
        Pattern(resource_type, name, kind)
        for (kind, resource_type), names in zip(kinds, listed, strict=True)
        for name in names or ()
    ]
    found = await read_rules(zookeeper, patterns)
    return {pattern: stored for pattern, stored in found.items() if stored.version is not None}


def access_list_paths() -> tuple[str, ...]:
    """The znodes that hold access control lists and their notices, parents first, as Kafka's brokers create them."""
    tops = [top_of(kind) for kind in PatternType]
    parents = dict.fromkeys(top.rpartition("/")[0] for top in tops if top.count("/") > 1)
    types = (f"{top}/{resource_type}" for top in tops for resource_type in ResourceType)
    return (*parents, *tops, *types, *map(changes_of, PatternType))


def _stored(znode: Znode | None) -> StoredRules:
    if znode is None:
        return StoredRules()
    try:
        read = decode_rules(znode.data)
    except UnsupportedAclVersionError as error:
        return StoredRules(version=znode.stat.version, problems=(str(error),), is_unknown=True)
    return StoredRules(read.rules, znode.stat.version, read.problems)


class AccessRules:
    """Holds the rules of a process. `run` follows them, after `load`.

    `authorizer_of`: what decides by these rules.
    """

    def __init__(
        self, zookeeper: ZooKeeper, clock: WallClock, authorizer_of: Callable[[RulesByPattern], Authorizer]
    ) -> None:
        self._zookeeper, self._clock, self._authorizer_of = zookeeper, clock, authorizer_of
        self._rules: dict[Pattern, frozenset[AccessRule]] = {}
        self._problems: dict[Pattern, tuple[str, ...]] = {}
        self._highest = dict.fromkeys(PatternType, -1)
        self._woken, self._is_session_over, self._reads_all = asyncio.Event(), True, True
        self._unheard_since_ms: int | None = clock.now_ms()
        self.authorizer = authorizer_of({})
        zookeeper.listen(self._hear)

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """The texts about what has no effect in znodes, by their path."""
        return {path_of(pattern): problems for pattern, problems in self._problems.items()}

    @property
    def stale_ms(self) -> int:
        """The time in which changes may have been missed; 0 while ZooKeeper is connected and everything was read."""
        since = self._unheard_since_ms
        return 0 if since is None else max(0, self._clock.now_ms() - since)

    @property
    def count(self) -> int:
        """The number of rules."""
        return sum(map(len, self._rules.values()))

    async def load(self) -> None:
        """Open the session and read everything. Raises ZooKeeperError if that is not possible."""
        await self._catch_up()

    async def run(self) -> None:
        """Follow changes until cancelled. Whatever fails, the rules that are known stay in force."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._catch_up()
            except Exception as error:
                _log.warning("Access control lists cannot be read", error=repr(error), stale_ms=self.stale_ms)
                self._reads_all = True
                await asyncio.sleep(_NEXT_ATTEMPT_S)
                self._woken.set()

    def _hear(self, event: WatchEvent | SessionEvent) -> None:
        match event:
            case WatchEvent(kind=kind):
                # If notices are created again, their numbers restart.
                self._reads_all |= kind is WatchKind.DELETED
            case SessionEvent(state=SessionState.CONNECTED):
                if not self._reads_all:
                    # Watches of the same session say what changed meanwhile.
                    self._unheard_since_ms = None
                return
            case SessionEvent(state=state):
                if self._unheard_since_ms is None:
                    self._unheard_since_ms = self._clock.now_ms()
                if state is SessionState.DISCONNECTED:
                    return
                self._is_session_over = self._reads_all = True
        self._woken.set()

    async def _catch_up(self) -> None:
        if self._is_session_over:
            await self._zookeeper.start_session()
            self._is_session_over = False
        if self._reads_all:
            await self._read_all()
        else:
            changed = [pattern for kind in PatternType for pattern in await self._changed(kind)]
            if changed:
                self._take(await read_rules(self._zookeeper, list(dict.fromkeys(changed))))

    async def _read_all(self) -> None:
        paths = access_list_paths()
        for path, created in zip(paths, await self._zookeeper.multi_many([[Create(p)] for p in paths]), strict=True):
            if isinstance(created, Exception):
                raise created
            check_present(path, created[0])
        self._highest = dict.fromkeys(PatternType, -1)
        # First the watches: what changes while everything is read is read again.
        for kind in PatternType:
            await self._changed(kind)
        found = await read_all_rules(self._zookeeper)
        gone = self._rules.keys() - found.keys()
        self._take(found | dict.fromkeys(gone, StoredRules()))
        self._reads_all, self._unheard_since_ms = False, None

    async def _changed(self, kind: PatternType) -> list[Pattern]:
        """The patterns that new notices name; arms a watch for the next ones, and deletes those that have expired."""
        names = await watched_children(self._zookeeper, changes_of(kind)) or ()
        notices = sorted((number, name) for name in names if (number := _sequence(name)) is not None)
        paths = [f"{changes_of(kind)}/{name}" for _, name in notices]
        znodes = await self._zookeeper.get_many(paths)
        found: list[Pattern] = []
        for (number, _), path, znode in zip(notices, paths, znodes, strict=True):
            if znode is None or number <= self._highest[kind]:
                continue
            try:
                pattern = decode_notice(kind, znode.data)
                path_of(pattern)
                found.append(pattern)
            except ConfigError as error:
                report_malformed(MalformedZnodeError(path, znode.data, str(error)))
        if notices:
            self._highest[kind] = max(self._highest[kind], notices[-1][0])
        oldest = self._clock.now_ms() - EXPIRY_MS
        expired = [p for p, z in zip(paths, znodes, strict=True) if z is not None and z.stat.ctime < oldest]
        await self._zookeeper.multi_many([[Delete(path)] for path in expired])
        return found

    def _take(self, found: Mapping[Pattern, StoredRules]) -> None:
        rules, problems = dict(self._rules), dict(self._problems)
        for pattern, stored in found.items():
            if stored.is_unknown:
                # As in Kafka the rules that are known stay. Without any Kafka does not start; nobody may do anything.
                rules.setdefault(pattern, _NOBODY)
            elif stored.rules:
                rules[pattern] = stored.rules
            else:
                rules.pop(pattern, None)
            if stored.problems:
                problems[pattern] = stored.problems
                _log.warning("Access control list is not what it should be", path=path_of(pattern), why=stored.problems)
            else:
                problems.pop(pattern, None)
        self._rules, self._problems = rules, problems
        self.authorizer = self._authorizer_of(rules)
        _log.info("Access control lists read", rules=self.count, changed=len(found))


def _sequence(name: str) -> int | None:
    digits = name.removeprefix(CHANGE_PREFIX)
    is_number = digits != name and digits.isascii() and digits.isdecimal() and len(digits) == _SEQUENCE_DIGITS
    return int(digits) if is_number else None
