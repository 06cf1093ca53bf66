"""ZooKeeper for a rehearsal: an in-memory overlay of its writes on reads of the real content.

Transactions are checked as a server does. Only reads reach the real ZooKeeper. Source: ZooKeeper 3.9,
PrepRequestProcessor (order of the checks), WatchManager (which watches a change triggers).
"""

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from cluster.zookeeper.port import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Listener,
    Op,
    OpResult,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
    ZkError,
    Znode,
)
from controller.ports import ZooKeeperReads

_SEQUENCE_DIGITS: Final = 10
Listed = Mapping[str, tuple[str, ...] | None]
"""Path -> names of the children of the real znode."""


class _RefusedError(Exception):
    def __init__(self, error: ZkError) -> None:
        self.error = error


class Written(Struct, frozen=True):
    """A znode that the rehearsal changed, before and after; None where it does not exist."""

    path: str
    before: Znode | None
    after: Znode | None


class RehearsalZooKeeper:
    """Implements the ZooKeeper port over `reads`. `notify` gets the watch events of one session.

    Watches are armed by reads, and from the start on the data of `data_watches` and the children of `child_watches`. In
    the stats of written znodes only the version is that of a server. No znode is ephemeral or has an ACL.
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
        self._data_watches, self._child_watches = set(data_watches), set(child_watches)
        self._real: dict[str, Znode | None] = {}
        self._now: dict[str, Znode | None] = {}
        self._below: dict[str, dict[str, None]] = {}
        """Parent -> names of all children that operations created or deleted, including refused operations."""
        self._sequences: dict[str, int] = {}
        """Parent -> sequence number of its next sequential child."""

    @property
    def session_id(self) -> int:
        return 0

    @property
    def last_zxid(self) -> int:
        return 0

    def written(self) -> list[Written]:
        """All changed znodes, in the order of their first change."""
        return [Written(path, self._real.get(path), node) for path, node in self._now.items()]

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
            self._child_watches.add(path)
        return names

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Znode | None]:
        if watch:
            self._data_watches.update(paths)
        await self._read(paths)
        return [self._node(path) for path in paths]

    async def children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        await self._read(paths)
        listed = await self._list(paths)
        return [
            None if self._node(path) is None else tuple(sorted(_names_below(path, listed, self._now, self._below)))
            for path in paths
        ]

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        numbered = [_parent(op.path) for op in ops if isinstance(op, Create) and op.sequential]
        await self._read([*(op.path for op in ops), *(_parent(op.path) for op in ops)])
        listed = await self._list([*(op.path for op in ops if isinstance(op, Delete)), *numbered])
        for parent in dict.fromkeys(numbered):
            if parent not in self._sequences:
                self._sequences[parent] = _next_number(_names_below(parent, listed, self._now, self._below))
        transaction = _Transaction(ChainMap(self._now, self._real), listed, self._below, self._sequences)
        results: list[OpResult] = []
        for op in ops:
            try:
                results.append(transaction.carry_out(op))
            except _RefusedError as refused:
                undone = [OpResult(ZkError.RUNTIME_INCONSISTENCY) for _ in ops]
                undone[len(results)] = OpResult(refused.error)
                return undone
        self._now.update(transaction.changed)
        self._sequences.update(transaction.numbered)
        for event in transaction.events:
            self._fire(event)
        return results

    async def multi_many(self, transactions: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        return [await self.multi(ops) for ops in transactions]

    async def _read(self, paths: Iterable[str]) -> None:
        unread = [path for path in dict.fromkeys(paths) if path not in self._real]
        if unread:
            self._real |= zip(unread, await self._reads.get_many(unread), strict=True)

    async def _list(self, paths: Sequence[str]) -> Listed:
        return dict(zip(paths, await self._reads.children_many(paths), strict=True)) if paths else {}

    def _node(self, path: str) -> Znode | None:
        return self._now[path] if path in self._now else self._real[path]

    def _fire(self, event: WatchEvent) -> None:
        """Deliver the event if a watch is armed for it, and remove the watch. A deletion triggers both kinds."""
        path, kind = event.path, event.kind
        watched = path in (self._child_watches if kind is WatchKind.CHILDREN else self._data_watches)
        watched = watched or (kind is WatchKind.DELETED and path in self._child_watches)
        if kind is not WatchKind.CHILDREN:
            self._data_watches.discard(path)
        if kind in {WatchKind.CHILDREN, WatchKind.DELETED}:
            self._child_watches.discard(path)
        if watched:
            self._notify(event)


class _Transaction:
    """A transaction in progress: the changes it would make. `nodes`: the state before, of all paths concerned."""

    def __init__(
        self,
        znodes: ChainMap[str, Znode | None],
        listed: Listed,
        below: dict[str, dict[str, None]],
        sequences: Mapping[str, int],
    ) -> None:
        self._nodes = znodes.new_child()
        self._written = ChainMap(self._nodes.maps[0], znodes.maps[0])
        self._listed, self._below = listed, below
        self._sequences = ChainMap({}, dict(sequences))
        self.events: list[WatchEvent] = []

    @property
    def changed(self) -> MutableMapping[str, Znode | None]:
        return self._nodes.maps[0]

    @property
    def numbered(self) -> MutableMapping[str, int]:
        return self._sequences.maps[0]

    def carry_out(self, op: Op) -> OpResult:
        match op:
            case Create():
                return self._create(op)
            case SetData(path, data, version):
                znode = self._present(path, version)
                stat = replace(znode.stat, version=znode.stat.version + 1)
                self._nodes[path] = Znode(data, stat)
                self.events.append(WatchEvent(path, WatchKind.CHANGED))
                return OpResult(ZkError.OK, stat=stat)
            case Delete(path, version):
                self._present(path, version)
                if _names_below(path, self._listed, self._written, self._below):
                    raise _RefusedError(ZkError.NOT_EMPTY)
                self._put(path, None, WatchKind.DELETED)
            case Check(path, version):
                self._present(path, version)
        return OpResult(ZkError.OK)

    def _create(self, op: Create) -> OpResult:
        path, parent = op.path, _parent(op.path)
        self._present(parent, ANY_VERSION)
        if op.sequential:
            number = self._sequences[parent]
            self._sequences[parent] = number + 1
            path = f"{path}{number:0{_SEQUENCE_DIGITS}d}"
        elif self._nodes[path] is not None:
            raise _RefusedError(ZkError.NODE_EXISTS)
        self._put(path, Znode(op.data, Stat(czxid=0, mzxid=0, version=0, ephemeral_owner=0)), WatchKind.CREATED)
        return OpResult(ZkError.OK, path=path)

    def _put(self, path: str, znode: Znode | None, kind: WatchKind) -> None:
        parent, _, name = path.rpartition("/")
        self._nodes[path] = znode
        self._below.setdefault(parent or "/", {})[name] = None
        self.events += (WatchEvent(path, kind), WatchEvent(parent or "/", WatchKind.CHILDREN))

    def _present(self, path: str, version: int) -> Znode:
        znode = self._nodes[path]
        if znode is None:
            raise _RefusedError(ZkError.NO_NODE)
        if version not in {ANY_VERSION, znode.stat.version}:
            raise _RefusedError(ZkError.BAD_VERSION)
        return znode


def _names_below(
    path: str, listed: Listed, written: Mapping[str, Znode | None], below: Mapping[str, Iterable[str]]
) -> set[str]:
    """The children of a znode: the real and the created ones, without the deleted ones."""
    prefix, real = path.rstrip("/"), set(listed.get(path) or ())
    found: set[str] = set()
    for name in real.union(below.get(path, ())):
        child = f"{prefix}/{name}"
        if written[child] is not None if child in written else name in real:
            found.add(name)
    return found


def _next_number(names: Iterable[str]) -> int:
    """The next sequence number: one above the highest existing child. A server counts deleted children as well."""
    numbers = (name[-_SEQUENCE_DIGITS:] for name in names)
    return max((int(n) + 1 for n in numbers if len(n) == _SEQUENCE_DIGITS and n.isdecimal()), default=0)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
