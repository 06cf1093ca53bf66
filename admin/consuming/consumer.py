"""Consumes a topic: fetches its partitions from their leaders, and from the next leaders when these change.

A task for each broker keeps one fetch in flight, in a session, so that a fetch names only what changed. The records
wait in a bounded queue, so a slow reader slows the fetching. There are no consumer groups: the caller keeps the
positions. Source: Kafka Fetcher; KIP-227, KIP-320, KIP-392.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from admin.connecting.waiting import Wait
from admin.consuming.offsets import RETRIABLE
from admin.consuming.read_replicas import ReadReplicas
from admin.consuming.record_batches import BadBatchError, Record, decode_records
from admin.describing.topology import Topology
from admin.moving.progress import some_of
from admin.moving.throttled_leaders import ThrottledLeaders
from admin.producing.missing_topics import missing_topic
from cluster.aio.tasks import TaskSet
from cluster.cli.typed_command import typed_command
from cluster.model.broker import Offset
from cluster.model.errors import ApiError, ClusterError, ErrorCode, PeerUnreachableError
from cluster.model.partition import TopicPartition
from cluster.requests.data import (
    CONSUMER,
    NO_READ_REPLICA,
    NO_SESSION,
    SESSIONLESS_EPOCH,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
)
from cluster.requests.fetcher_session import SESSION_ERRORS, AskedPartition, FetcherSession, SessionRequest

_RETRY_PAUSE_S = 0.1
_END_TIMEOUT_MS: Final = 1000
"""How long to tell a broker that its session is not needed any more; it learns of it later by itself."""


class ConsumerOptions(Struct, frozen=True, kw_only=True):
    """Holds Kafka's consumer settings under its names; times are in ms, sizes in bytes.

    `client_rack`: read from replicas in this rack, where the brokers select them by rack; empty: from leaders only.
    `metadata_max_age_ms`: after this time with a follower the leader is asked again which one to read from.
    """

    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 33_554_432
    max_partition_fetch_bytes: int = 4_194_304
    request_timeout_ms: int = 30_000
    client_rack: str = ""
    metadata_max_age_ms: int = 300_000


class ConsumedRecords(Struct, frozen=True):
    """Holds records of one partition in offset order, at least one."""

    partition: int
    records: list[Record]


class UnreadableBatchError(ClusterError):
    """Raised for a batch that cannot be read; the next readable offset is `next_offset`."""

    code = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, topic: str, partition: int, error: BadBatchError) -> None:
        super().__init__(
            f"{self.code.name}: {topic}-{partition}: the batch at offset {error.base_offset} cannot be read:"
            f" {error.why}; to skip it, read from offset {error.next_offset} on:"
            f" {typed_command()} consume {topic} --partition {partition} --offset {error.next_offset}"
        )
        self.topic, self.partition = topic, partition
        self.base_offset, self.next_offset = error.base_offset, error.next_offset


class Consumer:
    """Reads from `positions` (partition to offset) on; with `until`, each partition ends at that offset (exclusive).

    Use it as an async context manager and iterate over `fetched()` once. That raises a failure that another leader
    cannot mend: ApiError(OFFSET_OUT_OF_RANGE) if a position is outside the log, and UnreadableBatchError for a batch
    that cannot be read, after all records before it.
    """

    def __init__(
        self,
        topology: Topology,
        topic: str,
        positions: Mapping[int, Offset],
        *,
        until: Mapping[int, Offset] | None = None,
        options: ConsumerOptions | None = None,
    ) -> None:
        self._topology = topology
        self._topic = topic
        self._positions = dict(positions)
        self._until = until
        self._options = ConsumerOptions() if options is None else options
        self._replicas = ReadReplicas(topology, topic, self._options.metadata_max_age_ms / 1000)
        self._fetched: asyncio.Queue[ConsumedRecords | Exception | None] = asyncio.Queue(maxsize=8)
        self._workers: set[str] = set()
        self._sessions: dict[str, FetcherSession[None]] = {}
        """By the address of the broker."""
        self._tasks = TaskSet()
        self._waits: dict[str, Wait] = {}
        self._throttled = ThrottledLeaders(topology.client)
        self._obstacles: dict[str, str] = {}
        """For each broker the reason why its last answer was no good, for the notice of a long wait."""

    async def __aenter__(self) -> "Consumer":
        await self._tasks.__aenter__()
        return self

    async def __aexit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        try:
            await self._tasks.leave(error)
        finally:
            await asyncio.gather(
                *(self._end_session(address, session.id) for address, session in self._sessions.items())
            )

    async def fetched(self) -> AsyncGenerator[ConsumedRecords, None]:
        """Yield records as they are fetched; ends when every partition has reached its `until`."""
        if self._until is not None:
            for partition, end in self._until.items():
                if partition in self._positions and self._positions[partition] >= end:
                    del self._positions[partition]
        self._assign()
        while self._positions or not self._fetched.empty():
            item = await self._fetched.get()
            if isinstance(item, Exception):
                raise item
            if item is not None:
                yield item

    def _assign(self) -> None:
        """Start a task for each broker to read from that has none; partitions without a leader share one."""
        now = asyncio.get_running_loop().time()
        for partition in self._positions:
            source = self._replicas.source(partition, now)
            address = "" if source is None else source.address
            if address not in self._workers:
                self._workers.add(address)
                self._tasks.start(self._work(address), name=f"fetch from {address}")

    async def _work(self, address: str) -> None:
        """Fetch from one broker until no wanted partition is to be read there; then start the tasks of the others."""
        while wanted := self._wanted_from(address):
            self._begin_wait(address)
            try:
                in_order = bool(address) and await self._fetch(address, wanted)
            except Exception as error:
                self._end_wait(address)
                # Raised by the reader; the other partitions' tasks end with it.
                await self._fetched.put(error)
                return
            if not in_order:
                await asyncio.sleep(_RETRY_PAUSE_S)
                await self._topology.refresh(self._topic)
            # Also what is to be read elsewhere since, be it only for the time that has passed.
            self._assign()
        self._workers.discard(address)
        self._end_wait(address)
        self._assign()
        # Wakes the reader, who may be waiting for the last partition to end.
        await self._fetched.put(None)

    def _wanted_from(self, address: str) -> list[FetchPartition]:
        wanted, now = [], asyncio.get_running_loop().time()
        for partition, offset in self._positions.items():
            source = self._replicas.source(partition, now)
            if source is None:
                if not address:
                    wanted.append(FetchPartition(self._topic, None, partition, offset, 0))
            elif source.address == address:
                limit = self._options.max_partition_fetch_bytes
                wanted.append(FetchPartition(self._topic, None, partition, offset, limit, source.epoch))
        return wanted

    async def _fetch(self, address: str, wanted: Sequence[FetchPartition]) -> bool:
        """Fetch once. Returns False if the leaders must be refreshed."""
        session = self._sessions.setdefault(address, FetcherSession())
        request = _next_request(session, wanted)
        try:
            response = await self._ask(address, request)
        except PeerUnreachableError as error:
            self._obstacles[address] = str(error)
            self._replicas.forget_broker(address)
            return False
        self._throttled.answered(address, response.throttle_time_ms)
        if response.error_code in SESSION_ERRORS and not request.is_full:
            # The next fetch begins another session.
            session.reset()
            return True
        if response.error_code is ErrorCode.NONE:
            session.take_answer(request, response)
        else:
            session.reset()
        return await self._take_all(address, response, {item.partition: item.fetch_offset for item in wanted})

    async def _ask(self, address: str, request: SessionRequest) -> FetchResponse:
        """Send a fetch. Without an answer nobody knows what the broker knows of its session."""
        options = self._options
        fetch = FetchRequest(
            CONSUMER,
            request.partitions,
            options.fetch_max_wait_ms,
            options.fetch_min_bytes,
            options.fetch_max_bytes,
            rack_id=options.client_rack,
            session_id=request.session_id,
            session_epoch=request.session_epoch,
            forgotten_partitions=request.forgotten_partitions,
        )
        try:
            return await self._topology.client.ask_broker(address, fetch, options.request_timeout_ms)
        except BaseException:
            self._sessions[address].reset()
            raise

    async def _end_session(self, address: str, session_id: int) -> None:
        """Tell a broker that a session is not needed any more."""
        if session_id == NO_SESSION:
            return
        rack = self._options.client_rack
        request = FetchRequest(
            CONSUMER, (), 0, 0, 0, rack_id=rack, session_id=session_id, session_epoch=SESSIONLESS_EPOCH
        )
        with contextlib.suppress(ClusterError):
            await self._topology.client.ask_broker(address, request, _END_TIMEOUT_MS)

    async def _take_all(self, address: str, response: FetchResponse, asked: Mapping[int, Offset]) -> bool:
        """Take what a broker answered. Returns False if the leaders must be refreshed.

        `asked`: by partition, the offset that it was asked for.
        """
        in_order = response.error_code is ErrorCode.NONE
        errors = {response.error_code, *(data.error_code for data in response.partitions)} - {ErrorCode.NONE}
        if errors:
            self._obstacles[address] = f"{address}: {', '.join(sorted(error.name for error in errors))}"
        else:
            # Here: a slow reader of the records is nobody's fault.
            self._end_wait(address)
        for data in response.partitions:
            # An old leader may answer late what was read from the new one meanwhile (Kafka Fetcher.initializeFetch).
            if self._positions.get(data.partition) == asked.get(data.partition):
                in_order = await self._take(address, data) and in_order
        # The next fetch begins after the last one's records, so a partition that got none goes first.
        for data in response.partitions:
            if data.records and data.partition in self._positions:
                self._positions[data.partition] = self._positions.pop(data.partition)
        return in_order

    def _begin_wait(self, address: str) -> None:
        def without_records() -> str:
            names = [f"{wanted.topic}-{wanted.partition}" for wanted in self._wanted_from(address)]
            why = self._obstacles.get(address, f"{address} has not answered" if address else "there is no leader")
            return self._throttled.describe(address) or f"no answer for {some_of(names)} yet ({why})"

        if address not in self._waits:
            self._waits[address] = self._topology.client.waiting.begin(without_records, None)

    def _end_wait(self, address: str) -> None:
        self._obstacles.pop(address, None)
        wait = self._waits.pop(address, None)
        if wait is not None:
            self._topology.client.waiting.end(wait)

    def _is_leader(self, address: str, partition: int) -> bool:
        leader = self._topology.leader(self._topic, partition)
        return leader is not None and leader.address == address

    async def _take(self, address: str, data: FetchPartitionData) -> bool:
        """Take what a broker answered for one partition. Returns False if the leaders must be refreshed."""
        offset = self._positions.get(data.partition)
        if offset is None:
            return True
        if data.error_code is not ErrorCode.NONE and not self._is_leader(address, data.partition):
            # A follower lags behind, or is none any more: the leader knows better.
            self._replicas.forget(data.partition)
            return data.error_code not in RETRIABLE
        if data.error_code in RETRIABLE:
            return False
        if data.preferred_read_replica != NO_READ_REPLICA:
            self._replicas.prefer(data.partition, data.preferred_read_replica, asyncio.get_running_loop().time())
            # Where its address is not known yet, it is by the next metadata.
            return self._topology.address(data.preferred_read_replica) is not None
        if data.error_code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise missing_topic(self._topic, data.error_code)
        if data.error_code is not ErrorCode.NONE:
            raise ApiError(
                data.error_code,
                f"partition {data.partition} of {self._topic!r}, offset {offset}: the log begins at"
                f" {data.log_start_offset} and ends for consumers at {data.high_watermark}",
                field="offset",
                value=offset,
            )
        try:
            decoded = decode_records(data.records, offset)
        except BadBatchError as error:
            raise UnreadableBatchError(self._topic, data.partition, error) from None
        records = decoded.records
        end = None if self._until is None else self._until.get(data.partition)
        self._positions[data.partition] = decoded.next_offset
        if end is not None and decoded.next_offset > end:
            records = [r for r in records if r.offset < end]
        if records:
            await self._fetched.put(ConsumedRecords(data.partition, records))
        if end is not None and decoded.next_offset >= end:
            # Only now: the reader ends when no partition is left and the queue is empty.
            self._positions.pop(data.partition, None)
        return True


def _next_request(session: FetcherSession[None], wanted: Iterable[FetchPartition]) -> SessionRequest:
    """Return what to say to a broker, from which these partitions are wanted."""
    asked = {TopicPartition(item.topic, item.partition): AskedPartition(None, item) for item in wanted}
    if not session.is_established:
        return session.request_all(asked)
    gone: dict[TopicPartition, AskedPartition[None] | None] = {tp: None for tp in session.asked if tp not in asked}
    return session.request_changes({**gone, **asked})
