"""Produce: appends on the leader and, if requested, waits for the in-sync replicas.

Source: Kafka ReplicaManager.appendRecords, DelayedProduce; KafkaApis.handleProduceRequest.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace

from broker_agent.decisions import data_requests
from broker_agent.decisions.isr import maximal_isr
from broker_agent.decisions.unacknowledged import Replication, explain
from broker_agent.log.append_info import AppendInfo
from broker_agent.log.partition_log import PartitionLog
from broker_agent.replication.hosted_partition import HostedPartition
from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.requests.batch_validation import BatchValidation
from cluster.aio.clock import WallClock
from cluster.aio.slices import each_slice, in_slices
from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import ErrorCode, LogAppendError, StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.data import ProducePartition, ProducePartitionResult, ProduceRequest, ProduceResponse

Validated = bytes | LogAppendError
"""A batch as it is to be appended, or why it is refused."""


class ProduceRequests:
    """Handles Produce. Partitions are independent of one another (R7.3).

    Requests for one partition are appended in the order of their arrival, whatever each of them waits for: batches of
    an idempotent producer are numbered. A request of many items is appended in slices, between which others have their
    turn, and roles may change.
    """

    def __init__(self, manager: ReplicaManager, clock: WallClock, validation: BatchValidation) -> None:
        self._manager = manager
        self._clock = clock
        self._validation = validation
        self._arrivals = ArrivalOrder()

    async def handle(self, request: ProduceRequest) -> ProduceResponse:
        """Append every record set; with acks=-1 respond when the high watermark reached them, or after the timeout."""
        if request.acks not in data_requests.VALID_ACKS:
            why = f"acks {request.acks} is none of -1, 0, 1"
            refused = tuple(
                ProducePartitionResult(item.topic, item.partition, ErrorCode.INVALID_REQUIRED_ACKS, error_message=why)
                for item in request.partitions
            )
            return ProduceResponse(refused)
        results: list[_Result] = []
        unflushed: list[_Unflushed] = []
        flushing: list[asyncio.Future[None]] = []
        async with self._arrivals.turn({TopicPartition(item.topic, item.partition) for item in request.partitions}):
            async for items in each_slice(request.partitions):
                validated = await self._validate_off_loop(items)
                # Nothing waits until the slice is appended: no role change can come in between (R7.4).
                appended = [self._append(request.acks, *each) for each in zip(items, validated, strict=True)]
                results += appended
                # What was appended must be committed even if its producer disconnects.
                begun = self._find_unflushed(appended)
                flushing += [asyncio.ensure_future(self._flush_until_durable(each)) for each in begun]
                unflushed += begun
        if request.acks == data_requests.ACKS_ALL:
            return ProduceResponse(tuple(await self._await_replication(request, results)))
        if flushing:
            await asyncio.shield(asyncio.gather(*flushing))
        lost = {u.partition.topic_partition for u in unflushed if not u.is_durable}
        return ProduceResponse(tuple(self._without(lost, result.answer) for result in results))

    async def _prepare_logs(self, items: Sequence[ProducePartition]) -> None:
        """Flush logs before their first records, together and in threads; an error is met again by the append."""
        led = (self._manager.online(TopicPartition(item.topic, item.partition)) for item in items)
        logs = (partition.log for partition in led if partition is not None and partition.is_leader)
        untouched = [log for log in logs if log is not None and log.is_untouched]
        if untouched:
            await asyncio.gather(*(log.prepare_for_records() for log in untouched), return_exceptions=True)

    async def _until_all_take_appends(self, items: Sequence[ProducePartition]) -> None:
        hosted = [self._manager.online(TopicPartition(item.topic, item.partition)) for item in items]
        partitions = [partition for partition in hosted if partition is not None]
        while (changing := next((p for p in partitions if not p.takes_appends), None)) is not None:
            await changing.until_it_takes_appends()

    async def _validate_off_loop(self, items: Sequence[ProducePartition]) -> list[Validated | None]:
        """Validate the batches that take long; None for the others, and for what is not led here.

        Returns when no role change is in progress; this holds until the caller's next await.
        """
        validated: list[Validated | None] = [None] * len(items)
        await self._prepare_logs(items)
        while True:
            await self._until_all_take_appends(items)
            waiting = {
                index: self._validation.validate_off_loop(item.records, log.config)
                for index, item in enumerate(items)
                if validated[index] is None and (log := self._log_for_long_validation(item)) is not None
            }
            if not waiting:
                return validated
            # One is the rule, and a task for it would cost as much as the validation.
            found = (
                await asyncio.gather(*waiting.values()) if len(waiting) > 1 else [await next(iter(waiting.values()))]
            )
            for index, outcome in zip(waiting, found, strict=True):
                validated[index] = outcome

    def _log_for_long_validation(self, item: ProducePartition) -> PartitionLog | None:
        """The log to which a batch would be appended now, if it takes long to validate."""
        if self._validation.is_quick(item.records):
            return None
        partition = self._manager.online(TopicPartition(item.topic, item.partition))
        return partition.log if partition is not None and partition.is_leader else None

    def _append(self, acks: int, item: ProducePartition, validated: Validated | None) -> "_Result":
        tp = TopicPartition(item.topic, item.partition)
        try:
            self._admit(tp, item)
            appended = self._append_to(tp, acks, item, validated)
        except LogAppendError as refusal:
            return _Result(self._refusal(tp, refusal, item.records), awaited=None)
        partition = self._manager.online(tp)
        assert partition is not None, f"{tp} vanished within one step"
        return _Result(
            ProducePartitionResult(
                topic=item.topic,
                partition=item.partition,
                error_code=ErrorCode.NONE,
                base_offset=appended.first_offset,
                log_append_time_ms=appended.log_append_time_ms,
                log_start_offset=self._log_start(tp),
            ),
            awaited=_Awaited(partition, partition.times_followed, Offset(appended.last_offset + 1)),
        )

    def _admit(self, tp: TopicPartition, item: ProducePartition) -> None:
        if not self._manager.metadata.contains(tp):
            raise LogAppendError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        self._manager.metrics.mark(tp.topic, "TotalProduceRequestsPerSec")
        code = data_requests.validate_record_set(item.records)
        if code is not ErrorCode.NONE:
            raise LogAppendError(code, "the record set must be exactly one batch of version 2")
        if tp.topic in data_requests.INTERNAL_TOPICS:
            raise LogAppendError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{tp.topic} is internal")

    def _append_to(
        self, tp: TopicPartition, acks: int, item: ProducePartition, validated: Validated | None
    ) -> AppendInfo:
        partition = self._manager.lookup(tp)
        if isinstance(partition, ErrorCode):
            raise LogAppendError(partition, "")
        if not partition.is_leader or partition.log is None:
            raise LogAppendError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "")
        if acks == data_requests.ACKS_ALL and len(partition.isr) < partition.min_isr:
            code = ErrorCode.NOT_ENOUGH_REPLICAS
            raise LogAppendError(
                code, explain(code, _replication(partition, partition.isr), required=Offset(0), timeout_ms=0)
            )
        if validated is None:
            validated = self._validation.validate(item.records, partition.log.config)
        if isinstance(validated, LogAppendError):
            raise validated
        try:
            appended = partition.append_as_leader(validated, self._clock.now_ms())
        except StorageError as error:
            raise LogAppendError(error.code, str(error)) from None
        if not appended.duplicate:
            self._manager.metrics.mark(tp.topic, "MessagesInPerSec", appended.record_count)
            self._manager.metrics.mark(tp.topic, "BytesInPerSec", appended.valid_bytes)
        if not self._manager.advance(partition):
            # Followers wait for the log end, not for the high watermark (R7.9).
            self._manager.follower_fetch_purgatory.check_and_complete(tp)
        return appended

    def _log_start(self, tp: TopicPartition) -> Offset:
        partition = self._manager.online(tp)
        assert partition is not None, f"{tp} vanished within one step"
        assert partition.log is not None, f"{tp} lost its log within one step"
        return partition.log.log_start_offset

    def _refusal(self, tp: TopicPartition, refusal: LogAppendError, records: bytes) -> ProducePartitionResult:
        self._count_refusal(tp.topic, refusal, records)
        result = ProducePartitionResult(
            tp.topic, tp.partition, refusal.code, error_message=refusal.why, record_errors=refusal.record_errors
        )
        if refusal.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return replace(result, log_start_offset=self._log_start(tp))
        return self._name_leader(tp, result)

    def _name_leader(self, tp: TopicPartition, result: ProducePartitionResult) -> ProducePartitionResult:
        """Add the leader known from the metadata cache to a NOT_LEADER_OR_FOLLOWER (R7.10)."""
        state = self._manager.metadata.partition_state(tp)
        if result.error_code is not ErrorCode.NOT_LEADER_OR_FOLLOWER or state is None:
            return result
        return replace(result, current_leader_id=state.leader, current_leader_epoch=state.leader_epoch)

    def _count_refusal(self, topic: str, refusal: LogAppendError, records: bytes) -> None:
        metrics, code = self._manager.metrics, refusal.code
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return  # A meter for every topic name that somebody invents would never end.
        meter = refusal.meter or data_requests.name_refusal_meter(code, records)
        if meter is not None:
            metrics.mark(topic, meter, len(records) if meter == data_requests.BYTES_REJECTED else 1)
        if code not in data_requests.UNREMARKABLE_PRODUCE_ERRORS:
            metrics.mark(topic, "FailedProduceRequestsPerSec")

    def _find_unflushed(self, results: "list[_Result]") -> "list[_Unflushed]":
        """Appends that may not be acknowledged before an fsync, because of `flush.messages` (R10.4 step 11)."""
        found = []
        for result in results:
            partition = self._manager.online(TopicPartition(result.answer.topic, result.answer.partition))
            if result.awaited is not None and partition is not None and partition.log is not None:
                unflushed = _Unflushed(partition, partition.log, result.awaited.required)
                if not unflushed.is_durable:
                    found.append(unflushed)
        return found

    async def _flush_until_durable(self, unflushed: "_Unflushed") -> None:
        """Flush, shared with others waiting for the same log, then advance the high watermark."""
        try:
            while not unflushed.is_durable:
                await unflushed.present_log.flush()
        except StorageError:
            if unflushed.present_log is unflushed.log:
                return  # Where it failed it was reported, and takes the whole directory out of service.
        self._manager.advance(unflushed.partition)

    @staticmethod
    def _without(lost: set[TopicPartition], answer: ProducePartitionResult) -> ProducePartitionResult:
        if not lost or TopicPartition(answer.topic, answer.partition) not in lost:
            return answer
        return replace(answer, error_code=ErrorCode.KAFKA_STORAGE_ERROR)

    async def _await_replication(
        self, request: ProduceRequest, results: "list[_Result]"
    ) -> list[ProducePartitionResult]:
        waiting = _WaitingProduce(self._manager)
        async for part in each_slice(results):
            waiting.add(part)
        keys = tuple(waiting.pending)
        async for slice_ in each_slice(keys):
            for key in slice_:
                waiting.test(key)
        # Of one slice there was no await since; of more, all are tested again, as any may have changed meanwhile.
        purgatory = self._manager.produce_purgatory
        if waiting.pending and not await purgatory.wait(waiting.test, keys, request.timeout_ms):
            async for expired in each_slice(tuple(waiting.pending)):
                self._manager.metrics.record_expired_produces(expired)
        return [self._final(waiting, result, request.timeout_ms) async for result in in_slices(results)]

    def _final(self, waiting: "_WaitingProduce", result: "_Result", timeout_ms: int) -> ProducePartitionResult:
        if result.awaited is None:
            return result.answer
        tp = result.awaited.partition.topic_partition
        answer = waiting.with_outcome(tp, result.answer)
        if answer.error_code is not ErrorCode.NONE and result.awaited.partition.log is not None:
            partition = result.awaited.partition
            state = _replication(partition, maximal_isr(partition.isr_state))
            why = explain(answer.error_code, state, required=result.awaited.required, timeout_ms=timeout_ms)
            answer = replace(answer, error_message=why)
        return self._name_leader(tp, answer)


def _replication(partition: HostedPartition, isr: Sequence[BrokerId]) -> Replication:
    return Replication(
        leader=partition.leader_id,
        replicas=partition.assignment.replicas,
        isr=isr,
        min_isr=partition.min_isr,
        remote=partition.remote,
    )


class _Awaited(Struct, frozen=True):
    """What acknowledges an append: its high watermark reaches `required` before the partition follows somebody."""

    partition: HostedPartition
    times_followed: int
    required: Offset

    def is_still_led(self, partition: HostedPartition) -> bool:
        """Whether the records can still be acknowledged: leadership was not lost since, be it regained (R7.14)."""
        return partition is self.partition and partition.is_leader and partition.times_followed == self.times_followed


class _Result(Struct, frozen=True):
    """One partition's result; `awaited`: what acknowledges it, None if nothing was appended."""

    answer: ProducePartitionResult
    awaited: _Awaited | None


class _Unflushed(Struct, frozen=True):
    """An append up to `required` (exclusive) to a log that may have to be flushed first."""

    partition: HostedPartition
    log: PartitionLog
    required: Offset

    @property
    def present_log(self) -> PartitionLog:
        """The log; the flushed copy that has taken its place meanwhile."""
        return self.log if self.partition.log is None else self.partition.log

    @property
    def is_durable(self) -> bool:
        log = self.present_log
        return log.durable_end_offset >= min(self.required, log.log_end_offset)


class _WaitingProduce:
    """Complete when every appended record set is acknowledged or can no longer be (R7.11 to R7.13)."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager
        self.pending: dict[TopicPartition, _Awaited] = {}
        self._codes: dict[TopicPartition, ErrorCode] = {}

    def add(self, results: Sequence[_Result]) -> None:
        """Wait for these, too."""
        for awaited in (result.awaited for result in results if result.awaited is not None):
            tp = awaited.partition.topic_partition
            first = self.pending.get(tp)
            # If leadership was lost between the two, the first is lost with it.
            # A repeated batch has the offsets of its first time, which are lower.
            both = awaited if first is None else replace(first, required=max(first.required, awaited.required))
            self.pending[tp] = both

    def test(self, key: TopicPartition) -> bool:
        """Check one partition again; True when none is pending any more.

        The leader epoch is not compared: becoming a follower ends the wait before a truncation could put other records
        at its offsets (R7.14).
        """
        awaited = self.pending.get(key)
        if awaited is not None:
            code = self._acknowledgement(key, awaited)
            if code is not None:
                self._codes[key] = code
                del self.pending[key]
        return not self.pending

    def with_outcome(self, tp: TopicPartition, answer: ProducePartitionResult) -> ProducePartitionResult:
        """The result with the code found, or REQUEST_TIMED_OUT while it is pending."""
        return replace(answer, error_code=self._codes.get(tp, ErrorCode.REQUEST_TIMED_OUT))

    def _acknowledgement(self, tp: TopicPartition, awaited: _Awaited) -> ErrorCode | None:
        partition = self._manager.lookup(tp)
        if isinstance(partition, ErrorCode):
            return partition
        if partition.log is None or not awaited.is_still_led(partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return data_requests.check_acknowledgement(
            high_watermark=partition.log.high_watermark,
            required_offset=awaited.required,
            maximal_isr_size=len(maximal_isr(partition.isr_state)),
            min_isr=partition.min_isr,
        )


class ArrivalOrder:
    """Keeps requests for the same partitions in the order in which they arrived, though each may wait for something.

    A turn begins when every turn taken before it for one of its partitions has ended; others run side by side.
    """

    def __init__(self) -> None:
        self._last: dict[TopicPartition, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def turn(self, partitions: Collection[TopicPartition]) -> AsyncIterator[None]:
        """Take a place at once, then wait until it is this one's turn."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        before = {self._last[tp] for tp in partitions if tp in self._last}
        self._last.update(dict.fromkeys(partitions, ended))
        try:
            if before:
                await asyncio.wait(before)
            yield
        finally:
            self._end(partitions, ended, before)

    def _end(
        self, partitions: Iterable[TopicPartition], ended: asyncio.Future[None], before: Iterable[asyncio.Future[None]]
    ) -> None:
        """End the turn; one that was given up while it waited lets nobody pass those before it."""
        for earlier in before:
            if not earlier.done():
                earlier.add_done_callback(lambda _: self._end(partitions, ended, before))
                return
        ended.set_result(None)
        for tp in partitions:
            if self._last.get(tp) is ended:
                del self._last[tp]
