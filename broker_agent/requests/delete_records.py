"""DeleteRecords: raises the log start on the leader and waits until the live followers have done so.

Records below the log start can no longer be read; their segments are deleted by the next retention check. Source: Kafka
ReplicaManager.deleteRecords, DelayedDeleteRecords; KIP-107.
"""

from msgspec import Struct
from msgspec.structs import replace

from broker_agent.decisions.data_requests import INTERNAL_TOPICS
from broker_agent.decisions.record_deletion import validate_deletion
from broker_agent.log.partition_log import PartitionLog
from broker_agent.replication.hosted_partition import HostedPartition
from broker_agent.replication.replica_manager import ReplicaManager
from cluster.aio.slices import in_slices
from cluster.model.broker import NO_LEADER_EPOCH, UNKNOWN_OFFSET, Offset
from cluster.model.errors import ErrorCode, StorageError
from cluster.model.partition import TopicPartition
from cluster.requests.data import (
    UP_TO_HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsResult,
)


class DeleteRecordsRequests:
    """Handles DeleteRecords. Partitions are independent of one another."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    async def handle(self, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        """Delete at once on the leader; respond when no live replica has the records any more, or after the timeout."""
        deletions = [
            self._delete(item, validate_only=request.validate_only) async for item in in_slices(request.partitions)
        ]
        # No await between here and registering the pending ones in the purgatory: no change can be missed. They are at
        # most the partitions led here.
        waiting = _WaitingDeletion(self._manager, deletions)
        for key in waiting.keys:
            waiting.test(key)
        purgatory = self._manager.delete_records_purgatory
        if waiting.pending and not await purgatory.wait(waiting.test, waiting.keys, request.timeout_ms):
            self._manager.metrics.expired_record_deletions.mark(len(waiting.pending))
        return DeleteRecordsResponse(tuple([waiting.answer(deletion) async for deletion in in_slices(deletions)]))

    def _delete(self, item: DeleteRecordsPartition, *, validate_only: bool) -> "_Deletion":
        tp = TopicPartition(item.topic, item.partition)
        if item.topic in INTERNAL_TOPICS:
            return _refusal(item, ErrorCode.INVALID_TOPIC_EXCEPTION, f"{item.topic} is internal")
        partition = self._manager.lookup_leader(tp, NO_LEADER_EPOCH)
        if isinstance(partition, ErrorCode):
            return _refusal(item, partition)
        log = partition.log
        assert log is not None, f"{tp} is led without a log"
        policy, high_watermark = log.config.cleanup_policy, log.high_watermark
        code = validate_deletion(item.offset, high_watermark=high_watermark, cleanup_policy=policy)
        if code is not ErrorCode.NONE:
            return _refusal(item, code, _explain(code, item, log))
        required = high_watermark if item.offset == UP_TO_HIGH_WATERMARK else item.offset
        if validate_only:
            return _accepted(item, partition, required=None)
        try:
            log.raise_log_start_offset(required)
        except StorageError as error:
            return _refusal(item, error.code, error.why)
        return _accepted(item, partition, required)


class _Deletion(Struct, frozen=True):
    """One partition's result; `required`: the low watermark that completes it, None if there is nothing to wait for."""

    answer: DeleteRecordsResult
    required: Offset | None


class _WaitingDeletion:
    """Complete when every live replica has raised its log start, or can no longer be asked to (R7.15)."""

    def __init__(self, manager: ReplicaManager, deletions: list[_Deletion]) -> None:
        self._manager = manager
        self.pending: dict[TopicPartition, Offset] = {}
        self._outcomes: dict[TopicPartition, tuple[ErrorCode, Offset]] = {}
        for deletion in deletions:
            if deletion.required is not None:
                tp = TopicPartition(deletion.answer.topic, deletion.answer.partition)
                self.pending[tp] = max(deletion.required, self.pending.get(tp, deletion.required))
        self.keys = tuple(self.pending)

    def test(self, key: TopicPartition) -> bool:
        """Check one partition again; True when none is pending any more."""
        required = self.pending.get(key)
        if required is not None:
            outcome = self._outcome(key, required)
            if outcome is not None:
                self._outcomes[key] = outcome
                del self.pending[key]
        return not self.pending

    def answer(self, deletion: _Deletion) -> DeleteRecordsResult:
        """The final result: REQUEST_TIMED_OUT if still pending, with the low watermark at the start."""
        if deletion.required is None:
            return deletion.answer
        tp = TopicPartition(deletion.answer.topic, deletion.answer.partition)
        started = ErrorCode.REQUEST_TIMED_OUT, deletion.answer.low_watermark
        code, low_watermark = self._outcomes.get(tp, started)
        return replace(deletion.answer, error_code=code, low_watermark=low_watermark)

    def _outcome(self, tp: TopicPartition, required: Offset) -> tuple[ErrorCode, Offset] | None:
        partition = self._manager.lookup_leader(tp, NO_LEADER_EPOCH)
        if isinstance(partition, ErrorCode):
            return partition, UNKNOWN_OFFSET
        low_watermark = partition.low_watermark
        return (ErrorCode.NONE, low_watermark) if low_watermark >= required else None


def _accepted(item: DeleteRecordsPartition, partition: HostedPartition, required: Offset | None) -> _Deletion:
    answer = DeleteRecordsResult(item.topic, item.partition, ErrorCode.NONE, partition.low_watermark)
    return _Deletion(answer, required)


def _refusal(item: DeleteRecordsPartition, code: ErrorCode, why: str = "") -> _Deletion:
    return _Deletion(DeleteRecordsResult(item.topic, item.partition, code, error_message=why), required=None)


def _explain(code: ErrorCode, item: DeleteRecordsPartition, log: PartitionLog) -> str:
    if code is ErrorCode.POLICY_VIOLATION:
        return f"cleanup.policy of {item.topic} is {log.config.cleanup_policy}, without delete"
    return f"offset {item.offset} is neither -1 nor within 0 and the high watermark {log.high_watermark}"
