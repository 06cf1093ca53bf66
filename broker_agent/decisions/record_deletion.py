"""Validation of DeleteRecords, and the low watermark of a partition.

Source: Kafka Partition.deleteRecordsOnLeader, Partition.lowWatermarkIfLeader; KIP-107.
"""

from collections.abc import Collection, Mapping

from broker_agent.decisions.replica_progress import ReplicaProgress
from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import ErrorCode
from cluster.requests.data import UP_TO_HIGH_WATERMARK


def validate_deletion(offset: Offset, *, high_watermark: Offset, cleanup_policy: str) -> ErrorCode:
    """Whether the records below `offset` may be deleted from a log led here (R7.15); the policy is checked first."""
    if "delete" not in cleanup_policy:
        return ErrorCode.POLICY_VIOLATION
    if offset != UP_TO_HIGH_WATERMARK and not 0 <= offset <= high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE


def low_watermark(
    leader_start: Offset, remote: Mapping[BrokerId, ReplicaProgress], *, alive: Collection[BrokerId]
) -> Offset:
    """The lowest log start offset of the leader and its live followers; -1 while one of them is unknown.

    Dead followers do not count: they learn of the deletion when they return.
    """
    lowest = leader_start
    for broker, progress in remote.items():
        if progress.log_start_offset < lowest and broker in alive:
            lowest = progress.log_start_offset
    return lowest
