"""Keeps the bytes of all requests and responses in flight within one budget; a call that finds no room waits.

A request's size is unknown before it has been read. For those that are large as a rule (produce), room for the largest
is reserved first and the difference given back afterwards. Others are read at once, and need that room only if they
take long to arrive. What waits gets room in order, responses before requests. Source: Kafka SimpleMemoryPool
(`queued.max.request.bytes`).
"""

import asyncio
from collections import Counter, defaultdict, deque
from typing import Final

from cluster.rpc.budgets import Bound, Budget, Peer
from cluster.rpc.call_kinds import CallKind

LATE_AFTER_S: Final = 0.05
"""After this time a request that has not arrived, and is late, needs room for the largest request. What can arrive
before then is limited by the network.
"""
SLOW_AFTER_S: Final = 2.0
"""A request that takes longer than this to arrive makes way for one that waits."""


class _Waiting:
    """Stands for a call that waits for `amount` bytes."""

    __slots__ = ("amount", "granted", "kind", "peer")

    def __init__(self, kind: CallKind, peer: Peer, amount: int) -> None:
        self.kind, self.peer, self.amount = kind, peer, amount
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Reception:
    """Stands for a request that is being received.

    `limit` is the timeout around its reception. `is_cut`: whether it made way for another request. `number` is its
    place in the order in which receptions began.
    """

    __slots__ = ("check", "is_cut", "kind", "limit", "number", "since")

    def __init__(self, kind: CallKind, limit: asyncio.Timeout, number: int) -> None:
        self.kind, self.limit, self.number = kind, limit, number
        self.since = asyncio.get_running_loop().time()
        self.is_cut = False
        self.check: asyncio.TimerHandle | None = None
        """The timer of the next check whether it is late."""

    def cut_off(self) -> None:
        """End the reception now, as if its time were over."""
        self.is_cut = True
        self.limit.reschedule(asyncio.get_running_loop().time())


class _Queue:
    """Holds the waiting calls of one kind.

    Calls that wait for their own connection or address are kept apart: at the head of the queue, one client at its
    limit would hold up all others.
    """

    def __init__(self) -> None:
        self.ready: deque[_Waiting] = deque()
        self._blocked: defaultdict[str, deque[_Waiting]] = defaultdict(deque)

    def block(self, waiting: _Waiting, bound: Bound) -> None:
        holder = waiting.peer.connection if bound is Bound.CONNECTION else waiting.peer.address
        self._blocked[holder].append(waiting)

    def unblock(self, peer: Peer) -> None:
        """Return one call that waits for this connection to the queue, and one that waits for this address.

        One is enough: each that is served gives its bytes back and so calls this again.
        """
        for holder in peer:
            blocked = self._blocked.get(holder)
            while blocked:
                waiting = blocked.popleft()
                if not waiting.granted.done():
                    self.ready.appendleft(waiting)
                    break
            if blocked is not None and not blocked:
                del self._blocked[holder]


class MemoryPool:
    """Grants room within `total` bytes, of which one request may need `request_bytes_max`.

    Control calls never wait for room: a process that is out of room must still obey its controller.
    """

    def __init__(self, total: int, request_bytes_max: int) -> None:
        # Besides what a connection holds already, there must be room for its next request.
        self.budget = Budget(total, smallest=2 * request_bytes_max)
        self._responses = {kind: _Queue() for kind in CallKind}
        self._requests = {kind: _Queue() for kind in CallKind}
        self._receiving: dict[Reception, None] = {}
        """The receptions that hold room, the oldest first."""
        self._begun = self._newest_arrived = 0
        self._relief: asyncio.TimerHandle | None = None
        self._waiting_of: Counter[CallKind] = Counter()

    @property
    def waiting(self) -> int:
        """The number of requests and responses that wait for room."""
        return self._waiting_of.total()

    async def room_for_request(self, kind: CallKind, peer: Peer, amount: int) -> None:
        """Use `amount` more bytes, once there is room and those that waited before have been served."""
        await self._room(self._requests[kind], kind, peer, amount)

    async def room_for_response(self, kind: CallKind, peer: Peer, amount: int) -> None:
        """Use `amount` more bytes, as for a request, but before all requests."""
        await self._room(self._responses[kind], kind, peer, amount)

    def resize(self, kind: CallKind, peer: Peer, amount: int, to: int) -> None:
        """Correct the bytes of a call from `amount` to `to`, and let waiting calls have what becomes free."""
        if to > amount:
            self.budget.take(kind, peer, to - amount)
        elif to < amount:
            self.budget.give_back(kind, peer, amount - to)
            self._responses[kind].unblock(peer)
            self._requests[kind].unblock(peer)
            self._grant()

    def begin(self, kind: CallKind, limit: asyncio.Timeout, *, has_room: bool) -> Reception:
        """Begin a reception under this timeout; `end` follows."""
        self._begun += 1
        reception = Reception(kind, limit, self._begun)
        if has_room:
            self._receiving[reception] = None
        return reception

    def is_late(self, reception: Reception) -> bool:
        """Whether a request that began later has arrived before this one, or this one takes long.

        Without a later one that arrived, the delay may be that of the event loop itself and not the client's fault; but
        the loop is not slow for as long as `SLOW_AFTER_S`.
        """
        age_s = asyncio.get_running_loop().time() - reception.since
        return reception.number < self._newest_arrived or age_s > SLOW_AFTER_S

    def room_for_late_request(self, reception: Reception, peer: Peer, amount: int) -> bool:
        """Use `amount` more bytes for a late request, in place of one that takes longer if need be.

        The result is False if there is no room. As much again must remain free: requests that do not arrive must not
        take the room of those that do.
        """
        if not self.has_room(reception.kind, peer, 2 * amount):
            slowest = self._slowest(reception.kind)
            if slowest is None or slowest.since + SLOW_AFTER_S > asyncio.get_running_loop().time():
                return False
            self._cut_off(slowest)
        self.budget.take(reception.kind, peer, amount)
        self._receiving[reception] = None
        return True

    def end(self, reception: Reception, *, arrived: bool) -> None:
        """End a reception, whether or not its request arrived."""
        if reception.check is not None:
            reception.check.cancel()
        if arrived:
            self._newest_arrived = max(self._newest_arrived, reception.number)
        self._receiving.pop(reception, None)

    def has_room(self, kind: CallKind, peer: Peer, amount: int) -> bool:
        """Whether `amount` more bytes fit in; always for a control call."""
        return kind is CallKind.CONTROL or self.budget.obstacle(kind, peer, amount) is None

    async def _room(self, queue: _Queue, kind: CallKind, peer: Peer, amount: int) -> None:
        if not queue.ready and self.has_room(kind, peer, amount):
            self.budget.take(kind, peer, amount)
            return
        waiting = _Waiting(kind, peer, amount)
        queue.ready.append(waiting)
        self._waiting_of[waiting.kind] += 1
        self._grant()
        try:
            await waiting.granted
        except asyncio.CancelledError:
            # The caller left between the grant and this task's next step: nothing else would give the room back.
            if waiting.granted.done() and not waiting.granted.cancelled():
                self.resize(waiting.kind, waiting.peer, waiting.amount, 0)
            raise
        finally:
            self._waiting_of[waiting.kind] -= 1

    def _grant(self) -> None:
        """Give room to waiting calls, higher kinds first."""
        for kind in CallKind:
            if self._serve(self._responses[kind]):
                self._serve(self._requests[kind])
        self._relieve()

    def _serve(self, queue: _Queue) -> bool:
        """Whether all could be served, but for those that wait for their own connection or address."""
        while queue.ready:
            waiting = queue.ready.popleft()
            if waiting.granted.done():
                continue
            obstacle = self.budget.obstacle(waiting.kind, waiting.peer, waiting.amount)
            match obstacle:
                case None:
                    self.budget.take(waiting.kind, waiting.peer, waiting.amount)
                    waiting.granted.set_result(None)
                case Bound.KIND:
                    queue.ready.appendleft(waiting)
                    return False
                case _:
                    queue.block(waiting, obstacle)
        return True

    def _relieve(self) -> None:
        """While calls wait, cut off a request that takes long to arrive: at once, or as soon as it has taken long.

        Otherwise clients that send slowly, or never finish, would hold all the room until their timeout.
        """
        urgent = next((kind for kind in CallKind if self._waiting_of[kind]), None)
        slowest = None if urgent is None or self._relief is not None else self._slowest(urgent)
        if slowest is not None:
            loop = asyncio.get_running_loop()
            self._relief = loop.call_at(max(slowest.since + SLOW_AFTER_S, loop.time()), self._end_relief, slowest)

    def _slowest(self, kind: CallKind) -> Reception | None:
        """The request that has been arriving longest, among those no more urgent than `kind`."""
        return next((reception for reception in self._receiving if reception.kind >= kind), None)

    def _end_relief(self, slow: Reception) -> None:
        self._relief = None
        if slow in self._receiving and self.waiting:
            self._cut_off(slow)
        self._relieve()

    def _cut_off(self, slow: Reception) -> None:
        slow.cut_off()
        self.end(slow, arrived=False)
