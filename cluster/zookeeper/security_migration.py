"""Secures the znodes of an existing cluster, or opens them: `klamm zookeeper-security-migration`.

Each znode is a step of its own: its ACL is read, and replaced if it is not the wanted one. So the migration may be
interrupted at any time and run again, and processes continue meanwhile; while one creates open znodes, a further run is
needed.
`/consumers` is secured only where nothing is below it; Kafka's tool leaves it open.
Source: Kafka ZkSecurityMigrator, ZkData.SecureRootPaths.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from cluster.model.errors import ZooKeeperAccessError
from cluster.zookeeper.acl import CONSUMERS, AccessList, access_of, has_access, is_open
from cluster.zookeeper.kazoo_access_lists import KazooAccessLists
from cluster.zookeeper.port import ZkError

ROOTS: Final = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    "/consumers",
    "/controller",
    "/controller_epoch",
    "/controllers",
    "/delegation_token",
    "/feature",
    "/isr_change_notification",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended-changes",
    "/klamm",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/migration",
)
"""What belongs to a cluster, of Kafka or of klamm. Without a chroot other programs have znodes beside it."""
ROOTS_OF_SERVER: Final = ("/", "/zookeeper", "/zookeeper/quota")
"""What a new server has, open to everyone: below each, whoever reaches it may fill its disk."""
_CHUNK: Final = 1_000
_PROGRESS: Final = 10_000
_ATTEMPTS: Final = 10


class MigrationOutcome(Struct):
    """Counts znodes. `changed`: those whose ACL was replaced, or would be. `refused`: those whose ACL this identity
    must not read or replace.
    """

    changed: int = 0
    unchanged: int = 0
    refused: tuple[str, ...] = ()


class SecurityMigration:
    """Migrates the znodes of a cluster. `say`: is told of the progress. `dry_run`: nothing is written."""

    def __init__(
        self, client: KazooAccessLists, say: Callable[[str], None], *, secures: bool, dry_run: bool = False
    ) -> None:
        self._client, self._say = client, say
        self._secures, self._dry_run = secures, dry_run
        self._outcome = MigrationOutcome()

    async def run(self) -> MigrationOutcome:
        """Migrate every znode that there is now. Raises ZooKeeperError; what was done until then stays done."""
        paths = await znodes_of_cluster(self._client)
        if self._secures and await has_old_consumers(self._client):
            paths.remove(CONSUMERS)
            self._say(f"{CONSUMERS} is left as it is: consumers of Kafka before 2.0 have znodes below it")
        self._say(f"{len(paths):,} znodes")
        return await self.migrate(paths)

    async def migrate(self, paths: Sequence[str]) -> MigrationOutcome:
        """Migrate these znodes. Raises ZooKeeperError; what was done until then stays done."""
        for start in range(0, len(paths), _CHUNK):
            await self._migrate(paths[start : start + _CHUNK])
            done = min(start + _CHUNK, len(paths))
            if done % _PROGRESS == 0:
                self._say(f"{done:,} of {len(paths):,} znodes ({done / len(paths):.0%})")
        return self._outcome

    async def _migrate(self, paths: Sequence[str]) -> None:
        """Migrate some znodes. One whose ACL somebody else changes meanwhile is read again."""
        waiting = list(paths)
        for _ in range(_ATTEMPTS):
            found = dict(zip(waiting, await self._client.access_lists(waiting), strict=True))
            self._refuse([path for path, acl in found.items() if acl is ZkError.NO_AUTH])
            present = {path: acl for path, acl in found.items() if isinstance(acl, AccessList)}
            wanted = {path: access_of(path, sets_acl=self._secures) for path in present}
            changes = {
                path: (wanted[path], acl.version) for path, acl in present.items() if not has_access(acl, wanted[path])
            }
            self._outcome.unchanged += len(present) - len(changes)
            results = [ZkError.OK] * len(changes) if self._dry_run else await self._client.set_access(changes)
            self._outcome.changed += results.count(ZkError.OK)
            outcomes = dict(zip(changes, results, strict=True))
            self._refuse([path for path, error in outcomes.items() if error in (ZkError.NO_AUTH, ZkError.INVALID_ACL)])
            waiting = [path for path, error in outcomes.items() if error is ZkError.BAD_VERSION]
            if not waiting:
                return
        self._refuse(waiting)

    def _refuse(self, paths: Sequence[str]) -> None:
        self._outcome.refused += tuple(paths)


async def has_old_consumers(client: KazooAccessLists) -> bool:
    """Whether there are znodes of consumers of Kafka before 2.0, which need the one above them to be open."""
    (names,) = await _children(client, [CONSUMERS])
    return bool(names)


async def znodes_of_cluster(client: KazooAccessLists) -> list[str]:
    """List every znode of a cluster, each after its parent; without a chroot also those above them. What old consumers
    have below `/consumers` is theirs.
    """
    found = ["/"] if client.has_chroot else [*ROOTS_OF_SERVER]
    level = [root for root, children in zip(ROOTS, await _children(client, ROOTS), strict=True) if children is not None]
    while level:
        found += level
        inner = [path for path in level if path != CONSUMERS]
        children = await _children(client, inner)
        level = [f"{path}/{name}" for path, names in zip(inner, children, strict=True) for name in names or ()]
    return found


async def open_znodes(client: KazooAccessLists) -> list[str]:
    """List the znodes of a cluster that everyone may change, although they are to have an owner. Without a chroot the
    roots are not of the cluster alone, and `/consumers` is to be open where it is used.
    """
    leaves_consumers = await has_old_consumers(client)
    shared = {*(() if client.has_chroot else ROOTS_OF_SERVER), *((CONSUMERS,) if leaves_consumers else ())}
    paths = [path for path in await znodes_of_cluster(client) if path not in shared]
    found: list[str] = []
    for start in range(0, len(paths), _CHUNK):
        chunk = paths[start : start + _CHUNK]
        lists = await client.access_lists(chunk)
        found += [p for p, acl in zip(chunk, lists, strict=True) if isinstance(acl, AccessList) and is_open(acl)]
    return found


async def _children(client: KazooAccessLists, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
    """The children of each; none of those whose children this identity must not see, None for a missing znode."""
    try:
        return await client.children_many(paths)
    except ZooKeeperAccessError:
        return [await _visible_children(client, path) for path in paths]


async def _visible_children(client: KazooAccessLists, path: str) -> tuple[str, ...] | None:
    try:
        return await client.children(path)
    except ZooKeeperAccessError:
        return ()
