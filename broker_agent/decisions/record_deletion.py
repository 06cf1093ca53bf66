"""Which records a client may have deleted, and how far all replicas have let go of them.

Source: Kafka Partition.deleteRecordsOnLeader, Partition.lowWatermarkIfLeader; KIP-107.
"""

from collections.abc import Collection, Mapping

from broker_agent.decisions.replica_progress import ReplicaProgress
from cluster.broker import BrokerId, Offset
from cluster.errors import ErrorCode
from cluster.requests.data import UP_TO_HIGH_WATERMARK


def validate_deletion(offset: Offset, *, high_watermark: Offset, cleanup_policy: str) -> ErrorCode:
    """Whether the records below `offset` may go from a log led here (R7.15); the policy is looked at first."""
    if "delete" not in cleanup_policy:
        return ErrorCode.POLICY_VIOLATION
    if offset != UP_TO_HIGH_WATERMARK and not 0 <= offset <= high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE


def low_watermark(
    leader_start: Offset, remote: Mapping[BrokerId, ReplicaProgress], *, alive: Collection[BrokerId]
) -> Offset:
    """The lowest log start among the leader and its live followers; -1 while one of them has not told its own.

    A dead follower learns of the deletion when it returns, so it is not waited for.
    """
    lowest = leader_start
    for broker, progress in remote.items():
        if progress.log_start_offset < lowest and broker in alive:
            lowest = progress.log_start_offset
    return lowest
