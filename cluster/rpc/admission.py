"""Decides which calls are let in under load, by kind, connection and address.

A call takes a place among the open calls until it ends, a place among those being handled until it waits or is
answered, and room for its bytes. A refusal has the status RESOURCE_EXHAUSTED and says which setting has no room and
what to do. All listeners of a process share one `Admission`: the memory that it guards is the process's. Source: Kafka
SocketServer (ConnectionQuotas, memoryPool), RequestChannel; the data plane and the control plane of KIP-291.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.errors import ApiError, ErrorCode
from cluster.rpc.admission_limits import AdmissionLimits
from cluster.rpc.budgets import Bound, Budget, Peer
from cluster.rpc.call_kinds import CallKind
from cluster.rpc.memory_pool import LATE_AFTER_S, MemoryPool, Reception

WAITING_BYTES_MAX: Final = 65_536
"""A larger request that was read without room for it is refused instead of waiting for room."""
_NEVER_LATE: Final = frozenset({CallKind.CONTROL, CallKind.PRODUCE})
"""Kinds whose receptions are never checked for lateness: they need no room, or have it before they are read."""
_MANY_AT_ONCE: Final = frozenset({CallKind.FETCH, CallKind.WATCH})
"""Kinds whose waiting calls one event may wake by the thousand. If all continued at once, the completions of their
responses would queue up in gRPC, and everything else would wait behind them for seconds.
"""
TURNS_AT_ONCE: Final = 64
"""Calls of these kinds that continue at the same time; enough to keep the event loop busy while responses are sent."""
TURN_S_MAX: Final = 0.1
"""A turn ends after this many seconds even if its response was not taken: one slow client must not hold up others."""
Recognize = Callable[[Any], CallKind | None]
"""Finds the kind of a call from its request, where it differs from that of its method; None where it does not."""


class Admission:
    """Holds the budgets of one process, and lets calls in or refuses them."""

    def __init__(self, limits: AdmissionLimits, metrics: Metrics, recognize: Recognize = lambda _: None) -> None:
        self.limits, self.settings = limits, limits.settings
        self.recognize = recognize
        self.turns = asyncio.Semaphore(TURNS_AT_ONCE)
        self.memory = MemoryPool(self.settings.queued_max_request_bytes, self.settings.socket_request_max_bytes)
        self.handled = Budget(self.settings.queued_max_requests)
        self.open = Budget(self.settings.klamm_max_open_requests)
        self._connections: dict[str, Counter[str]] = {}
        """Open calls by address and connection."""
        self._refused = {
            kind: metrics.meter("klamm.network", "Admission", "RefusedRequestsPerSec", kind=kind.label)
            for kind in CallKind
        }
        self._expose(metrics)

    def admit(self, kind: CallKind, peer: Peer) -> "AdmittedCall":
        """Let a call in. Raises ApiError that names the budget that is used up."""
        self.check(kind, peer)
        return AdmittedCall(self, kind, peer)

    def check(self, kind: CallKind, peer: Peer, *, is_open: bool = False) -> None:
        """Raise ApiError if there is no room for a call, or, where it is open already, no room to handle it."""
        refused = self._refusal(kind, peer, is_open=is_open)
        if refused is not None:
            self.count_refusal(kind)
            raise refused

    def count_refusal(self, kind: CallKind) -> None:
        """Count a refused call in the metrics."""
        self._refused[kind].mark()

    def enter(self, kind: CallKind, peer: Peer) -> None:
        """Count a call as open."""
        self.open.take(kind, peer, 1)
        self._connections.setdefault(peer.address, Counter())[peer.connection] += 1

    def leave(self, kind: CallKind, peer: Peer) -> None:
        """Count a call as ended."""
        self.open.give_back(kind, peer, 1)
        connections = self._connections[peer.address]
        connections[peer.connection] -= 1
        if not connections[peer.connection]:
            del connections[peer.connection]
            if not connections:
                del self._connections[peer.address]

    def _refusal(self, kind: CallKind, peer: Peer, *, is_open: bool) -> ApiError | None:
        bound = self.handled.obstacle(kind, peer, 1)
        if bound is not None:
            return too_many(self.handled, bound, kind, "being handled", "queued.max.requests")
        bound = None if is_open else self.open.obstacle(kind, peer, 1)
        if bound is not None:
            return too_many(self.open, bound, kind, "open", "klamm.max.open.requests")
        known, limit = self._connections.get(peer.address, ()), self.settings.max_connections_per_ip
        if kind is not CallKind.CONTROL and len(known) >= limit and peer.connection not in known:
            return too_many_connections(peer, limit)
        return None

    def _expose(self, metrics: Metrics) -> None:
        def read(domain: str, type_: str, name: str, value: Callable[[], float]) -> None:
            metrics.readings(domain, type_, name, lambda: [({}, value())])

        def of_kinds(budget: Budget) -> list[tuple[dict[str, str], float]]:
            return [({"kind": kind.label}, budget.used_by(kind)) for kind in CallKind]

        used = self.memory.budget
        read("kafka.network", "RequestChannel", "RequestQueueSize", lambda: self.memory.waiting)
        read("kafka.network", "SocketServer", "MemoryPoolUsed", lambda: used.used)
        read("kafka.network", "SocketServer", "MemoryPoolAvailable", lambda: max(0, used.total - used.used))
        read("kafka.server", "socket-server-metrics", "connection-count", self._connection_count)
        metrics.readings("klamm.network", "Admission", "HandledRequests", lambda: of_kinds(self.handled))
        metrics.readings("klamm.network", "Admission", "OpenRequests", lambda: of_kinds(self.open))

    def _connection_count(self) -> int:
        """Count the connections that have open calls."""
        return sum(map(len, tuple(self._connections.values())))


class AdmittedCall:
    """Holds the places and bytes of one call that was let in. `end` is called once, however the call ends."""

    __slots__ = ("_admission", "_bytes", "_is_handled", "_reserved", "_response_bytes", "_turn", "kind", "peer")

    def __init__(self, admission: Admission, kind: CallKind, peer: Peer) -> None:
        self.kind, self.peer = kind, peer
        self._admission = admission
        self._bytes = 0
        self._response_bytes = self._reserved = 0
        """Bytes that the response may need, and how many of them are part of `_bytes` now."""
        self._is_handled = False
        self._turn: asyncio.TimerHandle | None = None
        admission.enter(kind, peer)

    async def receive(self, read: Callable[[], Awaitable[Any]]) -> Any:
        """Read the request. Raises ApiError if there is no room for it or it does not arrive in time."""
        settings, memory = self._admission.settings, self._admission.memory
        # In a stream of requests, the one before has been answered.
        self._hold(0)
        reception: Reception | None = None
        try:
            async with asyncio.timeout(settings.klamm_request_transfer_timeout_ms / 1000) as limit:
                if self.kind is CallKind.PRODUCE:
                    await memory.room_for_request(self.kind, self.peer, settings.socket_request_max_bytes)
                    self._bytes = settings.socket_request_max_bytes
                reception = memory.begin(self.kind, limit, has_room=self._bytes > 0)
                data = await self._read(reception, read)
                await self._received(len(data) if isinstance(data, bytes) else 0)
                return data
        except TimeoutError:
            self._admission.count_refusal(self.kind)
            raise not_received(settings, reception) from None

    async def _read(self, reception: Reception, read: Callable[[], Awaitable[Any]]) -> Any:
        arrived = False
        if self.kind not in _NEVER_LATE:
            self._check_later(reception)
        try:
            data = await read()
            arrived = True
            return data
        finally:
            self._admission.memory.end(reception, arrived=arrived)

    def _check_later(self, reception: Reception) -> None:
        reception.check = asyncio.get_running_loop().call_later(LATE_AFTER_S, self._reserve_late, reception)

    def _reserve_late(self, reception: Reception) -> None:
        memory, amount = self._admission.memory, self._admission.settings.socket_request_max_bytes
        if not memory.is_late(reception):
            self._check_later(reception)
        elif memory.room_for_late_request(reception, self.peer, amount):
            self._bytes = amount
        else:
            reception.cut_off()

    async def _received(self, size: int) -> None:
        """Count a request at its size; a small one that was read without reserved room waits for it.

        A large one is refused instead: its bytes are in memory already, and while it waited, the pool would be over
        its limit by that much.
        """
        if size > self._bytes:
            memory, more = self._admission.memory, size - self._bytes
            if size > WAITING_BYTES_MAX and not memory.has_room(self.kind, self.peer, more):
                self._admission.count_refusal(self.kind)
                raise no_room(self._admission.settings, size)
            await memory.room_for_request(self.kind, self.peer, more)
            self._bytes = size
        self._hold(size)

    def handle_as(self, kind: CallKind) -> None:
        """Begin to handle the request as a call of this kind. Raises ApiError if there is no room."""
        admission = self._admission
        admission.check(kind, self.peer, is_open=kind is self.kind)
        if kind is not self.kind:
            held = self._bytes
            self._hold(0)
            admission.leave(self.kind, self.peer)
            self.kind = kind
            admission.enter(kind, self.peer)
            self._hold(held)
        admission.handled.take(kind, self.peer, 1)
        self._is_handled = True

    async def expect_response(self, amount: int) -> None:
        """Wait for room for a response of up to `amount` bytes, now and after each time that the call was parked."""
        self._response_bytes = min(amount, self._admission.settings.socket_request_max_bytes)
        await self._room_for_response()

    def park(self) -> None:
        """Give back the place and the response's room while the call waits; its request stays counted."""
        self._end_turn()
        self._leave_handled()
        self._hold(self._bytes - self._reserved)
        self._reserved = 0

    async def resume(self) -> None:
        """Wait for a turn, where many may continue at once, and for the response's room."""
        if self.kind in _MANY_AT_ONCE:
            await self._admission.turns.acquire()
            self._turn = asyncio.get_running_loop().call_later(TURN_S_MAX, self._end_turn)
        await self._room_for_response()

    def answered(self, response_bytes: int) -> None:
        """Count the response, which has this size, instead of the request: it is about to be sent."""
        self._leave_handled()
        self._hold(response_bytes)

    def end(self) -> None:
        """Give back everything that the call holds."""
        self._end_turn()
        self._leave_handled()
        self._hold(0)
        self._admission.leave(self.kind, self.peer)

    def _hold(self, amount: int) -> None:
        """Count `amount` bytes for the call, instead of those counted or reserved until now."""
        self._admission.memory.resize(self.kind, self.peer, self._bytes, amount)
        self._bytes = amount

    async def _room_for_response(self) -> None:
        if self._response_bytes and not self._reserved:
            memory, amount = self._admission.memory, self._response_bytes
            if not memory.has_room(self.kind, self.peer, amount):
                self._leave_handled()
                # Calls that hold something and wait for more could wait for one another.
                amount += self._bytes
                self._hold(0)
            await memory.room_for_response(self.kind, self.peer, amount)
            self._reserved = self._response_bytes
            self._bytes += amount

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
            self._admission.turns.release()

    def _leave_handled(self) -> None:
        if self._is_handled:
            self._is_handled = False
            self._admission.handled.give_back(self.kind, self.peer, 1)


def too_many(budget: Budget, bound: Bound, kind: CallKind, doing: str, setting: str) -> ApiError:
    """Make the refusal of a call for which a budget has no place. `doing`: the state of the calls that use it."""
    match bound:
        case Bound.KIND:
            whose, todo = f"{kind.label} requests and less urgent ones", "retry later"
        case Bound.CONNECTION:
            whose, todo = f"{kind.label} requests of this connection", "send fewer at once"
        case Bound.ADDRESS:
            whose, todo = f"{kind.label} requests of this address", "send fewer at once"
    why = f"{budget.limit(kind, bound)} {whose} are {doing}, as many as may be"
    return _refusal(setting, budget.total, why, todo)


def too_many_connections(peer: Peer, limit: int) -> ApiError:
    why = f"{peer.address} has open requests on {limit} connections, as many as one address may have"
    return _refusal("max.connections.per.ip", limit, why, "close some")


def not_received(settings: Settings, reception: Reception | None) -> ApiError:
    """Make the refusal of a request that did not arrive in time. `reception`: None if it found no room at all."""
    if reception is None:
        why = f"no room for the request for {settings.klamm_request_transfer_timeout_ms} ms"
    elif reception.is_cut:
        why = "the request took long to arrive, and there was no room to continue it"
    else:
        limit = settings.klamm_request_transfer_timeout_ms
        why = f"the request did not arrive within {limit} ms"
        return _refusal("klamm.request.transfer.timeout.ms", limit, why, "send it faster, or in smaller parts")
    return _refusal("queued.max.request.bytes", settings.queued_max_request_bytes, why, "retry later")


def no_room(settings: Settings, size: int) -> ApiError:
    why = f"no room for a request of {size} bytes"
    return _refusal("queued.max.request.bytes", settings.queued_max_request_bytes, why, "retry later")


def _refusal(setting: str, limit: int, why: str, todo: str) -> ApiError:
    message = f"{why}; {todo}, or raise {setting} ({limit})"
    return ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message, field=setting, value=limit)
