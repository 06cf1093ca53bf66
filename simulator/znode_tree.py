"""The data of a simulated ZooKeeper: znodes, versions and transactions, with the real server's results.

Pure: no time, no sessions except the owners of ephemerals, no watches. Changes are returned as the watch events that a
watcher of the path would get.

Source: ZooKeeper 3.9, PrepRequestProcessor (order of the checks, ACLs), DataTree (versions, sequence numbers).
"""

from collections.abc import Callable, Sequence

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
            transaction.remove(path, self.znodes[path])
        return transaction.changes

    def record_owner(self, path: str, owner: int) -> None:
        self._ephemerals.setdefault(owner, set()).add(path)

    def forget_owner(self, path: str, owner: int) -> None:
        self._ephemerals[owner].discard(path)


class _Transaction:
    """A transaction in progress: its changes, and their undo."""

    def __init__(self, tree: ZnodeTree, author: SessionIdentity, now_ms: int) -> None:
        self._tree, self._author, self._now_ms = tree, author, now_ms
        self._undo: list[Callable[[], None]] = []
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
        for step in reversed(self._undo):
            step()

    def _create(self, op: Create) -> OpResult:
        znodes, zxid, author = self._tree.znodes, self._tree.zxid, self._author
        access = author.access_of(op.path)
        _require(access is Access.OPEN or author.identity is not None, ZkError.INVALID_ACL)
        parent_path = _parent(op.path)
        parent = self._present(parent_path)
        _require(parent.lets_write(author.identity), ZkError.NO_AUTH)
        path = f"{op.path}{parent.creates:010d}" if op.sequential else op.path
        _require(path not in znodes, ZkError.NODE_EXISTS)
        _require(not parent.owner, ZkError.NO_CHILDREN_FOR_EPHEMERALS)
        owner = author.session_id if op.ephemeral else 0
        znode = StoredZnode(op.data, zxid, zxid, zxid, self._now_ms, self._now_ms, owner, children=set())
        znode.access, znode.creator = access, author.identity
        name, pzxid_before = path.rpartition("/")[2], parent.pzxid
        self._attach(path, znode, parent, name)
        parent.creates, parent.pzxid = parent.creates + 1, zxid

        def undo() -> None:
            self._detach(path, znode, parent, name)
            parent.creates, parent.pzxid = parent.creates - 1, pzxid_before

        self._undo.append(undo)
        self.changes += (WatchEvent(path, WatchKind.CREATED), WatchEvent(parent_path, WatchKind.CHILDREN))
        return OpResult(ZkError.OK, path, znode.stat())

    def _set_data(self, op: SetData) -> OpResult:
        znode = self._present(op.path)
        _require(znode.lets_write(self._author.identity), ZkError.NO_AUTH)
        _require(op.version in (ANY_VERSION, znode.version), ZkError.BAD_VERSION)
        before = (znode.data, znode.version, znode.mzxid, znode.mtime)

        def undo() -> None:
            znode.data, znode.version, znode.mzxid, znode.mtime = before

        self._undo.append(undo)
        znode.data, znode.version, znode.mzxid, znode.mtime = op.data, znode.version + 1, self._tree.zxid, self._now_ms
        self.changes.append(WatchEvent(op.path, WatchKind.CHANGED))
        return OpResult(ZkError.OK, stat=znode.stat())

    def _delete(self, op: Delete) -> OpResult:
        znode = self._present(op.path)
        _require(self._tree.znodes[_parent(op.path)].lets_write(self._author.identity), ZkError.NO_AUTH)
        _require(op.version in (ANY_VERSION, znode.version), ZkError.BAD_VERSION)
        _require(not znode.children, ZkError.NOT_EMPTY)
        self.remove(op.path, znode)
        return OpResult(ZkError.OK)

    def remove(self, path: str, znode: StoredZnode) -> None:
        """Delete a node that may go."""
        parent_path = _parent(path)
        parent, name = self._tree.znodes[parent_path], path.rpartition("/")[2]
        pzxid_before = parent.pzxid
        self._detach(path, znode, parent, name)
        parent.pzxid = self._tree.zxid

        def undo() -> None:
            self._attach(path, znode, parent, name)
            parent.pzxid = pzxid_before

        self._undo.append(undo)
        self.changes += (WatchEvent(path, WatchKind.DELETED), WatchEvent(parent_path, WatchKind.CHILDREN))

    def _attach(self, path: str, znode: StoredZnode, parent: StoredZnode, name: str) -> None:
        self._tree.znodes[path] = znode
        parent.children.add(name)
        if znode.owner:
            self._tree.record_owner(path, znode.owner)

    def _detach(self, path: str, znode: StoredZnode, parent: StoredZnode, name: str) -> None:
        del self._tree.znodes[path]
        parent.children.discard(name)
        if znode.owner:
            self._tree.forget_owner(path, znode.owner)

    def _present(self, path: str) -> StoredZnode:
        znode = self._tree.znodes.get(path)
        if znode is None:
            raise RefusalError(ZkError.NO_NODE)
        return znode


def _require(condition: bool, otherwise: ZkError) -> None:
    if not condition:
        raise RefusalError(otherwise)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
