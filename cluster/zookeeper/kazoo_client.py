"""Implements the ZooKeeper port on a real server: asyncio on top of kazoo's session.

Everything a session delivers goes through one queue and is passed to the event loop in order, one call per burst. A
batch of requests is one exchange: it wakes the loop once, after its last response. Source: Kafka ZooKeeperClient.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from cluster.model.errors import (
    OutcomeUnknownError,
    SessionExpiredError,
    ZooKeeperAuthenticationError,
    ZooKeeperError,
    ZooKeeperUnreachableError,
)
from cluster.tls.live import LiveMaterial
from cluster.zookeeper.acl import is_open
from cluster.zookeeper.armed_watches import chunks_by_size
from cluster.zookeeper.chroot import Chroot
from cluster.zookeeper.kazoo_connection import SubtreeEvent
from cluster.zookeeper.kazoo_requests import (
    GET_CHILDREN,
    GET_DATA,
    MARSHALLING_ERROR,
    NO_NODE,
    NO_WATCHER,
    SESSION_EXPIRED,
    UNIMPLEMENTED,
    AddWatch,
    ErrorAnswer,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    LostAnswer,
    Multi,
    MultiRead,
    RemoveWatches,
    Request,
    SetWatches,
)
from cluster.zookeeper.kazoo_session import Delivery, Exchange, Session
from cluster.zookeeper.kazoo_tls import TlsSockets
from cluster.zookeeper.login import Credentials, Scheme
from cluster.zookeeper.port import (
    Create,
    Listener,
    Op,
    OpResult,
    SessionEvent,
    SessionState,
    Stat,
    SubtreeListener,
    WatchEvent,
    ZkError,
    Znode,
    refusal,
)
from cluster.zookeeper.session_metrics import ClientMetrics, SessionMetrics
from cluster.zookeeper.tls_probe import refuse_tls
from cluster.zookeeper.znode_tree import is_at_or_below

READS_PER_REQUEST: Final = 1000
CLOSE_TIMEOUT_SECONDS: Final = 2.0
_OTHER_SERVERS_S: Final = 1.0
"""How long other servers have to begin a session, after one has refused TLS."""
_CAUSE_POLL_S: Final = 0.2
# Later than any change: SetWatches then arms watches without reporting changes before the read that follows.
_NO_HISTORY: Final = 2**63 - 1

T = TypeVar("T")


class KazooZooKeeper:
    """Implements `cluster.zookeeper.port.ZooKeeper` on a real server. Created and used on one event loop.

    `connect`: "host:port,host:port/chroot". `max_in_flight`: limit of requests without a response, over all callers;
    further ones wait in order. `credentials` None: anonymous sessions. `sets_acl`: set the ACLs of
    `cluster.zookeeper.acl` instead of open ones. `creates_chroot`: whether a chroot that is missing is created. `tls`:
    what is shown to servers and trusted; None: they are spoken to without TLS.
    """

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        max_in_flight: int = 10,
        metrics: ClientMetrics | None = None,
        credentials: Credentials | None = None,
        sets_acl: bool = False,
        creates_chroot: bool = True,
        tls: LiveMaterial | None = None,
    ) -> None:
        self._hosts, _, chroot = connect.partition("/")
        self._chroot, self._creates_chroot = Chroot(chroot), creates_chroot
        self._session_timeout_ms, self._connection_timeout_ms = session_timeout_ms, connection_timeout_ms
        self._max_in_flight = max_in_flight
        self._credentials, self._sets_acl = credentials, sets_acl
        self._tls = None if tls is None else TlsSockets(tls)
        uses_sasl = credentials is not None and credentials.scheme is Scheme.SASL
        self._metrics = None if metrics is None else SessionMetrics(metrics, uses_sasl=uses_sasl)
        self._listener: Listener | None = None
        self._session: Session | None = None
        self._is_over = True
        self._session_id = 0
        self._zxid_before = 0
        """The highest zxid seen in earlier sessions."""
        self._connected: asyncio.Future[None] | None = None
        self._heartbeat: asyncio.TimerHandle | None = None
        self._waiting: dict[Exchange, asyncio.Future[None]] = {}
        self._subtrees: dict[str, SubtreeListener] = {}
        """Who is told of changes below each path, which is one with the chroot."""
        self._inbox: deque[tuple[Session, Delivery]] = deque()
        self._is_drain_due = False
        self._server_knows_multi_read = True

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def last_zxid(self) -> int:
        return self._zxid_before if self._session is None else max(self._zxid_before, self._session.highest_zxid)

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    async def start_session(self) -> None:
        assert self._listener is not None, "listen before starting a session"
        assert self._is_over, "the present session has not ended"
        self._loop = asyncio.get_running_loop()
        await self._dismiss()
        self._session = Session(
            self._hosts,
            self._session_timeout_ms,
            self._max_in_flight,
            self._on_delivery,
            credentials=self._credentials,
            tls=self._tls,
        )
        self._is_over = False
        self._connected = self._loop.create_future()
        self._beat(self._session)
        self._session.open()
        watching = refuse_tls(self._hosts, self._connected) if self._tls is None else self._fail_on_tls(self._connected)
        probe = asyncio.create_task(watching)
        try:
            async with asyncio.timeout(self._connection_timeout_ms / 1000):
                await self._connected
                await self._create_chroot()
        except TimeoutError:
            await self.close()
            why = f": {self._tls.failure}" if self._tls is not None and self._tls.failure else ""
            raise ZooKeeperUnreachableError(
                f"no connection to ZooKeeper at {self._hosts} within {self._connection_timeout_ms} ms{why}"
            ) from None
        except ZooKeeperError:
            await self.close()
            raise
        finally:
            probe.cancel()

    async def _fail_on_tls(self, connected: asyncio.Future[None]) -> None:
        """Fail `connected` with the cause if no session begins within a moment and TLS is what is wrong: it would stay
        so.
        """
        assert self._tls is not None, "asked only with TLS"
        await asyncio.sleep(_OTHER_SERVERS_S)
        while not connected.done():
            if self._tls.failure:
                connected.set_exception(ZooKeeperUnreachableError(self._tls.failure))
                return
            await asyncio.sleep(_CAUSE_POLL_S)

    async def close(self) -> None:
        self._is_over = True
        self._fail_waiting()
        await self._dismiss()

    async def get(self, path: str, *, watch: bool = False) -> Znode | None:
        read = GetData(self._chroot.absolute(path))
        # An exists request arms the watch whether the znode exists or not; both requests are sent together.
        requests = [Exists(self._chroot.absolute(path), watch=True), read] if watch else [read]
        await self._exchange(requests)
        znode: Znode | None = answer_of(read, path)
        return znode

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        request = Exists(self._chroot.absolute(path), watch)
        await self._exchange([request])
        stat: Stat | None = answer_of(request, path)
        return stat

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...] | None:
        request = GetChildren(self._chroot.absolute(path), watch)
        await self._exchange([request])
        names: tuple[str, ...] | None = answer_of(request, path)
        return names

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Znode | None]:
        arming: list[Request] = []
        if watch:
            absolute = [self._chroot.absolute(path) for path in paths]
            arming = [SetWatches(_NO_HISTORY, data=chunk) for chunk in chunks_by_size(absolute)]
        znodes: list[Znode | None] = await self._read_many(paths, GET_DATA, GetData, arming)
        if watch:
            absent = [path for path, znode in zip(absolute, znodes, strict=True) if znode is None]
            leaving = [SetWatches(_NO_HISTORY, exists=chunk) for chunk in chunks_by_size(absent)]
            await self._exchange(leaving)
            for request in (*arming, *leaving):
                answer_of(request)
        return znodes

    async def watch_many(self, paths: Sequence[str]) -> None:
        absolute = [self._chroot.absolute(path) for path in paths]
        requests = [SetWatches(_NO_HISTORY, data=chunk) for chunk in chunks_by_size(absolute)]
        await self._exchange(requests)
        for request in requests:
            answer_of(request)

    async def watch_subtree(self, path: str, listener: SubtreeListener) -> bool:
        request = AddWatch(self._chroot.absolute(path))
        self._subtrees[request.path] = listener
        await self._exchange([request])
        outcome = request.outcome
        if isinstance(outcome, ErrorAnswer | Exception):
            self._subtrees.pop(request.path, None)
        if isinstance(outcome, ErrorAnswer) and outcome.code in (UNIMPLEMENTED, MARSHALLING_ERROR):
            return False
        answer_of(request, path)
        return True

    async def unwatch_subtree(self, path: str) -> None:
        request = RemoveWatches(self._chroot.absolute(path))
        if self._subtrees.pop(request.path, None) is None:
            return
        await self._exchange([request])
        if not (isinstance(request.outcome, ErrorAnswer) and request.outcome.code in (NO_WATCHER, UNIMPLEMENTED)):
            answer_of(request, path)

    async def children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        return await self._read_many(paths, GET_CHILDREN, lambda path: GetChildren(path, watch=False), [])

    async def open_to_everyone(self, paths: Sequence[str]) -> list[bool]:
        requests = [GetAcl(self._chroot.absolute(path)) for path in paths]
        await self._exchange(requests)
        return [_is_open(request) for request in requests]

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        (result,) = await self.multi_many([ops])
        if isinstance(result, Exception):
            raise result
        return result

    async def multi_many(self, transactions: Sequence[Sequence[Op]]) -> list[list[OpResult] | Exception]:
        requests = [Multi(ops, self._chroot.path, sets_acl=self._sets_acl) for ops in transactions]
        await self._exchange(requests, is_write=True)
        return [self._transaction_result(request) for request in requests]

    async def _read_many(
        self, paths: Sequence[str], operation: int, single: Callable[[str], Request], arming: list[Request]
    ) -> list[Any]:
        """Read with MultiRead, or one by one from a server without it (before 3.6)."""
        absolute = [self._chroot.absolute(path) for path in paths]
        if self._server_knows_multi_read:
            reads = [
                MultiRead((path.encode() for path in part), operation)
                for chunk in chunks_by_size(absolute)
                for part in _parts(chunk)
            ]
            await self._exchange([*arming, *reads])
            if not any(isinstance(read.outcome, ErrorAnswer) and read.outcome.code == UNIMPLEMENTED for read in reads):
                results = (result for read in reads for result in answer_of(read))
                return [_readable(result, path) for path, result in zip(paths, results, strict=True)]
            self._server_knows_multi_read = False
        singles = [single(path) for path in absolute]
        await self._exchange([*arming, *singles])
        return [answer_of(request, path) for path, request in zip(paths, singles, strict=True)]

    async def _exchange(self, requests: Sequence[Request], *, is_write: bool = False) -> None:
        """Send all requests, wait for all responses, store the outcomes in the requests.

        Repeats requests that the server cannot have received, and reads in any case.
        """
        while requests:
            if self._is_over or self._session is None:
                _mark_expired(requests)
                return
            exchange = Exchange(requests)
            done = self._waiting[exchange] = self._loop.create_future()
            if self._metrics is not None:
                self._metrics.sent(len(requests), round_trips=-(-len(requests) // self._max_in_flight))
            self._session.send(exchange)
            await done
            requests = [request for request in requests if _must_be_repeated(request, is_write)]

    def _transaction_result(self, request: Request) -> list[OpResult] | Exception:
        match request.outcome:
            case LostAnswer():
                return OutcomeUnknownError("the connection was lost before ZooKeeper answered the transaction")
            case ErrorAnswer() | Exception():
                return _failure(request.outcome)
        results: list[OpResult] = request.outcome
        return self._chroot.relative_results(results) if self._chroot.path else results

    async def _create_chroot(self) -> None:
        lineage = self._chroot.lineage
        if not lineage or not self._creates_chroot:
            return
        # A client that may use a chroot may still not be permitted to create it, so check first.
        known = Exists(self._chroot.path, watch=False)
        await self._exchange([known])
        if answer_of(known, self._chroot.path) is not None:
            return
        requests = [Multi([Create(path)], chroot="", sets_acl=self._sets_acl) for path in lineage]
        # Whether a lost request was applied does not matter: an existing znode is as good.
        await self._exchange(requests)
        for path, request in zip(lineage, requests, strict=True):
            error = answer_of(request)[0].error
            if error not in (ZkError.OK, ZkError.NODE_EXISTS):
                raise refusal(f"the chroot {path} cannot be created", error)

    def _on_delivery(self, session: Session, delivery: Delivery) -> None:
        """Pass a delivery on to the event loop; called on the connection's thread."""
        self._inbox.append((session, delivery))
        if not self._is_drain_due:
            self._is_drain_due = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                # The event loop was closed without closing the client; nobody is left to notify.
                return

    def _drain(self) -> None:
        self._is_drain_due = False
        while self._inbox:
            session, delivery = self._inbox.popleft()
            if session is not self._session or self._is_over:
                continue
            match delivery:
                case Exchange():
                    self._complete(delivery)
                case WatchEvent():
                    self._tell(WatchEvent(self._chroot.relative(delivery.path), delivery.kind))
                case SubtreeEvent():
                    self._tell_of_subtree(delivery.change)
                case SessionEvent():
                    self._on_session_event(delivery)

    def _on_session_event(self, event: SessionEvent) -> None:
        if self._metrics is not None:
            self._metrics.session_event(event.state)
        if event.state is SessionState.CONNECTED:
            self._session_id = event.session_id
            if self._connected is not None and not self._connected.done():
                self._connected.set_result(None)
        elif event.state in (SessionState.EXPIRED, SessionState.AUTH_FAILED):
            self._is_over = True
            self._fail_waiting(event.state)
        self._tell(event)

    def _tell(self, event: WatchEvent | SessionEvent) -> None:
        assert self._listener is not None, "sessions start with a listener"
        # Not called directly: an exchange completed before wakes its task through the same queue.
        self._loop.call_soon(self._listener, event)

    def _tell_of_subtree(self, change: WatchEvent) -> None:
        for root, listener in self._subtrees.items():
            if is_at_or_below(change.path, root):
                self._loop.call_soon(listener, WatchEvent(self._chroot.relative(change.path), change.kind))

    def _complete(self, exchange: Exchange) -> None:
        if self._metrics is not None:
            self._metrics.exchange(exchange)
        done = self._waiting.pop(exchange)
        if not done.done():
            done.set_result(None)

    def _fail_waiting(self, end: SessionState = SessionState.EXPIRED) -> None:
        if self._connected is not None and not self._connected.done():
            self._connected.set_exception(
                ZooKeeperAuthenticationError("ZooKeeper refused the credentials")
                if end is SessionState.AUTH_FAILED
                else SessionExpiredError("the ZooKeeper session ended before it was usable")
            )
            # Mark the exception as retrieved: closing while nobody waits must not log a warning.
            self._connected.exception()
        for exchange, done in self._waiting.items():
            _mark_expired([request for request in exchange.requests if request.outcome is None])
            if not done.done():
                done.set_result(None)
        self._waiting.clear()

    def _beat(self, session: Session) -> None:
        session.beat()
        self._heartbeat = self._loop.call_later(self._session_timeout_ms / 10_000, self._beat, session)

    async def _dismiss(self) -> None:
        """Release the connection, threads and heartbeat of the previous session."""
        self._zxid_before = self.last_zxid
        session, self._session = self._session, None
        self._subtrees.clear()
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            self._heartbeat = None
        if session is not None:
            await asyncio.to_thread(session.shut, CLOSE_TIMEOUT_SECONDS)


def _must_be_repeated(request: Request, is_write: bool) -> bool:
    outcome = request.outcome
    if isinstance(outcome, LostAnswer) and not (is_write and outcome.sent):
        request.outcome = request.sent_at = None
        return True
    return False


def _mark_expired(requests: Sequence[Request]) -> None:
    for request in requests:
        request.outcome = SessionExpiredError("the ZooKeeper session is over")


def answer_of(request: Request, path: str = "") -> Any:
    """Return the response, None if the znode does not exist. Raises for every other outcome."""
    outcome = request.outcome
    if isinstance(outcome, ErrorAnswer) and outcome.code == NO_NODE:
        return None
    if isinstance(outcome, ErrorAnswer | Exception):
        raise _failure(outcome, path)
    return outcome


def _is_open(request: Request) -> bool:
    if isinstance(request.outcome, ErrorAnswer) and request.outcome.code in (NO_NODE, ZkError.NO_AUTH):
        return False
    return is_open(answer_of(request))


def _failure(outcome: ErrorAnswer | Exception, path: str = "") -> Exception:
    match outcome:
        case ZooKeeperError():
            return outcome
        case ErrorAnswer(code=code) if code == SESSION_EXPIRED:
            return SessionExpiredError("the server does not know the session any more")
        case ErrorAnswer(code=code) if code == ZkError.NO_AUTH:
            return refusal(f"{path} cannot be read", ZkError.NO_AUTH)
    return ZooKeeperError(f"ZooKeeper refused the request: {outcome}")


def _readable(result: Any, path: str) -> Any:
    if isinstance(result, int):
        raise _failure(ErrorAnswer(result), path)
    return result


def _parts(paths: Sequence[T]) -> Iterator[Sequence[T]]:
    remaining = iter(paths)
    while part := tuple(islice(remaining, READS_PER_REQUEST)):
        yield part
