"""Which replica a consumer reads from: the leader, or a follower in the consumer's rack (KIP-392).

Source: Kafka ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector, FetchIsolation.
"""

from collections.abc import Collection, Mapping

from broker_agent.decisions.replica_progress import ReplicaProgress
from cluster.model.broker import BrokerId, Offset
from cluster.requests.data import CONSUMER, FetchRequest


def reads_to_log_end(request: FetchRequest) -> bool:
    """Whether the sender sees records above the high watermark: all but consumers do (R6.8)."""
    return request.replica_id != CONSUMER


def may_read_from_follower(request: FetchRequest) -> bool:
    """Whether a replica that does not lead may answer: no follower, and a consumer only if it says its rack (R6.4).

    A debugging consumer reads whatever a replica has.
    """
    return request.replica_id < CONSUMER or (request.replica_id == CONSUMER and bool(request.rack_id))


def choose_read_replica(
    rack: str,
    fetch_offset: Offset,
    leader: BrokerId,
    followers: Mapping[BrokerId, ReplicaProgress],
    *,
    isr: Collection[BrokerId],
    racks: Mapping[BrokerId, str | None],
) -> BrokerId | None:
    """The follower in this rack that a consumer should read from; None for the leader.

    Only a live member of the ISR that has the offset is chosen, of several the one with the longest log, then the one
    that caught up last. A leader in the same rack is as near as any of them. `racks`: of the brokers that the consumer
    can reach.
    """
    if not rack or racks.get(leader) == rack:
        return None
    near = [
        (progress.log_end_offset, progress.last_caught_up_ms, broker)
        for broker, progress in followers.items()
        if racks.get(broker) == rack
        and broker in isr
        and progress.log_start_offset <= fetch_offset <= progress.log_end_offset
    ]
    return max(near)[2] if near else None
