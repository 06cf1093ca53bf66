"""The fetch sessions of followers and consumers: the partitions of each, and which of them have to be looked at.

A fetch of a session names only what its fetcher changed, and its answer only what the broker changed. The broker looks
at the dirty partitions: those that changed since they were last looked at, and those with records to be sent, an error,
a follower out of the ISR, or a consumer that may be sent to another replica. All others are idle: their fetcher has all
that it may read, and a follower is in the ISR; each fetch of a follower's session counts as one of each of them
(R6.10). That is written into the follower's progress when the partition changes, as only then it makes a difference.
Source: Kafka FetchSession, FetchSessionCache; KIP-227.
"""

import asyncio
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from broker_agent.decisions.fetch_sessions import (
    SentOffsets,
    SessionUse,
    choose_evicted,
    has_room,
    is_news,
    sent_with,
    unused_sessions,
)
from broker_agent.replication.hosted_partition import HostedPartition
from broker_agent.replication.purgatory import LastingWatch, Purgatory
from cluster.metrics.registry import Metrics
from cluster.model.bounds import INT32_MAX
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import FULL_FETCH_EPOCH, FetchPartition, FetchPartitionData, FetchRequest
from cluster.requests.fetcher_session import next_session_epoch

_METRICS: Final = ("kafka.server", "FetchSessionCache")
Online = Callable[[TopicPartition], HostedPartition | None]


class _SessionPartition:
    """A partition as its fetcher named it last, the offsets last sent, and whether it is idle."""

    __slots__ = ("is_idle", "item", "sent")

    def __init__(self, item: FetchPartition) -> None:
        self.item = item
        self.sent: SentOffsets | None = None
        self.is_idle = False


class FetchSession(LastingWatch):
    """The session of one follower or consumer. Its fetches take `turn`; the next one has the number `epoch`."""

    def __init__(
        self, session_id: int, request: FetchRequest, purgatory: Purgatory, online: Online, now_ms: float
    ) -> None:
        """Begin the session that a full fetch asked for. `purgatory`: where fetches like it wait."""
        super().__init__(purgatory)
        self.id = session_id
        self.epoch = next_session_epoch(FULL_FETCH_EPOCH)
        self.turn = asyncio.Lock()
        self.has_ended = False
        self.created_ms = self._fetched_ms = now_ms
        self._owner = _owner_of(request)
        self._replica = request.replica_id
        self._online = online
        self._partitions: dict[TopicPartition, _SessionPartition] = {}
        self._dirty: dict[TopicPartition, None] = {}
        """To be looked at by the next fetch, in this order."""

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def use(self) -> SessionUse:
        return SessionUse(self.id, len(self._partitions), self.created_ms, self._fetched_ms, self._replica >= 0)

    def is_of(self, request: FetchRequest) -> bool:
        """Whether the request comes from the incarnation of the follower to which the session was granted, or from a
        consumer that reads as the one to which it was.
        """
        return _owner_of(request) == self._owner

    def take(self, request: FetchRequest, now_ms: float) -> None:
        """Take over what a fetch forgets and names. It counts as a fetch of all idle partitions, as of now."""
        for forgotten in request.forgotten_partitions:
            self._remove(TopicPartition(forgotten.topic, forgotten.partition))
        for item in request.partitions:
            tp = TopicPartition(item.topic, item.partition)
            self.changed(tp)
            known = self._partitions.setdefault(tp, _SessionPartition(item))
            known.item, known.sent = item, None
            self._dirty[tp] = None
        self._fetched_ms = now_ms

    def changed(self, key: TopicPartition) -> None:
        partition = self._partitions.get(key)
        if partition is not None:
            self._end_idling(key, partition)
            self._dirty[key] = None

    def take_dirty(self) -> list[FetchPartition]:
        """The partitions to look at now. `record_read` follows for each; meanwhile others may change."""
        taken, self._dirty = self._dirty, {}
        return [self._partitions[tp].item for tp in taken]

    @property
    def dirty(self) -> tuple[TopicPartition, ...]:
        """The partitions that the next fetch looks at."""
        return tuple(self._dirty)

    def item(self, tp: TopicPartition) -> FetchPartition:
        """The partition as the follower named it last."""
        return self._partitions[tp].item

    def record_read(self, item: FetchPartition, data: FetchPartitionData, *, may_idle: bool) -> None:
        """Let a partition idle until it changes, or look at it again, in the same step in which it was read.

        `may_idle`: whether only a change of the partition can bring something new for this fetcher.
        """
        tp = TopicPartition(item.topic, item.partition)
        partition, known = self._online(tp), self._partitions.get(tp)
        if known is None:
            return  # The session has ended meanwhile.
        known.is_idle = False
        if partition is not None:
            self.watch(tp)
            known.is_idle = (
                may_idle
                and not data.records
                and partition.log is not None
                and sent_with(data) == SentOffsets(partition.log.high_watermark, partition.log.log_start_offset)
            )
        if not known.is_idle:
            self._dirty[tp] = None

    def news(self, found: dict[TopicPartition, FetchPartitionData]) -> tuple[FetchPartitionData, ...]:
        """The part of these results that an answer has. What gets records is looked at last by the next fetch, so that
        others come first where an answer is full (R5.11).
        """
        answer = []
        for tp, data in found.items():
            known = self._partitions[tp]
            if is_news(data, known.sent):
                answer.append(data)
                known.sent = sent_with(data)
            if data.records and tp in self._dirty:
                del self._dirty[tp]
                self._dirty[tp] = None
        return tuple(answer)

    def end(self) -> None:
        """Forget all partitions; a fetch that waits is answered."""
        self.has_ended = True
        for tp in tuple(self._partitions):
            self._remove(tp)
        self.interrupt()

    def _remove(self, tp: TopicPartition) -> None:
        partition = self._partitions.pop(tp, None)
        if partition is not None:
            self._end_idling(tp, partition)
            self._dirty.pop(tp, None)
            self.unwatch(tp)

    def _end_idling(self, tp: TopicPartition, known: _SessionPartition) -> None:
        if known.is_idle:
            known.is_idle = False
            partition = self._online(tp)
            if partition is not None:
                partition.record_idle_fetch(self._replica, known.item, self._fetched_ms)


class FetchSessions:
    """The sessions of one broker by their ids, at most as many as there are slots."""

    def __init__(
        self,
        purgatory_of: Callable[[FetchRequest], Purgatory],
        online: Online,
        random: Random,
        metrics: Metrics,
        *,
        slots: int,
    ) -> None:
        """`purgatory_of`: where a fetch waits."""
        self._purgatory_of, self._online = purgatory_of, online
        self._random, self._slots = random, slots
        self._sessions: dict[int, FetchSession] = {}
        self._count = metrics.gauge(*_METRICS, "NumIncrementalFetchSessions")
        self._partitions = metrics.gauge(*_METRICS, "NumIncrementalFetchPartitionsCached")
        self._evictions = metrics.meter(*_METRICS, "IncrementalFetchSessionEvictionsPerSec")

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def find(self, request: FetchRequest) -> FetchSession | ErrorCode:
        """The session of a request that has a number in one, else the error code of its answer."""
        session = self._sessions.get(request.session_id)
        if session is None or not session.is_of(request):
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return session if request.session_epoch == session.epoch else ErrorCode.INVALID_FETCH_SESSION_EPOCH

    def make(self, request: FetchRequest, now_ms: float) -> FetchSession | None:
        """Begin a session of the partitions that a full fetch named; None if all slots are taken, or consumers have as
        many partitions as they may.
        """
        uses = [session.use for session in self]
        evicted = unused_sessions(uses, now_ms)
        if len(uses) - len(evicted) >= self._slots:
            smaller = choose_evicted(uses, len(request.partitions), now_ms, is_privileged=request.replica_id >= 0)
            if smaller is None:
                return None
            evicted = (smaller,)
        others = (use for use in uses if use.session_id not in evicted)
        if request.replica_id < 0 and not has_room(others, len(request.partitions)):
            return None
        for session_id in evicted:
            self._evictions.mark()
            self.end(self._sessions[session_id])
        session_id = self._random.randint(1, INT32_MAX)
        while session_id in self._sessions:
            session_id = self._random.randint(1, INT32_MAX)
        session = FetchSession(session_id, request, self._purgatory_of(request), self._online, now_ms)
        self._sessions[session_id] = session
        self.take(session, request, now_ms)
        return session

    def take(self, session: FetchSession, request: FetchRequest, now_ms: float) -> None:
        """Let a session take over what a fetch forgets and names; it ends where consumers then have too many."""
        before = len(session)
        session.take(request, now_ms)
        self._partitions.inc(len(session) - before)
        self._count.set(len(self._sessions))
        if len(session) > before and request.replica_id < 0 and not has_room((each.use for each in self), 0):
            self.end(session)

    def end(self, session: FetchSession) -> None:
        """End a session, unless it has ended."""
        if self._sessions.pop(session.id, None) is not None:
            self._partitions.dec(len(session))
            session.end()
            self._count.set(len(self._sessions))

    def end_of(self, request: FetchRequest) -> None:
        """End the session that a full fetch, or one without a session, says it has given up."""
        session = self._sessions.get(request.session_id)
        if session is not None and session.is_of(request):
            self.end(session)


def _owner_of(request: FetchRequest) -> tuple[int, int, str]:
    """Return what tells who sends a request, and which replica may answer it."""
    return request.replica_id, request.replica_epoch, request.rack_id
