"""The ZooKeeper port: batched operations on plain values.

Two implementations pass one contract suite: `cluster.zookeeper.kazoo_client` on the real server and
`simulator.zookeeper` in memory.

Ordering. Watch events, session events and completions reach the event loop in the order in which the server (or the
client library) produced them: the notification of a change is delivered before any response that already shows the
change.

Outcomes. Per-item results are values. A whole call raises `SessionExpiredError` (the session is over, and requests in
flight may or may not have been applied) or, for writes only, `OutcomeUnknownError` (the connection was lost after the
request was sent: it may or may not have been applied; read again to find out). A read that the ACL denies raises
`ZooKeeperAccessError`; a denied write is a value, NO_AUTH. Reads are repeated by the adapter after a reconnection and
do not raise OutcomeUnknownError. Calls made while disconnected wait for the connection.
"""

from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from typing import Final, Protocol

from msgspec import Struct

from cluster.model.errors import ZooKeeperAccessError, ZooKeeperError

ANY_VERSION: Final = -1

# Values that occur by the hundred thousand are not tracked by the cyclic garbage collector (gc=False): they hold only
# plain values, so they cannot be part of a cycle, and its passes over them would block the event loop.


class Stat(Struct, frozen=True, gc=False):
    """The part of a znode's stat that klamm uses. `ephemeral_owner` is 0 for persistent znodes; times in ms."""

    czxid: int
    mzxid: int
    version: int
    ephemeral_owner: int
    ctime: int = 0
    mtime: int = 0
    num_children: int = 0


class Znode(Struct, frozen=True, gc=False):
    """Data and stat of one znode. Null data is read as b''."""

    data: bytes
    stat: Stat


class WatchKind(Enum):
    """CHANGED: the znode's data. CHILDREN: a child was created or deleted; changes of their data are not reported."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class WatchEvent(Struct, frozen=True, gc=False):
    """`path` has changed; its current state must be read. The watch that fired is no longer armed."""

    path: str
    kind: WatchKind


class SessionState(Enum):
    CONNECTED = "connected"
    """The session is usable; also after every DISCONNECTED that ended in a reconnection within the session."""
    DISCONNECTED = "disconnected"
    EXPIRED = "expired"
    """The session is over, with its ephemerals and watches. `start_session` opens a new one."""
    AUTH_FAILED = "auth_failed"
    """The credentials were refused, at first or on a reconnection: the session is over, as if it had expired."""


class SessionEvent(Struct, frozen=True):
    """The session, or its connection, changed to this state."""

    state: SessionState
    session_id: int


Listener = Callable[[WatchEvent | SessionEvent], None]
"""Called on the event loop, in order. It must only enqueue."""

SubtreeListener = Callable[[WatchEvent], None]
"""Called like a Listener for each znode that was created, deleted or changed below a watched path, never with CHILDREN.
"""


class Check(Struct, frozen=True, gc=False):
    """Fails the transaction unless the znode has exactly this data version."""

    path: str
    version: int


class Create(Struct, frozen=True, gc=False):
    """`ephemeral`: deleted with the session. `sequential`: the server appends a ten-digit sequence number."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class SetData(Struct, frozen=True, gc=False):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(Struct, frozen=True, gc=False):
    path: str
    version: int = ANY_VERSION


Op = Check | Create | SetData | Delete


class ZkError(IntEnum):
    """Per-operation result codes, in ZooKeeper's own numbers."""

    OK = 0
    RUNTIME_INCONSISTENCY = -2
    """This operation of a failed transaction was not executed or was rolled back."""
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    INVALID_ACL = -114


class OpResult(Struct, frozen=True, gc=False):
    """The result of one operation.

    `stat`: of successful SetData, and of successful Create from ZooKeeper 3.9 on: do not rely on it. `path`: the actual
    name of a sequential Create.
    """

    error: ZkError
    path: str | None = None
    stat: Stat | None = None

    @property
    def ok(self) -> bool:
        """Whether the operation was applied."""
        return self.error is ZkError.OK


def refusal(what: str, error: ZkError) -> ZooKeeperError:
    """The error to raise for an unexpected result; `what`: the message about the failed operation."""
    match error:
        case ZkError.NO_AUTH:
            return ZooKeeperAccessError(f"{what}: NO_AUTH: the node's access list does not allow it to this process")
        case ZkError.INVALID_ACL:
            return ZooKeeperAccessError(f"{what}: INVALID_ACL: the session has no identity that could own the node")
    return ZooKeeperError(f"{what}: {error.name}")


class ZooKeeper(Protocol):
    """A client with one session at a time. All methods are called on the event loop."""

    @property
    def session_id(self) -> int:
        """Id of the current session, as found in `ephemeral_owner`; 0 before the first connection."""

    @property
    def last_zxid(self) -> int:
        """The highest zxid seen, over all sessions. A later write has a higher one, unless ZooKeeper was restored from
        a backup.
        """

    def listen(self, listener: Listener) -> None:
        """Set the listener. Must be called before `start_session`."""

    async def start_session(self) -> None:
        """Connect and open a session; called first, and again after EXPIRED.

        Creates a missing chroot. Raises ZooKeeperUnreachableError without a connection within the connection timeout,
        ZooKeeperAuthenticationError if the credentials were refused.
        """

    async def close(self) -> None:
        """Close the session, which deletes its ephemerals at once. Never raises; safe to call twice."""

    async def get(self, path: str, *, watch: bool = False) -> Znode | None:
        """Data and stat, None if missing. `watch` arms a data watch, also on a missing znode."""

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """Stat, None if missing. `watch` arms a data watch, also on a missing znode."""

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...] | None:
        """Names of the children, sorted; None if the znode is missing (then no watch is armed)."""

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Znode | None]:
        """Read many znodes in few round trips (MultiRead); results in the order of `paths`.

        `watch` arms a data watch on each of them, before the data is read.
        """

    async def watch_many(self, paths: Sequence[str]) -> None:
        """Arm a data watch on each of these znodes without reading them; one that is missing gets none.

        A change before the response may or may not be reported, and to a listener of the subtree also a missing znode
        as deleted.
        """

    async def watch_subtree(self, path: str, listener: SubtreeListener) -> bool:
        """Report every later change of this znode and of those below it, until `unwatch_subtree` or the session ends.

        Returns False if the server has no such watches (ZooKeeper before 3.6, or with WatchManagerOptimized). Changes
        before the response, and changes while there is no connection, are not reported: read after it. The watch is
        restored with the connection, unless the next server has none: so ask again, and read again, after each
        CONNECTED. Other watches fire as without it. Do not arm another watch on `path` itself: servers before 3.9 keep
        one of the two.
        """

    async def unwatch_subtree(self, path: str) -> None:
        """Report changes below this path no longer; does nothing if it is not watched."""

    async def children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        """List the children of many znodes in few round trips; results in the order of `paths`, None if missing."""

    async def open_to_everyone(self, paths: Sequence[str]) -> list[bool]:
        """Whether everyone may change each znode, in the order of the paths; False for one that is missing, or whose
        ACL this client must not read.
        """

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Carry out one transaction: all operations or none. The result has one item for each operation, in order.

        If an operation fails, its result has its error and all others RUNTIME_INCONSISTENCY, including earlier ones.
        Raises OutcomeUnknownError or SessionExpiredError.
        """

    async def multi_many(self, transactions: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        """Several transactions, pipelined in order with a bound on those in flight.

        Each item is the result of `multi` or the OutcomeUnknownError / SessionExpiredError of that one.
        """
