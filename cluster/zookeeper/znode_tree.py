"""ZooKeeper's data in memory: znodes, versions, transactions and watches, with the real server's results.

The simulator's server and the rehearsals of the controller use it. Pure: it knows no time, and of a session only the
owner of ephemerals and the watches. Changes are returned as the watch events that a watcher of the path would get.

Source: ZooKeeper 3.9, PrepRequestProcessor (order of the checks, ACLs), DataTree (versions, sequence numbers),
WatchManager (which watches a change triggers).
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from cluster.zookeeper.acl import Access, access_of
from cluster.zookeeper.port import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Op,
    OpResult,
    SetData,
    Stat,
    WatchEvent,
    WatchKind,
    ZkError,
    Znode,
)

SEQUENCE_DIGITS: Final = 10


class SessionIdentity(Struct, frozen=True):
    """The session and identity of an operation. `identity` None: anonymous."""

    session_id: int = 0
    identity: str | None = None
    sets_acl: bool = False
    chroot: str = ""

    def access_of(self, path: str) -> Access:
        return access_of(path.removeprefix(self.chroot), sets_acl=self.sets_acl)


class StoredZnode(Struct):
    """One znode. `creates` counts the children ever created, for sequence numbers."""

    data: bytes
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    owner: int
    version: int = 0
    creates: int = 0
    children: set[str] = set()
    access: Access = Access.OPEN
    creator: str | None = None

    def stat(self) -> Stat:
        return Stat(
            self.czxid, self.mzxid, self.version, self.owner, self.ctime, self.mtime, num_children=len(self.children)
        )

    def lets_write(self, identity: str | None) -> bool:
        """Whether the identity may write, which includes creating and deleting children."""
        return self.access is Access.OPEN or (identity is not None and identity == self.creator)

    def lets_read(self, identity: str | None) -> bool:
        return self.access is Access.CREATOR_AND_READERS or self.lets_write(identity)


class SessionWatches:
    """The watches of one session: on the paths of `data` (which may be missing), of `children`, and on `subtrees`."""

    def __init__(self, data: Iterable[str] = (), children: Iterable[str] = ()) -> None:
        self.data, self.children = set(data), set(children)
        self.subtrees: set[str] = set()

    def fire(self, change: WatchEvent) -> bool:
        """Whether a watch is armed for this change; it no longer is afterwards. A deletion triggers both kinds."""
        path, kind = change.path, change.kind
        armed = path in self.children and kind in (WatchKind.CHILDREN, WatchKind.DELETED)
        if kind is not WatchKind.CHILDREN:
            armed = armed or path in self.data
            self.data.discard(path)
        if kind in (WatchKind.CHILDREN, WatchKind.DELETED):
            self.children.discard(path)
        return armed

    def is_of_subtree(self, change: WatchEvent) -> bool:
        """Whether the watch of a subtree reports this change."""
        is_below = any(is_at_or_below(change.path, root) for root in self.subtrees)
        return is_below and change.kind is not WatchKind.CHILDREN

    def clear(self) -> None:
        self.data.clear()
        self.children.clear()
        self.subtrees.clear()


class RefusalError(Exception):
    """An operation of a transaction failed; the transaction is rolled back."""

    def __init__(self, error: ZkError) -> None:
        super().__init__(error.name)
        self.error = error


class ZnodeTree:
    """All znodes by absolute path, and the transaction counter."""

    def __init__(self) -> None:
        self.zxid = 0
        self.znodes: dict[str, StoredZnode] = {"/": StoredZnode(b"", 0, 0, 0, 0, 0, 0)}
        self._ephemerals: dict[int, set[str]] = {}

    def copy(self) -> "ZnodeTree":
        """The data as it is now, with its sessions' ephemerals."""
        copied = ZnodeTree()
        copied.zxid = self.zxid
        copied.znodes = {path: replace(znode, children=set(znode.children)) for path, znode in self.znodes.items()}
        copied._ephemerals = {session: set(paths) for session, paths in self._ephemerals.items()}
        return copied

    def place(self, path: str, znode: Znode) -> None:
        """Put in a znode of another tree as it was read there: without its children, and open to everyone."""
        data, stat = znode.data, znode.stat
        owner, times = stat.ephemeral_owner, (stat.ctime, stat.mtime)
        self.put(path, StoredZnode(data, stat.czxid, stat.mzxid, stat.mzxid, *times, owner, stat.version), None)

    def sessions(self) -> tuple[int, ...]:
        """The sessions that own ephemerals."""
        return tuple(self._ephemerals)

    def get(self, path: str) -> Znode | None:
        znode = self.znodes.get(path)
        return None if znode is None else Znode(znode.data, znode.stat())

    def exists(self, path: str) -> Stat | None:
        znode = self.znodes.get(path)
        return None if znode is None else znode.stat()

    def children(self, path: str) -> tuple[str, ...] | None:
        znode = self.znodes.get(path)
        return None if znode is None else tuple(sorted(znode.children))

    def apply(self, ops: Sequence[Op], author: SessionIdentity, now_ms: int) -> tuple[list[OpResult], list[WatchEvent]]:
        """Apply all operations, or none; uses one zxid in either case."""
        self.zxid += 1
        transaction = _Transaction(self, author, now_ms)
        results: list[OpResult] = []
        for op in ops:
            try:
                results.append(transaction.carry_out(op))
            except RefusalError as refusal:
                transaction.undo()
                undone = [OpResult(ZkError.RUNTIME_INCONSISTENCY) for _ in ops]
                undone[len(results)] = OpResult(refusal.error)
                return undone, []
        return results, transaction.changes

    def end_session(self, session_id: int) -> list[WatchEvent]:
        """Delete the ephemerals of the session, in one transaction."""
        self.zxid += 1
        transaction = _Transaction(self, SessionIdentity(), now_ms=0)
        for path in sorted(self._ephemerals.get(session_id, ())):
            transaction.remove(path)
        return transaction.changes

    def put(self, path: str, znode: StoredZnode | None, parent: StoredZnode | None) -> None:
        """Set or, with None, remove the znode at `path`; `parent` is None for the root and to leave its children."""
        gone = self.znodes.get(path)
        if gone is not None and gone.owner:
            self._ephemerals[gone.owner].discard(path)
        if znode is None:
            del self.znodes[path]
        else:
            self.znodes[path] = znode
            if znode.owner:
                self._ephemerals.setdefault(znode.owner, set()).add(path)
        if parent is not None:
            name = path.rpartition("/")[2]
            parent.children.discard(name) if znode is None else parent.children.add(name)


class _Transaction:
    """A transaction in progress: its changes, and their undo."""

    def __init__(self, tree: ZnodeTree, author: SessionIdentity, now_ms: int) -> None:
        self._tree, self._author, self._now_ms = tree, author, now_ms
        self._undo: list[tuple[str, StoredZnode | None, StoredZnode | None, int, int]] = []
        """Of each step the path, its znode before, and the parent with its `creates` and `pzxid` before."""
        self.changes: list[WatchEvent] = []

    def carry_out(self, op: Op) -> OpResult:
        match op:
            case Create():
                return self._create(op)
            case SetData():
                return self._set_data(op)
            case Delete():
                return self._delete(op)
            case Check():
                checked = self._present(op.path)
                _require(checked.lets_read(self._author.identity), ZkError.NO_AUTH)
                _require(op.version in (ANY_VERSION, checked.version), ZkError.BAD_VERSION)
                return OpResult(ZkError.OK)

    def undo(self) -> None:
        for path, before, parent, creates, pzxid in reversed(self._undo):
            self._tree.put(path, before, parent)
            if parent is not None:
                parent.creates, parent.pzxid = creates, pzxid

    def _create(self, op: Create) -> OpResult:
        znodes, zxid, author = self._tree.znodes, self._tree.zxid, self._author
        access = author.access_of(op.path)
        _require(access is Access.OPEN or author.identity is not None, ZkError.INVALID_ACL)
        parent = self._present(parent_of(op.path))
        _require(parent.lets_write(author.identity), ZkError.NO_AUTH)
        path = f"{op.path}{parent.creates:0{SEQUENCE_DIGITS}d}" if op.sequential else op.path
        _require(path not in znodes, ZkError.NODE_EXISTS)
        _require(not parent.owner, ZkError.NO_CHILDREN_FOR_EPHEMERALS)
        owner = author.session_id if op.ephemeral else 0
        znode = StoredZnode(op.data, zxid, zxid, zxid, self._now_ms, self._now_ms, owner)
        znode.access, znode.creator = access, author.identity
        self._put(path, znode, parent, WatchKind.CREATED)
        parent.creates += 1
        return OpResult(ZkError.OK, path, znode.stat())

    def _set_data(self, op: SetData) -> OpResult:
        znode = self._present(op.path)
        _require(znode.lets_write(self._author.identity), ZkError.NO_AUTH)
        _require(op.version in (ANY_VERSION, znode.version), ZkError.BAD_VERSION)
        zxid, version = self._tree.zxid, znode.version + 1
        after = replace(znode, data=op.data, version=version, mzxid=zxid, mtime=self._now_ms)
        self._undo.append((op.path, znode, None, 0, 0))
        self._tree.put(op.path, after, None)
        self.changes.append(WatchEvent(op.path, WatchKind.CHANGED))
        return OpResult(ZkError.OK, stat=after.stat())

    def _delete(self, op: Delete) -> OpResult:
        znode = self._present(op.path)
        _require(self._present(parent_of(op.path)).lets_write(self._author.identity), ZkError.NO_AUTH)
        _require(op.version in (ANY_VERSION, znode.version), ZkError.BAD_VERSION)
        _require(not znode.children, ZkError.NOT_EMPTY)
        self.remove(op.path)
        return OpResult(ZkError.OK)

    def remove(self, path: str) -> None:
        """Delete a znode that may go."""
        self._put(path, None, self._tree.znodes[parent_of(path)], WatchKind.DELETED)

    def _put(self, path: str, znode: StoredZnode | None, parent: StoredZnode, kind: WatchKind) -> None:
        before = self._tree.znodes.get(path)
        self._undo.append((path, before, parent, parent.creates, parent.pzxid))
        self._tree.put(path, znode, parent)
        parent.pzxid = self._tree.zxid
        self.changes += (WatchEvent(path, kind), WatchEvent(parent_of(path), WatchKind.CHILDREN))

    def _present(self, path: str) -> StoredZnode:
        znode = self._tree.znodes.get(path)
        if znode is None:
            raise RefusalError(ZkError.NO_NODE)
        return znode


def _require(condition: bool, otherwise: ZkError) -> None:
    if not condition:
        raise RefusalError(otherwise)


def is_at_or_below(path: str, root: str) -> bool:
    """Whether a path is that of the root or of a znode below it."""
    return path == root or path.startswith(f"{root.rstrip('/')}/")


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"
