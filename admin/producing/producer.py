"""Produces records: sends batches to the leaders of their partitions, in order within each partition.

A batch is sent again after a retriable failure until its delivery timeout. An idempotent producer numbers its batches
(`admin.producing.idempotence`), so that each is stored once, and up to five of a partition are in flight. Any other has
one in flight, so a retry never overtakes a later batch; one whose answer was lost may be stored twice:
`ProducerTotals.batches_retried` counts the chances of that. Source: Kafka Sender; KIP-91 (delivery timeout).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from math import inf
from random import Random, SystemRandom
from typing import NamedTuple

from msgspec import Struct

from admin.connecting.waiting import Wait
from admin.consuming.record_batches import BATCH_OVERHEAD, Headers
from admin.describing.topology import LeaderAddress, Topology
from admin.moving.throttled_leaders import ThrottledLeaders
from admin.producing.accumulator import AccumulatedBatch, Accumulator, PartitionQueue, ProducerOptions, record_memory
from admin.producing.idempotence import ProducerNumbers, Reaction, is_idempotent
from admin.producing.produce_outcomes import (
    RETRIABLE,
    TOO_LARGE,
    explain,
    forgotten,
    is_out_of_order,
    may_be_stored_after,
    unexplained,
)
from admin.producing.producer_id_source import ProducerIdSource
from cluster.aio.clock import WallClock
from cluster.aio.tasks import TaskSet
from cluster.model.broker import UNKNOWN_OFFSET, Offset
from cluster.model.errors import (
    ApiError,
    ClusterError,
    ErrorCode,
    PeerUnreachableError,
    RequestTooLargeError,
)
from cluster.model.partition import TopicPartition
from cluster.requests.data import ProducePartition, ProduceRequest

_MAX_REQUEST_BYTES = 8 * 1024 * 1024
"""Half of the bytes that a broker takes by default; one that takes less gets the batches in several requests."""
_GRACE_MS = 1_000
"""For the way of an answer that a broker gives at the end of the request's time."""


_Outcome = Offset | ClusterError
"""The result of one batch in one request: its base offset, or why it was not taken."""


class _Sending(NamedTuple):
    """Names a batch on its way, and the leadership to which it was sent."""

    queue: PartitionQueue
    batch: AccumulatedBatch
    leader: LeaderAddress | None


class Delivery(Struct, frozen=True):
    """Holds the outcome of one batch. Without `error` it was acknowledged.

    `base_offset` is -1 with acks 0, and where the leader knows that it has the batch, and no longer where.
    """

    topic_partition: TopicPartition
    values: list[bytes | None]
    base_offset: Offset
    attempts: int
    error: ClusterError | None


class ProducerTotals(Struct):
    """Counts records, and batches that were sent again. `throttled_ms`: the sum of the throttle times of all answers,
    for which brokers did not hear this client; `first_error`: why the first record was given up.
    """

    acknowledged: int = 0
    failed: int = 0
    batches_retried: int = 0
    throttled_ms: int = 0
    first_error: ClusterError | None = None


class Producer:
    """Produces records; used as an async context manager, which flushes if it is left without an error.

    `on_delivery` is called once per batch. Raises ApiError(INVALID_CONFIG) for options that contradict one another.
    """

    def __init__(
        self,
        topology: Topology,
        clock: WallClock,
        options: ProducerOptions | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
        random: Random | None = None,
    ) -> None:
        self._topology = topology
        self._clock = clock
        self._options = ProducerOptions() if options is None else options
        self._on_delivery = on_delivery
        self.is_idempotent = is_idempotent(
            self._options.enable_idempotence, self._options.acks, self._options.max_in_flight_requests_per_connection
        )
        self._numbers = ProducerNumbers()
        self._ids = ProducerIdSource(
            topology, timeout_ms=self._options.request_timeout_ms, backoff_ms=self._options.retry_backoff_ms
        )
        self._is_asking_for_id = False
        self._fatal: ClusterError | None = None
        """Why no record can be sent any more."""
        self._accumulator = Accumulator(
            self._options,
            lambda tp: topology.leader(tp.topic, tp.partition) is not None,
            SystemRandom() if random is None else random,
        )
        self._partitions: dict[str, list[int]] = {}
        self._flushing = False
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._tasks = TaskSet()
        self._waits: dict[TopicPartition, Wait] = {}
        """For the acknowledgement of a batch of each queue, since it was first sent."""
        self._throttled = ThrottledLeaders(topology.client)
        self._requests: Counter[str] = Counter()
        """The number of requests on their way, by address."""
        self.totals = ProducerTotals()

    async def __aenter__(self) -> "Producer":
        await self._tasks.__aenter__()
        self._tasks.start(self._run_sender(), name="sender")
        return self

    async def __aexit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        if error is None:
            await self.flush()
        self._throttled.release()
        await self._tasks.leave(error)

    async def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None = None,
        *,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> None:
        """Put a record into its partition's batch; wait only while the buffer is full.

        `timestamp` is in ms; None: now. Raises ApiError for a topic or partition that does not exist and for a record
        above `max_request_size`.
        """
        size = record_memory(key, value, headers)
        if size + BATCH_OVERHEAD > self._options.max_request_size:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a record of {size} bytes is larger than max.request.size, {self._options.max_request_size} bytes",
                field="value",
                value=size,
            )
        partitions = self._partitions.get(topic)
        if partitions is None:
            partitions = self._partitions[topic] = await self._topology.partitions(topic)
        if partition is not None and partition not in partitions:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic!r} has no partition {partition}: it has {len(partitions)}, numbered from 0",
                field="partition",
                value=partition,
            )
        while self._accumulator.memory + size > self._options.buffer_memory:
            await self._wait_for_progress()
        now = asyncio.get_running_loop().time()
        created = self._clock.now_ms() if timestamp is None else timestamp
        if self._accumulator.append(topic, partitions, partition, (key, value, headers), timestamp=created, now=now):
            self._wake.set()

    def refuse(self, count: int, error: ClusterError) -> None:
        """Count records as failed, whether they were given up or never taken."""
        self.totals.failed += count
        if self.totals.first_error is None:
            self.totals.first_error = error

    @property
    def is_throttled(self) -> bool:
        """Whether a broker does not hear this client now, as it is over its quota."""
        return self._throttled.is_throttled

    async def flush(self) -> None:
        """Send all batches without lingering and wait until each is acknowledged or has failed."""
        self._flushing = True
        while not self._accumulator.is_empty:
            await self._wait_for_progress()
        self._flushing = False

    async def _wait_for_progress(self) -> None:
        self._progress.clear()
        self._wake.set()
        await self._progress.wait()

    async def _run_sender(self) -> None:
        """Send due batches, then sleep until the next one is due or a state changes."""
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            now = loop.time()
            due, next_check = self._find_due(now)
            by_leader: dict[str, list[_Sending]] = {}
            for sending in due:
                by_leader.setdefault("" if sending.leader is None else sending.leader.address, []).append(sending)
            for address, sendings in by_leader.items():
                for together in _requests(sendings):
                    self._requests[address] += 1
                    self._tasks.start(self._send(address, together), name=f"produce to {address}")
            if due:
                # Further batches of these partitions may follow at once, each in a request of its own.
                self._wake.set()
            try:
                async with asyncio.timeout_at(next_check):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _find_due(self, now: float) -> tuple[list[_Sending], float]:
        """Mark the batches to send now, at most one of each partition, and give up those that are too late.

        Return them, and the time at which others may be due.
        """
        pressed = self._flushing or self._accumulator.memory * 2 > self._options.buffer_memory
        next_check = now + 1.0
        due: list[_Sending] = []
        held: dict[str, float] = {}
        for queue in self._accumulator.waiting():
            self._renew_numbers(queue)
            if not queue.batches:
                continue
            leader = self._topology.leader(*queue.topic_partition)
            batch = queue.next_batch(leader, self._in_flight(queue))
            sends_from = self._sends_from(leader)
            at = max(queue.due_at(pressed), sends_from)
            if batch is None:
                continue
            if leader is not None and sends_from > now:
                held[leader.address] = min(held.get(leader.address, inf), batch.deadline)
            if at > now and batch.deadline > now:
                next_check = min(next_check, at, batch.deadline)
            elif self._fatal is not None or batch.deadline <= now:
                self._give_up(queue, batch, self._fatal or self._lateness(queue, batch))
                self._wake.set()
            elif self._number(queue, batch):
                batch.is_on_wire = True
                due.append(_Sending(queue, batch, leader))
        self._throttled.hold(held)
        if self._accumulator.is_empty:
            self._throttled.release()
        return due, next_check

    def _in_flight(self, queue: PartitionQueue) -> int:
        """The number of batches that may be on the wire: one, until those of an older epoch have ended."""
        is_current = self.is_idempotent and queue.numbers.producer == self._numbers.identity
        return self._options.max_in_flight_requests_per_connection if is_current else 1

    def _renew_numbers(self, queue: PartitionQueue) -> None:
        """Bring the queue to the present producer id and epoch, if it may go there."""
        if self.is_idempotent:
            for batch in self._numbers.renew(queue):
                self._give_up(queue, batch, forgotten(queue.topic_partition, batch))
                self._wake.set()

    def _number(self, queue: PartitionQueue, batch: AccumulatedBatch) -> bool:
        """Give the batch its number before it is first sent. Returns whether it has all that it needs to be sent."""
        if not self.is_idempotent:
            return True
        if self._numbers.identity is None and not self._is_asking_for_id:
            self._is_asking_for_id = True
            self._tasks.start(self._ask_for_id(), name="producer id")
        if queue.numbers.needs_new_epoch:
            return False
        if batch.number is None:
            if self._numbers.identity is None:
                return False
            batch.close()
            batch.number = queue.numbers.take(batch.count)
        return True

    async def _ask_for_id(self) -> None:
        try:
            self._numbers.identity = await self._ids.new_identity()
        except ApiError as error:
            # As idempotence was asked for by nobody, it is given up where the brokers are too old for it. Without a
            # right to write anywhere the answer to the records says so, and to which topic.
            self.is_idempotent = False
            self._fatal = error if self._options.enable_idempotence else None
        self._is_asking_for_id = False
        self._wake.set()

    async def _send(self, address: str, sendings: list[_Sending]) -> None:
        """Send batches to one leader in one request, and conclude each, or keep it for another try."""
        for sending in sendings:
            sending.batch.attempts += 1
            self._begin_wait(sending.queue, sending.batch)
        try:
            outcomes = await self._ask(address, sendings)
        finally:
            self._requests[address] -= 1
        retry = [s for s in sendings if not self._conclude(s, outcomes[s.queue.topic_partition])]
        moved = {s.queue.topic_partition.topic for s in retry if not is_out_of_order(s.batch)}
        for topic in sorted(moved):
            await self._topology.refresh(topic)
        now = asyncio.get_running_loop().time()
        for queue, batch, _ in retry:
            batch.is_on_wire = False
            # One that only arrived before the batch in front of it has no reason to wait for longer than that one.
            if not is_out_of_order(batch) or batch.attempts > 2:
                queue.not_before = now + self._options.retry_backoff_ms / 1000
        self._wake.set()
        self._progress.set()

    async def _ask(self, address: str, sendings: list[_Sending]) -> dict[TopicPartition, _Outcome]:
        asked = [s.queue.topic_partition for s in sendings]
        if not address:
            nobody = ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "the partition has no leader")
            return dict.fromkeys(asked, nobody)
        timeout_ms = self._options.request_timeout_ms
        batches = tuple(ProducePartition(*s.queue.topic_partition, s.batch.to_send()) for s in sendings)
        request = ProduceRequest(self._options.acks, timeout_ms, batches)
        try:
            # Later than the broker gives up one of the partitions: its answer has the outcome of the others.
            response = await self._topology.client.ask_broker(address, request, timeout_ms + _GRACE_MS)
        except RequestTooLargeError as error:
            if len(sendings) == 1:
                return dict.fromkeys(asked, error)
            middle = len(sendings) // 2
            return await self._ask(address, sendings[:middle]) | await self._ask(address, sendings[middle:])
        except (PeerUnreachableError, ApiError) as error:
            self._throttled.failed(address)
            return dict.fromkeys(asked, error)
        self._throttled.answered(address, response.throttle_time_ms)
        self.totals.throttled_ms = self._throttled.total_ms
        if self._options.acks == 0:
            return dict.fromkeys(asked, UNKNOWN_OFFSET)
        forgotten = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the response of {address} lacks the partition")
        outcomes: dict[TopicPartition, _Outcome] = dict.fromkeys(asked, forgotten)
        name = self._topology.client.name(address)
        for result in response.partitions:
            accepted = result.error_code is ErrorCode.NONE
            refusal = ApiError(result.error_code, result.error_message or unexplained(result.error_code, name))
            outcomes[TopicPartition(result.topic, result.partition)] = result.base_offset if accepted else refusal
        return outcomes

    def _sends_from(self, leader: LeaderAddress | None) -> float:
        """The time until which nothing is sent to the leader, as it throttles this client; 0 if it does not (KIP-219).

        Then only one request at a time is sent there: others would wait for those before them, and use up their time.
        """
        until = None if leader is None else self._throttled.until(leader.address)
        if leader is None or until is None:
            return 0
        return inf if self._requests[leader.address] else until

    def _conclude(self, sending: _Sending, outcome: _Outcome) -> bool:
        """Account for the answer about a batch; False when it must be sent again."""
        queue, batch, leader = sending
        if not isinstance(outcome, ClusterError):
            self._take_as_stored(queue, batch, leader, outcome)
            return True
        batch.last_error = outcome
        batch.may_be_stored = batch.may_be_stored or may_be_stored_after(outcome)
        if outcome.code in TOO_LARGE and batch.count > 1:
            self._end_wait(queue)
            self._accumulator.split(queue, batch)
            return True
        match self._react(queue, batch, outcome.code):
            case Reaction.TAKE_AS_STORED:
                self._take_as_stored(queue, batch, leader, UNKNOWN_OFFSET)
            case Reaction.GIVE_UP:
                self._give_up(queue, batch, explain(queue.topic_partition, batch, outcome))
            case Reaction.SEND_AGAIN:
                self.totals.batches_retried += 1
                return False
        return True

    def _react(self, queue: PartitionQueue, batch: AccumulatedBatch, code: ErrorCode) -> Reaction:
        if batch.number is None:
            return Reaction.SEND_AGAIN if code in RETRIABLE else Reaction.GIVE_UP
        if code is ErrorCode.INVALID_PRODUCER_EPOCH:
            self._numbers.drop_id(batch.number.producer)
        is_first = queue.batches[0] is batch
        return queue.numbers.react(code, batch, is_retriable=code in RETRIABLE, is_first=is_first)

    def _take_as_stored(
        self, queue: PartitionQueue, batch: AccumulatedBatch, leader: LeaderAddress | None, base_offset: Offset
    ) -> None:
        self.totals.acknowledged += batch.count
        if batch.number is not None:
            queue.numbers.acknowledge(batch.number, batch.count, leader)
        self._end(queue, batch, base_offset, None)

    def _give_up(self, queue: PartitionQueue, batch: AccumulatedBatch, error: ClusterError) -> None:
        if batch.number is not None and not queue.numbers.needs_new_epoch:
            queue.numbers.give_up(batch.number, batch.count)
        self.refuse(batch.count, error)
        self._end(queue, batch, UNKNOWN_OFFSET, error)
        self._progress.set()

    def _end(
        self, queue: PartitionQueue, batch: AccumulatedBatch, base_offset: Offset, error: ClusterError | None
    ) -> None:
        self._end_wait(queue)
        self._accumulator.remove(queue, batch)
        for other in queue.batches:
            if other.is_on_wire:
                self._begin_wait(queue, other)
                break
        if self._on_delivery is not None:
            self._on_delivery(Delivery(queue.topic_partition, batch.values, base_offset, batch.attempts, error))

    def _begin_wait(self, queue: PartitionQueue, batch: AccumulatedBatch) -> None:
        tp = queue.topic_partition

        def unacknowledged() -> str:
            why: object = "its leader has not answered" if batch.last_error is None else batch.last_error
            return self._throttle_of(tp) or f"{tp}: not acknowledged yet ({why})"

        if tp not in self._waits:
            left_s = batch.deadline - asyncio.get_running_loop().time()
            self._waits[tp] = self._topology.client.waiting.begin(unacknowledged, left_s)

    def _end_wait(self, queue: PartitionQueue) -> None:
        wait = self._waits.pop(queue.topic_partition, None)
        if wait is not None:
            self._topology.client.waiting.end(wait)

    def _throttle_of(self, tp: TopicPartition) -> str:
        """Say that the leader throttles this client; "" where it does not."""
        leader = self._topology.leader(*tp)
        return "" if leader is None else self._throttled.describe(leader.address)

    def _lateness(self, queue: PartitionQueue, batch: AccumulatedBatch) -> ClusterError:
        without_id = self.is_idempotent and batch.number is None and self._numbers.identity is None
        last = f"no producer id: {self._ids.failure}" if without_id else batch.last_error
        throttle = self._throttle_of(queue.topic_partition)
        return ApiError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{queue.topic_partition}: not acknowledged within {self._options.delivery_timeout_ms} ms"
            + ("" if last is None else f"; last error: {last}")
            + (f"; {throttle}" if throttle else ""),
        )


def _requests(sendings: list[_Sending]) -> Iterator[list[_Sending]]:
    """Split the due batches of one leader into requests of bounded size."""
    together: list[_Sending] = []
    size = 0
    for sending in sendings:
        size += len(sending.batch.close())
        if together and size > _MAX_REQUEST_BYTES:
            yield together
            together, size = [], len(sending.batch.close())
        together.append(sending)
    yield together
