"""ListOffsets and OffsetsForLeaderEpoch, answered by the leader.

Source: Kafka Partition.fetchOffsetForTimestamp, lastOffsetForLeaderEpoch; KIP-101, KIP-207, KIP-734.
"""

from functools import partial
from typing import Final

from broker_agent.decisions.data_requests import repeated_partitions
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import parse_header
from broker_agent.log.time_search import first_batch_at, newest_batches
from broker_agent.replication.hosted_partition import HostedPartition
from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.requests.batch_validation import BatchValidation
from broker_agent.requests.timed_records import TimedRecord, find_first_record, find_newest_record
from cluster.aio.slices import in_slices
from cluster.model.broker import NO_LEADER_EPOCH, BrokerId, Offset
from cluster.model.errors import ErrorCode, LogAppendError, StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.data import (
    CONSUMER,
    DEBUGGING_CONSUMER,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResult,
    OffsetForLeaderPartition,
    OffsetForLeaderResult,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
)

_AT_AN_END: Final = frozenset({EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP, LATEST_TIMESTAMP})
"""What is no time but an end of the log."""


class OffsetRequests:
    """Answers from the logs of partitions led here."""

    def __init__(self, manager: ReplicaManager, validation: BatchValidation) -> None:
        self._manager = manager
        self._validation = validation

    async def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        """The earliest offset, latest offset, the first one at a timestamp, or the one with the largest timestamp, per
        partition (R6.21).

        Consumers are told no more than the high watermark; followers, and what asks to debug, the end of the log. The
        latter is answered by followers, too. A partition that is named twice is refused, each time.
        """
        repeated = repeated_partitions(request.partitions)
        return ListOffsetsResponse(
            tuple(
                [
                    ListOffsetsResult(item.topic, item.partition, ErrorCode.INVALID_REQUEST)
                    if (item.topic, item.partition) in repeated
                    else await self._list_one(item, request.replica_id)
                    async for item in in_slices(request.partitions)
                ]
            )
        )

    async def offsets_for_leader_epoch(self, request: OffsetsForLeaderEpochRequest) -> OffsetsForLeaderEpochResponse:
        """End offsets of epochs in the leader's log, for followers that look for divergence (R6.20)."""
        return OffsetsForLeaderEpochResponse(
            tuple([self._epoch_end(item) async for item in in_slices(request.partitions)])
        )

    async def _list_one(self, item: ListOffsetsPartition, asked_by: BrokerId) -> ListOffsetsResult:
        found: TimedRecord | None = None
        try:
            if item.timestamp not in _AT_AN_END:
                found = await self._find_at_time(item, asked_by)
            return self._list_now(item, asked_by, found)
        except StorageError:
            return ListOffsetsResult(item.topic, item.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        except LogAppendError as error:
            return ListOffsetsResult(item.topic, item.partition, error.code)

    def _lookup(self, item: ListOffsetsPartition, asked_by: BrokerId) -> HostedPartition | ErrorCode:
        lookup = self._manager.lookup_replica if asked_by == DEBUGGING_CONSUMER else self._manager.lookup_leader
        return lookup(TopicPartition(item.topic, item.partition), item.current_leader_epoch)

    async def _find_at_time(self, item: ListOffsetsPartition, asked_by: BrokerId) -> TimedRecord | None:
        """The first record at or after the time, or the newest one."""
        partition = self._lookup(item, asked_by)
        if isinstance(partition, ErrorCode) or partition.log is None:
            return None
        if item.timestamp == MAX_TIMESTAMP:
            return await self._find_newest(partition.log)
        return await self._find_first(partition.log, item.timestamp)

    async def _find_first(self, log: PartitionLog, timestamp: int) -> TimedRecord | None:
        """The first record with this timestamp or a later one; batches are read off the event loop."""
        validation, start = self._validation, log.log_start_offset
        while (batch := await first_batch_at(log, timestamp, start)) is not None:
            find = partial(find_first_record, batch, timestamp, start, validation.decompressed_max)
            found = await validation.run_off_loop(batch, find)
            if found is not None and found.offset >= log.log_start_offset:
                return found
            # Of a batch at the log start only records that are deleted may be so late.
            start = Offset(parse_header(batch).last_offset + 1) if found is None else log.log_start_offset
        return None

    async def _find_newest(self, log: PartitionLog) -> TimedRecord | None:
        """The first record with the largest timestamp; batches are read off the event loop."""
        batches = await newest_batches(log)
        log_start, validation = log.log_start_offset, self._validation
        newest: TimedRecord | None = None
        for batch in batches:
            find = partial(find_newest_record, batch, log_start, validation.decompressed_max)
            found = await validation.run_off_loop(batch, find)
            if found is not None and (newest is None or found.timestamp > newest.timestamp):
                newest = found
        return newest

    def _list_now(self, item: ListOffsetsPartition, asked_by: BrokerId, found: TimedRecord | None) -> ListOffsetsResult:
        """`found`: the record, where that of a time is asked for."""
        partition = self._lookup(item, asked_by)
        if isinstance(partition, ErrorCode):
            return ListOffsetsResult(item.topic, item.partition, partition)
        log = partition.log
        assert log is not None, f"{partition.topic_partition} is looked up without a log"
        sees_all = asked_by != CONSUMER
        if item.timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return _found(item, log.log_start_offset, log)
        # A new leader may not know yet how far its predecessor committed. Until its high watermark reaches its own
        # epoch, a consumer could get an end offset lower than before (KIP-207).
        is_current = partition.epoch_start_offset is None or log.high_watermark >= partition.epoch_start_offset
        if item.timestamp == LATEST_TIMESTAMP:
            if not sees_all and not is_current:
                return ListOffsetsResult(item.topic, item.partition, ErrorCode.OFFSET_NOT_AVAILABLE)
            end = log.log_end_offset if sees_all else log.high_watermark
            return ListOffsetsResult(item.topic, item.partition, ErrorCode.NONE, -1, end, partition.leader_epoch)
        return self._at_time(item, log, found, sees_all=sees_all, is_current=is_current)

    @staticmethod
    def _at_time(
        item: ListOffsetsPartition,
        log: PartitionLog,
        found: TimedRecord | None,
        *,
        sees_all: bool,
        is_current: bool,
    ) -> ListOffsetsResult:
        if found is not None and found.offset < (log.log_end_offset if sees_all else log.high_watermark):
            return _found(item, found.offset, log, found.timestamp)
        # A timestamp later than every record is beyond the bound as well.
        code = ErrorCode.NONE if is_current or sees_all else ErrorCode.OFFSET_NOT_AVAILABLE
        return ListOffsetsResult(item.topic, item.partition, code)

    def _epoch_end(self, item: OffsetForLeaderPartition) -> OffsetForLeaderResult:
        tp = TopicPartition(item.topic, item.partition)
        partition = self._manager.lookup_leader(tp, item.current_leader_epoch)
        if isinstance(partition, ErrorCode):
            return OffsetForLeaderResult(item.topic, item.partition, partition)
        assert partition.log is not None, f"{tp} is led without a log"
        try:
            answer = partition.log.end_offset_for_epoch(item.leader_epoch)
        except StorageError:
            return OffsetForLeaderResult(item.topic, item.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        return OffsetForLeaderResult(item.topic, item.partition, ErrorCode.NONE, answer.epoch, answer.end_offset)


def _found(item: ListOffsetsPartition, offset: Offset, log: PartitionLog, timestamp: int = -1) -> ListOffsetsResult:
    epoch = log.epoch_at_offset(offset)
    return ListOffsetsResult(
        item.topic, item.partition, ErrorCode.NONE, timestamp, offset, NO_LEADER_EPOCH if epoch is None else epoch
    )
