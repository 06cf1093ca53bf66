"""The ZooKeeper port: what klamm asks of a coordination service, in batches and in plain values.

Two implementations pass one contract suite: `cluster.zookeeper.kazoo_client` on the real server and
`simulator.zookeeper` in memory.

Ordering. Watch events, session events and completions reach the event loop in the order in which the
server (or the client library) produced them: the notification of a change is delivered before any
answer that already shows the change.

Outcomes. Per-item results are values. A whole call raises `SessionExpiredError` (the session is gone
for good, and whatever was in flight may or may not have been applied) or, for writes only,
`OutcomeUnknownError` (the connection was lost after the request had left: it may or may not have been
applied; re-read to find out). A node that must not be read raises `ZooKeeperAccessError`; what must not be written is a
value, NO_AUTH. Reads are repeated by the adapter after a reconnection and do not raise
the latter. Calls made while disconnected wait for the connection.
"""

from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from typing import Final, Protocol

from msgspec import Struct

from cluster.errors import ZooKeeperAccessError, ZooKeeperError

ANY_VERSION: Final = -1

# Values that come by the hundred thousand are kept from the cyclic garbage collector (gc=False): they hold only
# plain values, so they cannot be part of a cycle, and its passes over them would stop the event loop.


class Stat(Struct, frozen=True, gc=False):
    """The part of a node's stat that klamm uses. `ephemeral_owner` is 0 for persistent nodes; times in ms."""

    czxid: int
    mzxid: int
    version: int
    ephemeral_owner: int
    ctime: int = 0
    mtime: int = 0
    num_children: int = 0


class Znode(Struct, frozen=True, gc=False):
    """Data and stat of one node. Null data reads as b''."""

    data: bytes
    stat: Stat


class WatchKind(Enum):
    """CHANGED: the data of the node. CHILDREN: one of them came or went, whatever became of their data."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class WatchEvent(Struct, frozen=True, gc=False):
    """Something happened to `path`; what is there now must be read. The watch that fired is spent."""

    path: str
    kind: WatchKind


class SessionState(Enum):
    CONNECTED = "connected"
    """The session is usable; comes again after every DISCONNECTED that healed within the session."""
    DISCONNECTED = "disconnected"
    EXPIRED = "expired"
    """This session is gone with its ephemerals and watches. `start_session` makes a new one."""
    AUTH_FAILED = "auth_failed"
    """The credentials were refused, at first or on a reconnection: this session is over as if it had expired."""


class SessionEvent(Struct, frozen=True):
    """The session, or the connection that carries it, is now in this state."""

    state: SessionState
    session_id: int


Listener = Callable[[WatchEvent | SessionEvent], None]
"""Called on the event loop, in order. It must only enqueue: no awaiting, no work."""


class Check(Struct, frozen=True, gc=False):
    """Fails the transaction unless the node has exactly this data version."""

    path: str
    version: int


class Create(Struct, frozen=True, gc=False):
    """`ephemeral`: the node goes with the session. `sequential`: the server appends ten digits, which count up."""

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
    """This operation of a failed transaction was not reached or was rolled back."""
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    INVALID_ACL = -114


class OpResult(Struct, frozen=True, gc=False):
    """What became of one operation.

    `stat` comes with successful SetData, and with successful Create where `stat` was asked for through a
    transaction; `path` is the name a sequential Create really got.
    """

    error: ZkError
    path: str | None = None
    stat: Stat | None = None

    @property
    def ok(self) -> bool:
        return self.error is ZkError.OK


def refusal(what: str, error: ZkError) -> ZooKeeperError:
    """The error to raise for a result that nobody expects; `what` could not be done, in words."""
    match error:
        case ZkError.NO_AUTH:
            return ZooKeeperAccessError(f"{what}: NO_AUTH: the node's access list does not allow it to this process")
        case ZkError.INVALID_ACL:
            return ZooKeeperAccessError(f"{what}: INVALID_ACL: the session has no identity that could own the node")
    return ZooKeeperError(f"{what}: {error.name}")


class ZooKeeper(Protocol):
    """One client with one session at a time. All methods are called on the event loop."""

    @property
    def session_id(self) -> int:
        """Id of the present session, as found in `ephemeral_owner`; 0 before the first connection."""
        ...

    def listen(self, listener: Listener) -> None:
        """Set the one listener. Must be called before `start_session`."""
        ...

    async def start_session(self) -> None:
        """Connect and open a session; the first call and, after EXPIRED, each new one.

        Creates a missing chroot. Raises ZooKeeperUnreachableError when no connection came about within
        the connection timeout, ZooKeeperAuthenticationError when the credentials were refused.
        """
        ...

    async def close(self) -> None:
        """End the session, which deletes its ephemerals at once. Never raises; safe to call twice."""
        ...

    async def get(self, path: str, *, watch: bool = False) -> Znode | None:
        """Data and stat, or None if absent. With `watch`, a data watch is left, on an absent node too."""
        ...

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """Stat, or None if absent. With `watch`, a data watch is left, on an absent node too."""
        ...

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...] | None:
        """Names of the children, sorted, or None if the node is absent (then no watch is left)."""
        ...

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Znode | None]:
        """Read many nodes in few round trips (MultiRead); results in the order of `paths`.

        With `watch`, a data watch is left on each of them, armed before the data is read.
        """
        ...

    async def children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        """List many nodes in few round trips; results in the order of `paths`, None where absent."""
        ...

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """One transaction: all operations or none. One result per operation, in order.

        When an operation fails, its result has its error and all others RUNTIME_INCONSISTENCY (those
        before the failing one too). Raises OutcomeUnknownError or SessionExpiredError.
        """
        ...

    async def multi_many(self, transactions: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        """Several transactions, pipelined in order with a bound on those in flight.

        Each item is the result of `multi` or the OutcomeUnknownError / SessionExpiredError of that one.
        """
        ...
