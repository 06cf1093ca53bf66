"""Fetch from followers and consumers, on the leader; and on followers, from consumers near them.

Who asks for it fetches in a session, where a request and its answer have only what changed. Any other fetch names all
its partitions, and so does the one with which a session begins. Source: Kafka ReplicaManager.fetchMessages,
DelayedFetch, FetchManager; KIP-227.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from broker_agent.replication.fetch_sessions import FetchSession
from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.requests.available_bytes import AvailableBytes
from broker_agent.requests.fetch_reads import FetchReads
from cluster.aio.slices import SLICE, each_slice
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import (
    FULL_FETCH_EPOCH,
    NO_READ_REPLICA,
    NO_SESSION,
    SESSIONLESS_EPOCH,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from cluster.requests.fetcher_session import next_session_epoch

_RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
"""Leaves room for a first batch above the limit: a response is one message, of which peers take 128 MiB."""


class FetchRequests:
    """Handles Fetch, at once or when enough bytes have arrived."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager
        self._sessions = manager.fetch_sessions
        self._reads = FetchReads(manager)

    async def handle(self, request: FetchRequest) -> FetchResponse:
        """Read; wait up to `max_wait_ms` for `min_bytes` unless there is a reason to respond at once."""
        max_bytes = min(request.max_bytes, self._manager.settings.fetch_max_bytes, _RESPONSE_BYTES_MAX)
        # More bytes than fit into a response are not waited for.
        request = replace(request, max_bytes=max_bytes, min_bytes=min(request.min_bytes, max_bytes))
        if request.session_epoch not in (FULL_FETCH_EPOCH, SESSIONLESS_EPOCH):
            return await self._handle_in_session(request)
        self._sessions.end_of(request)
        data = await self._fetch_all(request)
        return self._answer(request, data, self._begin_session(request, data))

    def _begin_session(self, request: FetchRequest, data: Sequence[FetchPartitionData]) -> int:
        """Grant a session to a consumer, or a follower, that asks for one, if there is room; returns its id."""
        may_have_one = request.replica_id < 0 or self._manager.is_follower_fetch(request)
        if request.session_epoch != FULL_FETCH_EPOCH or not may_have_one or not request.partitions:
            return NO_SESSION
        session = self._sessions.make(request, self._manager.now_ms())
        if session is None:
            return NO_SESSION
        session.news({TopicPartition(item.topic, item.partition): item for item in data})
        return session.id

    async def _handle_in_session(self, request: FetchRequest) -> FetchResponse:
        session = self._sessions.find(request)
        if isinstance(session, ErrorCode):
            return FetchResponse(session)
        session.epoch = next_session_epoch(session.epoch)
        # One who has something new to say does not wait for the answer to the last fetch, which comes now.
        session.interrupt()
        try:
            async with session.turn:
                return await self._fetch_changes(session, request)
        except BaseException:
            # What was taken of the session to be answered has not arrived, whoever ended this.
            self._sessions.end(session)
            raise

    async def _fetch_changes(self, session: FetchSession, request: FetchRequest) -> FetchResponse:
        if session.has_ended:
            return FetchResponse(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        arrival_ms = self._manager.now_ms()
        self._sessions.take(session, request, arrival_ms)
        if session.has_ended:
            return FetchResponse(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not len(session):
            self._sessions.end(session)
            return FetchResponse(ErrorCode.NONE)
        found: dict[TopicPartition, FetchPartitionData] = {}
        await self._read_dirty(session, request, found, arrival_ms=arrival_ms)
        is_last = session.epoch == next_session_epoch(request.session_epoch)
        if is_last and not session.has_ended and not _must_answer_now(request, found.values()):
            await self._wait_in_session(session, request, found)
        if session.has_ended:
            return FetchResponse(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return self._answer(request, session.news(found), session.id)

    async def _wait_in_session(
        self, session: FetchSession, request: FetchRequest, found: dict[TopicPartition, FetchPartitionData]
    ) -> None:
        for tp, data in found.items():
            if data.records:
                # As long as it waits, a request has no room for them; they are read again.
                found[tp] = replace(data, records=b"")
        available = AvailableBytes(request, self._manager, session.item)
        dirty = session.dirty
        # Of more than one slice there were awaits since the first was read: all are tested while they are watched.
        many = dirty if len(dirty) > SLICE else ()
        is_done = not many and any(available.check(tp) for tp in dirty)
        if not is_done and not await session.wait(available.check, many, request.max_wait_ms):
            self._count_expired(request)
        # Without updating the follower's progress, as it did not fetch again (R6.16).
        await self._read_dirty(session, request, found, arrival_ms=None)

    async def _read_dirty(
        self,
        session: FetchSession,
        request: FetchRequest,
        found: dict[TopicPartition, FetchPartitionData],
        *,
        arrival_ms: float | None,
    ) -> None:
        items = session.take_dirty()

        def record(item: FetchPartition, data: FetchPartitionData) -> None:
            session.record_read(item, data, may_idle=self._reads.may_idle(request, item))

        for data in await self._reads.read_all(request, items, arrival_ms=arrival_ms, on_read=record):
            found[TopicPartition(data.topic, data.partition)] = data

    async def _fetch_all(self, request: FetchRequest) -> list[FetchPartitionData]:
        """Fetch all partitions that the request names."""
        data = await self._reads.read_all(request, request.partitions, arrival_ms=self._manager.now_ms())
        if not data or _must_answer_now(request, data):
            return data
        waiting = _WaitingFetch(request, self._manager)
        async for part in each_slice(range(len(data))):
            waiting.add(part, data)
        # Of more than one slice there were awaits since the first was read: all are tested once they are watched.
        is_done = len(waiting.keys) <= SLICE and any(waiting.check(key) for key in waiting.keys)
        purgatory = self._manager.purgatory_of(request)
        if not is_done and not await purgatory.wait(waiting.test, waiting.keys, request.max_wait_ms):
            self._count_expired(request)
        # Read again what may have changed, without updating the follower's progress: the leader completed the wait, and
        # that must not make a dead follower look alive (R6.16).
        changed: list[int] = []
        async for part in each_slice(range(len(data))):
            changed += [index for index in part if waiting.has_changed(index, data[index])]
        items = [request.partitions[index] for index in changed]
        for index, item in zip(changed, await self._reads.read_all(request, items, arrival_ms=None), strict=True):
            data[index] = item
        return data

    def _count_expired(self, request: FetchRequest) -> None:
        self._manager.metrics.expired_fetches["follower" if request.replica_id >= 0 else "consumer"].mark()

    def _answer(
        self, request: FetchRequest, data: Sequence[FetchPartitionData], session_id: int = NO_SESSION
    ) -> FetchResponse:
        for item in data:
            if item.records:
                self._reads.count_bytes(request, item)
        return FetchResponse(ErrorCode.NONE, tuple(data), session_id=session_id)


class _WaitingFetch:
    """A fetch without a session that waits, and which of its partitions have changed since they were read."""

    def __init__(self, request: FetchRequest, manager: ReplicaManager) -> None:
        self._request = request
        self._manager = manager
        self._items: dict[TopicPartition, FetchPartition] = {}
        self._changed: set[TopicPartition] = set()
        self._available = AvailableBytes(request, manager, self._items.__getitem__)

    @property
    def keys(self) -> tuple[TopicPartition, ...]:
        return tuple(self._items)

    def add(self, part: Sequence[int], data: list[FetchPartitionData]) -> None:
        """Wait for the partitions at these positions, too.

        Records that were read are dropped, and read again: as long as it waits, a request has no room for them.
        """
        for index in part:
            item = self._request.partitions[index]
            tp = TopicPartition(item.topic, item.partition)
            self._items[tp] = item
            if data[index].records:
                data[index] = replace(data[index], records=b"")
                self._changed.add(tp)

    def has_changed(self, index: int, data: FetchPartitionData) -> bool:
        """Whether the partition at this position changed since it was read, possibly by this very request (R6.12)."""
        tp = TopicPartition(data.topic, data.partition)
        partition = self._manager.online(tp)
        log = None if partition is None else partition.log
        if log is None or tp in self._changed:
            return True
        if (log.high_watermark, log.log_start_offset) != (data.high_watermark, data.log_start_offset):
            return True
        return self._request.partitions[index].fetch_offset < self._available.bound(log)

    def test(self, key: TopicPartition) -> bool:
        """Check a partition that is watched now, and each time after it changed; True if the request should be answered
        now.
        """
        was_checked = self._available.was_checked(key)
        is_done = self.check(key)
        if was_checked or is_done:
            self._changed.add(key)
        return is_done

    def check(self, key: TopicPartition) -> bool:
        """Include one partition in the sum; True if the request should be answered now."""
        return self._available.check(key)


def _must_answer_now(request: FetchRequest, data: Iterable[FetchPartitionData]) -> bool:
    """Whether to respond without waiting: enough bytes, no wait time, or what the sender should know soon (R6.14)."""
    return (
        request.max_wait_ms <= 0
        or sum(len(item.records) for item in data) >= request.min_bytes
        or any(
            item.error_code is not ErrorCode.NONE
            or item.diverging_epoch is not None
            or item.preferred_read_replica != NO_READ_REPLICA
            for item in data
        )
    )
