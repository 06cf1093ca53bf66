"""Produces records: sends batches to the leaders of their partitions, in order within each partition.

Only one batch of a partition is in flight at a time, so that no later batch overtakes one that is sent again. A batch
is sent again after a retriable failure until its delivery timeout. Without producer ids, a batch whose answer was lost
may be stored twice: `ProducerTotals.batches_retried` counts the chances of that.
Source: Kafka Sender; KIP-91 (delivery timeout).
"""

import asyncio
from collections.abc import Callable, Iterator
from random import Random, SystemRandom
from typing import Final

from msgspec import Struct

from admin.accumulator import Accumulator, PartitionQueue, ProducerOptions, record_memory
from admin.record_batches import BATCH_OVERHEAD, Headers
from admin.topology import Topology
from admin.waiting import Wait
from cluster.aio.clock import WallClock
from cluster.aio.tasks import TaskSet
from cluster.model.broker import UNKNOWN_OFFSET, Offset
from cluster.model.errors import ApiError, ClusterError, ErrorCode, PeerUnreachableError, RequestTooLargeError
from cluster.model.partition import TopicPartition
from cluster.requests.data import ProducePartition, ProduceRequest, ProduceResponse

RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors that another leader, or the same one a little later, may not give: the batch is sent again."""

_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_MAX_REQUEST_BYTES = 8 * 1024 * 1024
"""Half of the bytes that a broker takes by default; one that takes less gets the batches in several requests."""


_Outcome = Offset | ClusterError
"""The result of one batch in one request: its base offset, or why it was not taken."""


class Delivery(Struct, frozen=True):
    """Holds the outcome of one batch. Without `error` it was acknowledged; `base_offset` is -1 with acks 0."""

    topic_partition: TopicPartition
    values: list[bytes | None]
    base_offset: Offset
    attempts: int
    error: ClusterError | None


class ProducerTotals(Struct):
    """Counts records, and batches that were sent again. `first_error`: why the first record was given up."""

    acknowledged: int = 0
    failed: int = 0
    batches_retried: int = 0
    first_error: ClusterError | None = None


class Producer:
    """Produces records; used as an async context manager, which flushes if it is left without an error.

    `on_delivery` is called once for each batch.
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
        """The wait for the acknowledgement of each queue's first batch, since that was first sent."""
        self.totals = ProducerTotals()

    async def __aenter__(self) -> "Producer":
        await self._tasks.__aenter__()
        self._tasks.start(self._run_sender(), name="sender")
        return self

    async def __aexit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        if error is None:
            await self.flush()
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
            pressed = self._flushing or self._accumulator.memory * 2 > self._options.buffer_memory
            next_check = now + 1.0
            by_leader: dict[str, list[PartitionQueue]] = {}
            for queue in self._accumulator.waiting():
                due = queue.due_at(pressed)
                if due > now:
                    next_check = min(next_check, due)
                elif queue.batches[0].deadline <= now:
                    self._give_up(queue, self._lateness(queue))
                else:
                    leader = self._topology.leader(*queue.topic_partition)
                    by_leader.setdefault("" if leader is None else leader.address, []).append(queue)
            for address, queues in by_leader.items():
                for together in _requests(queues):
                    for queue in together:
                        queue.in_flight = True
                    self._tasks.start(self._send(address, together), name=f"produce to {address}")
            try:
                async with asyncio.timeout_at(next_check):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _send(self, address: str, queues: list[PartitionQueue]) -> None:
        """Send the first batch of each queue to their leader in one request, and conclude each batch or keep it."""
        for queue in queues:
            queue.batches[0].attempts += 1
            self._begin_wait(queue)
        outcomes = await self._ask(address, queues)
        retry = [q for q in queues if not self._conclude(q, outcomes[q.topic_partition])]
        for topic in sorted({q.topic_partition.topic for q in retry}):
            await self._topology.refresh(topic)
        now = asyncio.get_running_loop().time()
        for queue in queues:
            queue.in_flight = False
        for queue in retry:
            queue.not_before = now + self._options.retry_backoff_ms / 1000
        self._wake.set()
        self._progress.set()

    async def _ask(self, address: str, queues: list[PartitionQueue]) -> dict[TopicPartition, _Outcome]:
        asked = [q.topic_partition for q in queues]
        if not address:
            nobody = ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "the partition has no leader")
            return dict.fromkeys(asked, nobody)
        timeout_ms = self._options.request_timeout_ms
        batches = tuple(ProducePartition(*q.topic_partition, q.batches[0].close()) for q in queues)
        request = ProduceRequest(self._options.acks, timeout_ms, batches)
        try:
            response = await self._topology.client.ask_broker(address, request, timeout_ms)
        except RequestTooLargeError as error:
            if len(queues) == 1:
                return dict.fromkeys(asked, error)
            middle = len(queues) // 2
            return await self._ask(address, queues[:middle]) | await self._ask(address, queues[middle:])
        except (PeerUnreachableError, ApiError) as error:
            return dict.fromkeys(asked, error)
        assert isinstance(response, ProduceResponse)
        if self._options.acks == 0:
            return dict.fromkeys(asked, UNKNOWN_OFFSET)
        forgotten = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the response of {address} lacks the partition")
        outcomes: dict[TopicPartition, _Outcome] = dict.fromkeys(asked, forgotten)
        for result in response.partitions:
            accepted = result.error_code is ErrorCode.NONE
            refusal = ApiError(result.error_code, result.error_message or f"refused by {address}")
            outcomes[TopicPartition(result.topic, result.partition)] = result.base_offset if accepted else refusal
        return outcomes

    def _conclude(self, queue: PartitionQueue, outcome: _Outcome) -> bool:
        """Take the outcome of a queue's first batch. Returns False if it must be sent again."""
        batch = queue.batches[0]
        if not isinstance(outcome, ClusterError):
            self.totals.acknowledged += batch.count
            self._end_first(queue, outcome, None)
            return True
        batch.last_error = outcome
        if outcome.code in _TOO_LARGE and batch.count > 1:
            self._end_wait(queue)
            self._accumulator.split_first(queue)
            return True
        if outcome.code not in RETRIABLE:
            self._give_up(queue, outcome)
            return True
        self.totals.batches_retried += 1
        return False

    def _give_up(self, queue: PartitionQueue, error: ClusterError) -> None:
        self.refuse(queue.batches[0].count, error)
        self._end_first(queue, UNKNOWN_OFFSET, error)
        self._progress.set()

    def _end_first(self, queue: PartitionQueue, base_offset: Offset, error: ClusterError | None) -> None:
        self._end_wait(queue)
        batch = self._accumulator.remove_first(queue)
        if self._on_delivery is not None:
            self._on_delivery(Delivery(queue.topic_partition, batch.values, base_offset, batch.attempts, error))

    def _begin_wait(self, queue: PartitionQueue) -> None:
        batch, tp = queue.batches[0], queue.topic_partition

        def unacknowledged() -> str:
            why = "its leader has not answered" if batch.last_error is None else batch.last_error
            return f"{tp}: not acknowledged yet ({why})"

        if tp not in self._waits:
            left_s = batch.deadline - asyncio.get_running_loop().time()
            self._waits[tp] = self._topology.client.waiting.begin(unacknowledged, left_s)

    def _end_wait(self, queue: PartitionQueue) -> None:
        wait = self._waits.pop(queue.topic_partition, None)
        if wait is not None:
            self._topology.client.waiting.end(wait)

    def _lateness(self, queue: PartitionQueue) -> ClusterError:
        last = queue.batches[0].last_error
        return ApiError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{queue.topic_partition}: not acknowledged within {self._options.delivery_timeout_ms} ms"
            + ("" if last is None else f"; last error: {last}"),
        )


def _requests(queues: list[PartitionQueue]) -> Iterator[list[PartitionQueue]]:
    """Split the due batches of one leader into requests of bounded size."""
    together: list[PartitionQueue] = []
    size = 0
    for queue in queues:
        size += len(queue.batches[0].close())
        if together and size > _MAX_REQUEST_BYTES:
            yield together
            together, size = [], len(queue.batches[0].close())
        together.append(queue)
    yield together
