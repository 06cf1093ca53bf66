"""ZooKeeper for a rehearsal: the tree of its writes, whose other znodes are read from the real one when needed.

Only reads reach the real ZooKeeper.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from cluster.zookeeper.port import (
    Create,
    Delete,
    Listener,
    Op,
    OpResult,
    Stat,
    SubtreeListener,
    WatchEvent,
    WatchKind,
    Znode,
)
from cluster.zookeeper.znode_tree import SEQUENCE_DIGITS, SessionIdentity, SessionWatches, ZnodeTree, parent_of
from controller.ports import ZooKeeperReads


class RehearsedZnode(Struct, frozen=True):
    """A znode that the rehearsal changed, before and after; None where it does not exist."""

    path: str
    before: Znode | None
    after: Znode | None


class RehearsalZooKeeper:
    """Implements the ZooKeeper port over `reads`. `notify` gets the watch events of one session.

    Watches are armed by reads, and from the start on the data of `data_watches` and the children of `child_watches`. In
    the stats of written znodes only the version is that of a server. No ephemeral is created, and no ACL is checked.
    """

    def __init__(
        self,
        reads: ZooKeeperReads,
        notify: Callable[[WatchEvent], None],
        *,
        data_watches: Iterable[str] = (),
        child_watches: Iterable[str] = (),
    ) -> None:
        self._reads = reads
        self._notify = notify
        self._watches = SessionWatches(data_watches, child_watches)
        self._real: dict[str, Znode | None] = {}
        self._tree = ZnodeTree()
        self._tree.znodes.clear()  # The root is read as any other znode.
        self._changed: dict[str, None] = {}
        """Paths whose znode is that of the tree, even if it is missing there; of all others the real one holds."""
        self._listed: set[str] = set()
        """Paths whose children in the tree are complete."""

    @property
    def session_id(self) -> int:
        return 0

    @property
    def last_zxid(self) -> int:
        return 0

    def written(self) -> list[RehearsedZnode]:
        """The changed znodes, in the order of their first change."""
        return [RehearsedZnode(path, self._real.get(path), self._tree.get(path)) for path in self._changed]

    def listen(self, listener: Listener) -> None:
        raise AssertionError("a rehearsal has no session")

    async def start_session(self) -> None:
        raise AssertionError("a rehearsal has no session")

    async def close(self) -> None:
        pass

    async def get(self, path: str, *, watch: bool = False) -> Znode | None:
        return (await self.get_many([path], watch=watch))[0]

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        znode = await self.get(path, watch=watch)
        return None if znode is None else znode.stat

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...] | None:
        (names,) = await self.children_many([path])
        if watch and names is not None:
            self._watches.children.add(path)
        return names

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Znode | None]:
        if watch:
            self._watches.data.update(paths)
        await self._read(paths)
        return [self._tree.get(path) if path in self._changed else self._real[path] for path in paths]

    async def watch_many(self, paths: Sequence[str]) -> None:
        self._watches.data.update(paths)

    async def watch_subtree(self, path: str, listener: SubtreeListener) -> bool:
        raise AssertionError("a rehearsal follows nothing")

    async def unwatch_subtree(self, path: str) -> None:
        raise AssertionError("a rehearsal follows nothing")

    async def children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        await self._place(paths)
        await self._list(paths)
        return [self._tree.children(path) for path in paths]

    async def open_to_everyone(self, paths: Sequence[str]) -> list[bool]:
        return await self._reads.open_to_everyone(paths)

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        await self._place([*(op.path for op in ops), *(parent_of(op.path) for op in ops)])
        numbered = [parent_of(op.path) for op in ops if isinstance(op, Create) and op.sequential]
        await self._list([*(op.path for op in ops if isinstance(op, Delete)), *numbered])
        results, events = self._tree.apply(ops, SessionIdentity(), now_ms=0)
        self._changed |= {event.path: None for event in events if event.kind is not WatchKind.CHILDREN}
        for event in events:
            if self._watches.fire(event):
                self._notify(event)
        return results

    async def multi_many(self, transactions: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        return [await self.multi(ops) for ops in transactions]

    async def _read(self, paths: Iterable[str]) -> None:
        """Read the real znodes that are needed and were not read before."""
        unread = [path for path in dict.fromkeys(paths) if path not in self._real and path not in self._changed]
        if unread:
            self._real |= zip(unread, await self._reads.get_many(unread), strict=True)

    async def _place(self, paths: Sequence[str]) -> None:
        """Put into the tree the real znodes that it does not have yet."""
        await self._read(paths)
        for path in paths:
            if path not in self._changed and path not in self._tree.znodes and (znode := self._real[path]) is not None:
                self._tree.place(path, znode)

    async def _list(self, paths: Sequence[str]) -> None:
        """Complete the children of znodes in the tree with the real ones that the rehearsal did not delete."""
        unlisted = [path for path in dict.fromkeys(paths) if path not in self._listed]
        if not unlisted:
            return
        self._listed.update(unlisted)
        for path, names in zip(unlisted, await self._reads.children_many(unlisted), strict=True):
            if (znode := self._tree.znodes.get(path)) is not None:
                prefix, changed, present = path.rstrip("/"), self._changed, self._tree.znodes
                children = {name: f"{prefix}/{name}" for name in names or ()}
                znode.children.update(name for name, at in children.items() if at not in changed or at in present)
                znode.creates = max(znode.creates, _next_number(znode.children))


def _next_number(names: Iterable[str]) -> int:
    """The next sequence number: one above the highest existing child. A server counts deleted children as well."""
    numbers = (name[-SEQUENCE_DIGITS:] for name in names)
    return max((int(n) + 1 for n in numbers if len(n) == SEQUENCE_DIGITS and n.isdecimal()), default=0)
