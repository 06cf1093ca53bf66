"""The follower's fetch loop: one task per leader broker and fetcher id.

A request says what has changed since the last one, so that nothing is done for each partition as long as nothing
happens. There is no await between the comparison of a response with the state of its partition and the append, so a
partition removed meanwhile is never appended to. Source: Kafka AbstractFetcherThread, ReplicaFetcherThread; KIP-227.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import structlog
from msgspec.structs import replace

from broker_agent.log.partition_log import PartitionLog
from broker_agent.replication.fetch_states import FetchState
from broker_agent.replication.log_reconciliation import FetchSetup, LeaderEndPoint, LogReconciliation
from broker_agent.replication.replica_manager import ReplicaManager
from cluster.model.broker import Offset
from cluster.model.errors import ErrorCode, LogAppendError, LogOperationError, PeerUnreachableError, StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.data import FetchPartition, FetchPartitionData, FetchRequest, FetchResponse
from cluster.requests.fetcher_session import SESSION_ERRORS, AskedPartition, FetcherSession, SessionRequest

_RATE_WINDOW_S: Final = 5.0
_RETRIED_APPEND_ERRORS: Final = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD})
_STATS: Final = ("kafka.server", "FetcherStats")
_log = structlog.stdlib.get_logger()


class _Call:
    """A fetch under way. `said_otherwise`: the partitions that a later request has named or forgotten; what this one is
    answered for them is out of date.
    """

    def __init__(self, request: SessionRequest, task: asyncio.Task[FetchResponse]) -> None:
        self.request = request
        self.task = task
        self.said_otherwise: set[TopicPartition] = set()

    def abandon(self) -> None:
        """Neither wait for the answer nor take it."""
        self.task.cancel()
        self.task.add_done_callback(_retrieve)


class ReplicaFetcher:
    """Fetches a set of partitions led by one broker; `run` is its task, `name` labels its meters."""

    def __init__(self, name: str, leader: LeaderEndPoint, setup: FetchSetup, failed: dict[TopicPartition, str]) -> None:
        self.leader = leader
        self.reconciliation = LogReconciliation(name, leader, setup, failed)
        self.states = self.reconciliation.states
        self.states.on_change = self.touch
        self.request_rate = 0.0
        """Requests per second over the last window of five seconds or more."""
        self._setup = setup
        self._session = FetcherSession[FetchState]()
        self._touched: dict[TopicPartition, None] = {}
        """The partitions for which the next request may have something to say, in order."""
        self._call: _Call | None = None
        self._wake = asyncio.Event()
        self._woken: asyncio.Future[None] | None = None
        self._window_start: float | None = None
        self._window_requests = 0
        registry = setup.manager.metrics.registry
        self._tags = {"clientId": name, "brokerHost": leader.endpoint.host, "brokerPort": str(leader.endpoint.port)}
        self._requests = registry.meter(*_STATS, "RequestsPerSec", **self._tags)
        self._bytes = registry.meter(*_STATS, "BytesPerSec", **self._tags)

    async def run(self) -> None:
        """Truncate, fetch, append, until cancelled (R5.10)."""
        self._begin_anew()
        try:
            while True:
                await self.reconciliation.truncate_marked()
                # Cleared before the states are read, so that a partition added from now on is not missed.
                self._wake.clear()
                if self.states.ready(asyncio.get_running_loop().time(), truncating=True):
                    continue
                if not await self._fetch_once():
                    await self._wait_for_work()
        finally:
            self._begin_anew()

    def touch(self, tp: TopicPartition) -> None:
        """Let the next request compare the partition with what the leader was told."""
        self._touched[tp] = None

    def wake(self) -> None:
        """Interrupt the wait: there is a new partition to fetch or to truncate."""
        self._wake.set()
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def close(self) -> None:
        """Remove the meters of this fetcher; its task ends by cancellation."""
        for name in ("RequestsPerSec", "BytesPerSec"):
            self._setup.manager.metrics.registry.remove(*_STATS, name, **self._tags)

    async def _fetch_once(self) -> bool:
        """Send one request and take its answer; False if there is nothing to fetch or the leader did not respond.

        A wake-up ends the wait for an answer. In a session the next request then says what is new, and makes the leader
        answer this one; without, all is named again and this one is given up.
        """
        while unflushed := self._find_unflushed():
            await asyncio.gather(*(self._flush(tp, log) for tp, log in unflushed))
        if not self._session.is_established:
            self._abandon_call()
        overtaken, request = self._call, self._next_request()
        if request is not None:
            self._call = self._send(request)
            if overtaken is not None and not await self._take_answer(overtaken):
                return False
        if self._call is None:
            return request is not None
        if not await self._is_answered(self._call):
            return True
        call, self._call = self._call, None
        return await self._take_answer(call)

    def _next_request(self) -> SessionRequest | None:
        """The request to send next; None if nothing is to be fetched, or nothing is new while the leader has a call."""
        throttle = _Throttle(self._setup.manager)
        now = asyncio.get_running_loop().time()
        if self._session.is_established and not throttle.has_rate:
            candidates: Iterable[TopicPartition] = self._candidates(now)
        else:
            candidates = dict.fromkeys((*self.states, *self._touched))
        self._touched = {}
        wanted = {tp: self._wanted(tp, throttle, now) for tp in candidates}
        if not self._session.is_established:
            named = {tp: asked for tp, asked in wanted.items() if asked is not None}
            return self._session.request_all(named) if named else None
        is_waiting = self._call is not None
        if is_waiting and not self._session.differs(wanted):
            return None
        request = self._session.request_changes(wanted)
        if not self._session.asked:
            self._begin_anew()
            return None
        if self._call is not None:
            self._call.said_otherwise.update(TopicPartition(i.topic, i.partition) for i in request.partitions)
            self._call.said_otherwise.update(TopicPartition(i.topic, i.partition) for i in request.forgotten_partitions)
        return request

    def _candidates(self, now: float) -> Iterable[TopicPartition]:
        """The partitions that may be asked for in another way than in the last request."""
        return dict.fromkeys((*self._touched, *self.states.no_longer_delayed(now)))

    def _send(self, request: SessionRequest) -> _Call:
        settings = self._setup.settings
        # With a session the leader can be told of something new while it has a request to wait with.
        begins_session = request.is_full and not self._session.is_refused
        fetch = FetchRequest(
            replica_id=self._setup.manager.own_id,
            replica_epoch=self._setup.broker_epoch(),
            partitions=request.partitions,
            max_wait_ms=0 if begins_session else settings.replica_fetch_wait_max_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
            session_id=request.session_id,
            session_epoch=request.session_epoch,
            forgotten_partitions=request.forgotten_partitions,
        )
        self._count_request()
        loop = asyncio.get_running_loop()
        self.reconciliation.silence.asked(loop.time())
        return _Call(request, loop.create_task(self._ask_leader(fetch)))

    async def _ask_leader(self, request: FetchRequest) -> FetchResponse:
        async with asyncio.timeout(self._setup.settings.replica_socket_timeout_ms / 1000):
            return await self._setup.client.ask_leader(self.leader.endpoint, request)

    async def _is_answered(self, call: _Call) -> bool:
        """Wait until a call is answered, or has failed; False if `wake` was called before."""
        if not self._wake.is_set():
            self._woken = asyncio.get_running_loop().create_future()
            ends: tuple[asyncio.Future[Any], ...] = (call.task, self._woken)
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._woken = None
        return call.task.done()

    async def _take_answer(self, call: _Call) -> bool:
        """Take what the leader answered; False if it did not, or refused."""
        silence = self.reconciliation.silence
        try:
            response = await call.task
        except (PeerUnreachableError, TimeoutError) as error:
            silence.failed(error)
            return self._give_up_session()
        silence.answered(asyncio.get_running_loop().time())
        if response.error_code in SESSION_ERRORS and not call.request.is_full:
            self._begin_anew()
            return True
        if response.error_code is not ErrorCode.NONE:
            return self._give_up_session()
        self._session.take_answer(call.request, response)
        await self._process_all(call, response)
        return True

    def _give_up_session(self) -> bool:
        """Begin another session after a delay; at once if there is something new to fetch, which returns True."""
        self._begin_anew()
        if self._wake.is_set():
            return True
        for tp in tuple(self.states):
            self.reconciliation.delay(tp)
        return False

    def _begin_anew(self) -> None:
        """Forget what the leader knows: the next request names all partitions."""
        self._session.reset()
        self._abandon_call()

    def _abandon_call(self) -> None:
        if self._call is not None:
            self._call.abandon()
            self._call = None

    async def _process_all(self, call: _Call, response: FetchResponse) -> None:
        await self._prepare_logs(response)
        await self._setup.manager.until_swapped()
        out_of_range = []
        for data in response.partitions:
            tp = TopicPartition(data.topic, data.partition)
            asked = self._session.asked.get(tp)
            if asked is None or tp in call.said_otherwise or self.states.get(tp) is not asked.state:
                continue
            if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                out_of_range.append((tp, asked.state))
            else:
                self._process(tp, asked.state, data)
        self.reconciliation.write_truncations()
        for tp, state in out_of_range:
            await self.reconciliation.reset_offset(tp, state)

    async def _prepare_logs(self, response: FetchResponse) -> None:
        """Flush logs before their first records, together and in threads; an error is met again by the append."""
        with_records = (TopicPartition(data.topic, data.partition) for data in response.partitions if data.records)
        logs = map(self.reconciliation.log, with_records)
        untouched = [log for log in logs if log is not None and log.is_untouched]
        if untouched:
            await asyncio.gather(*(log.prepare_for_records() for log in untouched), return_exceptions=True)

    def _find_unflushed(self) -> list[tuple[TopicPartition, PartitionLog]]:
        """The logs to flush first because of `flush.messages`: the fetch offset acknowledges everything below it."""
        now = asyncio.get_running_loop().time()
        among = self._candidates(now) if self._session.is_established else self.states
        found = []
        for tp in among:
            state, log = self.states.get(tp), self.reconciliation.log(tp)
            is_asked = state is not None and not state.is_truncating and state.is_ready(now)
            if is_asked and log is not None and log.durable_end_offset < log.log_end_offset:
                found.append((tp, log))
        return found

    async def _flush(self, tp: TopicPartition, log: PartitionLog) -> None:
        try:
            await log.flush()
        except LogOperationError as error:
            self.reconciliation.try_again(tp, error)
        except StorageError as error:
            # Not if its copy in another log directory has taken the place of the log.
            if self.states.get(tp) is not None and self.reconciliation.log(tp) in (None, log):
                self.reconciliation.give_up(tp, str(error))

    def _wanted(self, tp: TopicPartition, throttle: "_Throttle", now: float) -> AskedPartition[FetchState] | None:
        """The partition as it is to be asked for now; None for one that is not ready, is throttled while the quota is
        exceeded, or has no room: it lags, and so leaves the ISR.
        """
        ready = self.states.get(tp)
        if ready is None or ready.is_truncating or not ready.is_ready(now):
            return None
        log = self.reconciliation.log(tp)
        if log is None or not log.takes_records:
            self.reconciliation.delay(tp)
            return None
        max_bytes = throttle.allow(log, ready, self._setup.settings.replica_fetch_max_bytes)
        state, joins = ready, max_bytes > 0 and throttle.is_newly_in_sync(ready)
        if state.delayed_until is not None or joins:
            state = replace(state, delayed_until=None, is_in_sync=state.is_in_sync or joins)
            self.states.put(tp, state)
        if max_bytes <= 0:
            self.touch(tp)
            return None
        return AskedPartition(state, self._item(tp, state, log, max_bytes))

    @staticmethod
    def _item(tp: TopicPartition, state: FetchState, log: PartitionLog, max_bytes: int) -> FetchPartition:
        return FetchPartition(
            topic=tp.topic,
            topic_id=state.topic_id,
            partition=tp.partition,
            fetch_offset=state.fetch_offset,
            partition_max_bytes=max_bytes,
            current_leader_epoch=state.leader_epoch,
            last_fetched_epoch=state.last_fetched_epoch,
            log_start_offset=log.log_start_offset,
        )

    def _process(self, tp: TopicPartition, state: FetchState, data: FetchPartitionData) -> None:
        """Process one partition's part of a response; its failure does not affect the others (R5.25 to R5.27)."""
        reconciliation = self.reconciliation
        if data.error_code is not ErrorCode.NONE:
            reconciliation.react(tp, state, data.error_code)
            return
        try:
            if data.diverging_epoch is not None:
                reconciliation.follow_divergence(tp, state, data.diverging_epoch)
            else:
                self._append(tp, state, data)
        except LogAppendError as error:
            if error.code in _RETRIED_APPEND_ERRORS:
                _log.warning("Fetched records are invalid", partition=str(tp), why=error.why)
                reconciliation.delay(tp)
            else:
                reconciliation.give_up(tp, str(error))
        except LogOperationError as error:
            reconciliation.try_again(tp, error)
        except StorageError as error:
            reconciliation.lose(tp, error)
        except Exception as error:
            _log.exception("Appending fetched records failed", partition=str(tp))
            reconciliation.give_up(tp, repr(error))

    def _append(self, tp: TopicPartition, state: FetchState, data: FetchPartitionData) -> None:
        """Append the fetched records and update high watermark and log start from the leader's (R5.24)."""
        partition = self._setup.manager.online(tp)
        if partition is None or partition.log is None:
            self.reconciliation.delay(tp)
            return
        log = partition.log
        assert state.fetch_offset == log.log_end_offset, f"fetched {state.fetch_offset}, end is {log.log_end_offset}"
        offset, epoch, size = state.fetch_offset, state.last_fetched_epoch, 0
        if data.records:
            appended = log.append_as_follower(data.records, state.leader_epoch)
            size = appended.valid_bytes
            if size > 0:
                offset = Offset(appended.last_offset + 1)
                epoch = appended.last_leader_epoch if self.reconciliation.sends_last_epoch else epoch
        self._take_over_bounds(tp, log, data)
        lag = max(0, data.high_watermark - offset)
        if size > 0 or state.lag is None:
            in_sync = state.is_in_sync and lag == 0
            self.states.put(
                tp, replace(state, fetch_offset=offset, last_fetched_epoch=epoch, lag=lag, is_in_sync=in_sync)
            )
        quota = self._setup.manager.follower_quota
        if size > 0 and quota.is_throttled(log):
            quota.record(size, self._setup.manager.now_ms())
        if size > 0:
            self.states.move_to_end(tp)
            self._bytes.mark(size)
            self._setup.manager.metrics.replication_bytes_in.mark(size)
            if self._setup.manager.own_id in partition.assignment.adding:
                self._setup.manager.metrics.reassignment_bytes_in.mark(size)

    def _take_over_bounds(self, tp: TopicPartition, log: PartitionLog, data: FetchPartitionData) -> None:
        before = log.high_watermark
        if data.high_watermark != before:
            after = log.set_high_watermark(Offset(min(data.high_watermark, log.log_end_offset)))
            if after > before:
                self._setup.manager.high_watermark_rose(tp)
            elif after < before:
                _log.warning("High watermark decreased", partition=str(tp), before=before, after=after)
        start = min(data.log_start_offset, log.high_watermark)
        if start > log.log_start_offset:
            log.raise_log_start_offset(Offset(start))

    async def _wait_for_work(self) -> None:
        """Wait until a partition was added or a delay ended, at most `replica.fetch.backoff.ms`."""
        pause_s = self._setup.settings.replica_fetch_backoff_ms / 1000
        until_ready_s = self.states.seconds_until_ready(asyncio.get_running_loop().time())
        if until_ready_s is not None:
            pause_s = min(pause_s, until_ready_s)
        pause_s = max(pause_s, 0.001)  # A back-off of 0 still has to let other tasks run.
        try:
            async with asyncio.timeout(pause_s):
                await self._wake.wait()
        except TimeoutError:
            return

    def _count_request(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._window_start is None:
            self._window_start = now
        elif now - self._window_start >= _RATE_WINDOW_S:
            self.request_rate = self._window_requests / (now - self._window_start)
            self._window_start, self._window_requests = now, 0
        self._window_requests += 1
        self._requests.mark()


class _Throttle:
    """What one request may fetch of throttled partitions. Source: Kafka ReplicaFetcherThread.shouldFollowerThrottle."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._quota = manager.follower_quota
        self._left = self._quota.burst_bytes
        """Bytes; None: there is no rate."""
        self._is_exceeded = self._quota.is_exceeded(manager.now_ms())

    @property
    def has_rate(self) -> bool:
        """Whether anything may be throttled."""
        return self._left is not None

    def allow(self, log: PartitionLog, state: FetchState, max_bytes: int) -> int:
        """The most bytes of this partition; 0: it is left out.

        A replica that has just caught up waits once more, until its last records have been paid for by time: with its
        next fetch it joins the ISR. From then on, without lag, it is never held up.
        """
        if self._left is None or state.is_in_sync or not self._quota.is_throttled(log):
            return max_bytes
        allowed = 0 if self._is_exceeded else min(max_bytes, self._left)
        self._left -= allowed
        return allowed

    def is_newly_in_sync(self, state: FetchState) -> bool:
        """Whether a partition that is fetched now counts as in sync from now on."""
        return self._left is not None and state.lag == 0 and not state.is_in_sync


def _retrieve(task: asyncio.Task[FetchResponse]) -> None:
    """Nobody else asks for the error of an abandoned call."""
    if not task.cancelled():
        task.exception()
