"""Encodes ZooKeeper requests (in jute), which are sent through kazoo's connection, and decodes the responses.

kazoo supports neither MultiRead nor SetWatches, drops the stats of creates in transactions, and creates an object per
field; 100,000 partitions are read and written through these classes, so they encode whole batches at once. Paths are
absolute here, with the chroot.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from msgspec import Struct

from cluster.zookeeper.acl import ACCESS_LISTS, Access, AccessList, AclEntry, access_of
from cluster.zookeeper.port import Check, Create, Delete, Op, OpResult, SetData, Stat, ZkError, Znode

CREATE: Final = 1
GET_ACL: Final = 6
SET_ACL: Final = 7
EXISTS: Final = 3
GET_DATA: Final = 4
SET_DATA: Final = 5
GET_CHILDREN: Final = 8
CHECK: Final = 13
REMOVE_WATCHES: Final = 18
MULTI: Final = 14
CREATE_WITH_STAT: Final = 15
MULTI_READ: Final = 22
SET_WATCHES: Final = 101
SET_WATCHES_2: Final = 105
ADD_WATCH: Final = 106
DELETE: Final = 2
ERROR: Final = -1

NO_NODE: Final = int(ZkError.NO_NODE)
MARSHALLING_ERROR: Final = -5
"""Also what a server answers for which it failed to do something, as its WatchManagerOptimized does with `AddWatch`."""
UNIMPLEMENTED: Final = -6
SESSION_EXPIRED: Final = -112
NO_WATCHER: Final = -121

_INT: Final = struct.Struct("!i")
_LONG: Final = struct.Struct("!q")
_RESULT_HEADER: Final = struct.Struct("!iBi")
_DATA_RESULT: Final = struct.Struct("!iBii")
# czxid, mzxid, ctime, mtime, version, (cversion, aversion), ephemeral owner, (length), children, (pzxid)
_STAT: Final = struct.Struct("!qqqqi8xq4xi8x")
_STAT_SIZE: Final = _STAT.size
_ACL_VERSION_IN_STAT: Final = 40
_END_OF_RESULTS: Final = _RESULT_HEADER.pack(-1, True, -1)
_PERSISTENT_RECURSIVE: Final = 1
_ANY_KIND: Final = 3
_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2

_HEADERS: Final = {
    operation: _RESULT_HEADER.pack(operation, False, -1)
    for operation in (GET_DATA, GET_CHILDREN, CHECK, CREATE_WITH_STAT, SET_DATA, DELETE)
}


def _acl(*entries: AclEntry) -> bytes:
    """Encode an access list."""
    parts = [_INT.pack(len(entries))]
    for entry in entries:
        parts += (_INT.pack(entry.permissions), _string(entry.scheme), _string(entry.identity))
    return b"".join(parts)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT.pack(len(encoded)) + encoded


_ACLS: Final = {access: _acl(*entries) for access, entries in ACCESS_LISTS.items()}


class ErrorAnswer(Struct, frozen=True):
    """Says that the server refused the whole request with this code."""

    code: int


class LostAnswer(Struct, frozen=True):
    """Says that the connection was lost before the response. `sent`: the server may have received the request."""

    sent: bool


class Request:
    """Holds one request and its outcome.

    kazoo calls `serialize` and `deserialize`. `outcome` is the decoded response, an `ErrorAnswer`, a `LostAnswer` or an
    exception; it is written by the connection's thread and read once the exchange is complete.
    """

    type: ClassVar[int]
    # A watch of this kind is armed on `watched` once the server has responded without an error.
    __slots__ = ("answered_at", "body", "outcome", "sent_at", "watched")

    def __init__(self, body: bytes, watched: Sequence[str] = ()) -> None:
        self.body, self.watched = body, watched
        self.outcome: Any = None
        self.sent_at: float | None = None
        self.answered_at: float | None = None

    def serialize(self) -> bytes:
        return self.body

    def deserialize(self, buffer: bytes, offset: int) -> Any:
        raise NotImplementedError


class Exists(Request):
    """Reads the stat of a znode. Answer: Stat, or ErrorAnswer(NO_NODE)."""

    type = EXISTS

    def __init__(self, path: str, watch: bool) -> None:
        super().__init__(_string(path) + (b"\1" if watch else b"\0"), (path,) if watch else ())

    def deserialize(self, buffer: bytes, offset: int) -> Stat:
        return _stat(buffer, offset)


class GetData(Request):
    """Reads a znode. Answer: Node, or ErrorAnswer(NO_NODE)."""

    type = GET_DATA

    def __init__(self, path: str) -> None:
        super().__init__(_string(path) + b"\0")

    def deserialize(self, buffer: bytes, offset: int) -> Znode:
        (length,) = _INT.unpack_from(buffer, offset)
        end = offset + 4 + max(length, 0)
        return Znode(buffer[offset + 4 : end], _stat(buffer, end))


class GetAcl(Request):
    """Reads the access list of a znode. Answer: AccessList, or ErrorAnswer."""

    type = GET_ACL

    def __init__(self, path: str) -> None:
        super().__init__(_string(path))

    def deserialize(self, buffer: bytes, offset: int) -> AccessList:
        (count,) = _INT.unpack_from(buffer, offset)
        offset += 4
        entries: list[AclEntry] = []
        for _ in range(count):
            (permissions,) = _INT.unpack_from(buffer, offset)
            scheme, offset = _text(buffer, offset + 4)
            identity, offset = _text(buffer, offset)
            entries.append(AclEntry(permissions, scheme, identity))
        return AccessList(tuple(entries), _INT.unpack_from(buffer, offset + _ACL_VERSION_IN_STAT)[0])


class SetAcl(Request):
    """Replaces the access list of a znode, if it has this version. Answer: Stat, or ErrorAnswer."""

    type = SET_ACL

    def __init__(self, path: str, access: Access, version: int) -> None:
        super().__init__(_string(path) + _ACLS[access] + _INT.pack(version))

    def deserialize(self, buffer: bytes, offset: int) -> Stat:
        return _stat(buffer, offset)


class GetChildren(Request):
    """Lists the children of a znode. Answer: the sorted names, or ErrorAnswer(NO_NODE)."""

    type = GET_CHILDREN

    def __init__(self, path: str, watch: bool) -> None:
        super().__init__(_string(path) + (b"\1" if watch else b"\0"), (path,) if watch else ())

    def deserialize(self, buffer: bytes, offset: int) -> tuple[str, ...]:
        return _names(buffer, offset)[0]


class MultiRead(Request):
    """Reads the data or the children of many znodes, each with its own result (since ZooKeeper 3.6).

    Response: a list with a Znode or a tuple of names for each path, None if missing.
    """

    type = MULTI_READ

    def __init__(self, paths: Iterable[bytes], operation: int) -> None:
        header, pack = _HEADERS[operation], _INT.pack
        parts: list[bytes] = []
        for path in paths:
            parts += (header, pack(len(path)), path, b"\0")
        parts.append(_END_OF_RESULTS)
        super().__init__(b"".join(parts))

    def deserialize(self, buffer: bytes, offset: int) -> list[Znode | tuple[str, ...] | int | None]:
        """Decode the response; results other than success and a missing znode are error codes."""
        results: list[Znode | tuple[str, ...] | int | None] = []
        append, data_result, stat = results.append, _DATA_RESULT.unpack_from, _STAT.unpack_from
        while True:
            # The header is followed by the data's length, the number of children or the error code.
            operation, done, _, number = data_result(buffer, offset) if offset + 13 <= len(buffer) else (ERROR, 1, 0, 0)
            if operation == GET_DATA:
                start = offset + 13
                offset = start + number if number > 0 else start
                czxid, mzxid, ctime, mtime, version, owner, children = stat(buffer, offset)
                append(Znode(buffer[start:offset], Stat(czxid, mzxid, version, owner, ctime, mtime, children)))
                offset += _STAT_SIZE
            elif done:
                return results
            elif operation == GET_CHILDREN:
                names, offset = _names(buffer, offset + 9)
                append(names)
            else:
                assert operation == ERROR, f"unknown result type {operation} in a MultiRead"
                append(None if number == NO_NODE else number)
                offset += 13


class Multi(Request):
    """Carries out a transaction. Response: a list of OpResult; paths of created znodes include the chroot.

    `sets_acl`: created znodes get the ACL of their path, instead of an open one. Servers before 3.9 answer each create
    without its stat, although it is asked for.
    """

    type = MULTI

    def __init__(self, ops: Sequence[Op], chroot: str, *, sets_acl: bool = False) -> None:
        parts: list[bytes] = []
        for op in ops:
            parts += _encode_operation(op, chroot, sets_acl)
        parts.append(_END_OF_RESULTS)
        super().__init__(b"".join(parts))

    def deserialize(self, buffer: bytes, offset: int) -> list[OpResult]:
        results: list[OpResult] = []
        while True:
            operation, done, _ = _RESULT_HEADER.unpack_from(buffer, offset)
            offset += 9
            if done:
                return results
            path: str | None = None
            stat: Stat | None = None
            error = ZkError.OK
            if operation == ERROR:
                error = _failure(_INT.unpack_from(buffer, offset)[0])
                offset += 4
            elif operation in (CREATE, CREATE_WITH_STAT):
                path, offset = _text(buffer, offset)
            if operation in (SET_DATA, CREATE_WITH_STAT):
                stat = _stat(buffer, offset)
                offset += _STAT_SIZE
            results.append(OpResult(error, path, stat))


class SetWatches(Request):
    """Arms watches on many znodes at once; changes after `since_zxid` fire immediately.

    Data watches on missing znodes and exists watches on existing znodes fire as well. Response: None.
    """

    type = SET_WATCHES
    __slots__ = ("children", "data", "exists")

    def __init__(
        self, since_zxid: int, data: Sequence[str] = (), exists: Sequence[str] = (), children: Sequence[str] = ()
    ) -> None:
        parts = [_LONG.pack(since_zxid)]
        for paths in (data, exists, children):
            parts.append(_INT.pack(len(paths)))
            parts.extend(map(_string, paths))
        self.data, self.exists, self.children = data, exists, children
        super().__init__(b"".join(parts))

    def deserialize(self, buffer: bytes, offset: int) -> None:
        return None


class AddWatch(Request):
    """Watches a znode and all below it until it is told not to (since ZooKeeper 3.6). Response: None."""

    type = ADD_WATCH
    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(_string(path) + _INT.pack(_PERSISTENT_RECURSIVE))

    def deserialize(self, buffer: bytes, offset: int) -> None:
        return None


class RemoveWatches(Request):
    """Removes all watches of this connection on one path. Response: None, or ErrorAnswer(NO_WATCHER)."""

    type = REMOVE_WATCHES
    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(_string(path) + _INT.pack(_ANY_KIND))

    def deserialize(self, buffer: bytes, offset: int) -> None:
        return None


class SetWatches2(Request):
    """Restores the watches of `AddWatch` on a new connection; changes made meanwhile are not reported. Response: None.

    It could restore other watches as well, which go by SetWatches, as every server knows that.
    """

    type = SET_WATCHES_2

    def __init__(self, since_zxid: int, subtrees: Sequence[str]) -> None:
        # The lists before are those of SetWatches, and of persistent watches on a single znode.
        empty = _INT.pack(0) * 4
        super().__init__(b"".join((_LONG.pack(since_zxid), empty, _INT.pack(len(subtrees)), *map(_string, subtrees))))

    def deserialize(self, buffer: bytes, offset: int) -> None:
        return None


def _encode_operation(op: Op, chroot: str, sets_acl: bool) -> tuple[bytes, ...]:
    if isinstance(op, SetData):
        # Nearly all, when states of partitions are written.
        encoded, pack = (chroot + op.path).encode(), _INT.pack
        return (_HEADERS[SET_DATA], pack(len(encoded)), encoded, pack(len(op.data) or -1), op.data, pack(op.version))
    match op:
        case Check(path=path, version=version):
            return (_HEADERS[CHECK], _string(chroot + path), _INT.pack(version))
        case Create(path=path, data=data, ephemeral=ephemeral, sequential=sequential):
            flags = (_EPHEMERAL if ephemeral else 0) | (_SEQUENTIAL if sequential else 0)
            acl = _ACLS[access_of(path, sets_acl=sets_acl)]
            return (_HEADERS[CREATE_WITH_STAT], _string(chroot + path), _buffer(data), acl, _INT.pack(flags))
        case Delete(path=path, version=version):
            return (_HEADERS[DELETE], _string(chroot + path), _INT.pack(version))


def _failure(code: int) -> ZkError:
    """Name the error of an operation; the server reports 0 for those before the failed one, which were rolled back."""
    return ZkError.RUNTIME_INCONSISTENCY if code == 0 else ZkError(code)


def _buffer(data: bytes) -> bytes:
    """Encode data; empty data is sent as null, as Kafka does for znodes without content."""
    return _INT.pack(len(data)) + data if data else _INT.pack(-1)


def _text(buffer: bytes, offset: int) -> tuple[str, int]:
    (length,) = _INT.unpack_from(buffer, offset)
    end = offset + 4 + length
    return buffer[offset + 4 : end].decode(), end


def _names(buffer: bytes, offset: int) -> tuple[tuple[str, ...], int]:
    (count,) = _INT.unpack_from(buffer, offset)
    offset += 4
    names = []
    for _ in range(count):
        name, offset = _text(buffer, offset)
        names.append(name)
    names.sort()
    return tuple(names), offset


def _stat(buffer: bytes, offset: int) -> Stat:
    czxid, mzxid, ctime, mtime, version, owner, children = _STAT.unpack_from(buffer, offset)
    return Stat(czxid, mzxid, version, owner, ctime, mtime, children)
