"""Computes the high watermark of a leader.

Source: Kafka Partition.maybeIncrementLeaderHW.
"""

from collections.abc import Collection, Mapping

from broker_agent.decisions.replica_progress import ReplicaProgress, is_caught_up
from cluster.model.broker import BrokerId, Offset


def effective_min_isr(min_insync_replicas: int, assigned_replicas: int) -> int:
    """Limit `min.insync.replicas` to the number of replicas."""
    return min(min_insync_replicas, assigned_replicas)


def high_watermark_candidate(
    leader_end_offset: Offset,
    remote: Mapping[BrokerId, ReplicaProgress],
    *,
    maximal_isr: Collection[BrokerId],
    alive: Collection[BrokerId],
    now_ms: float,
    lag_ms_max: int,
) -> Offset:
    """The smallest log end offset of the leader and of every follower that counts (R6.18).

    Members of the maximal ISR count, and live followers that are caught up although not yet members: otherwise a leader
    alone in its ISR would advance with each append and they could never join. An unknown end offset (-1) is the
    smallest of all, so it blocks any advance.
    """
    candidate = leader_end_offset
    for broker, progress in remote.items():
        if progress.log_end_offset < candidate and (
            broker in maximal_isr
            or (broker in alive and is_caught_up(progress, leader_end_offset, now_ms=now_ms, lag_ms_max=lag_ms_max))
        ):
            candidate = progress.log_end_offset
    return candidate
