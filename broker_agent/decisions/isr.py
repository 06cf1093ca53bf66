"""ISR changes on the leader: committed and maximal ISR, members to remove, followers that may join.

Two sets are kept on purpose. The committed ISR is what ZooKeeper is known to hold. The maximal ISR is the largest set
that may already be in effect; the high watermark waits for all of it. Source: Kafka Partition.scala (PartitionState,
CommittedPartitionState, Pending…); KIP-497.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

from broker_agent.decisions.replica_progress import ReplicaProgress, is_caught_up
from cluster.model.broker import BrokerId, LeaderEpoch, Offset, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.model.hash_order import in_hash_order
from cluster.requests.agents import AlterPartitionResult

LISTED_AS_THEY_CAME: Final = 4
"""The size of Scala's largest set that is not hashed."""


class CommittedIsr(Struct, frozen=True):
    """No ISR change is in flight."""

    isr: tuple[BrokerId, ...]


class PendingExpand(Struct, frozen=True):
    """`isr` is the last committed ISR; `joining` was proposed and may be in effect already."""

    isr: tuple[BrokerId, ...]
    joining: BrokerId


class PendingShrink(Struct, frozen=True):
    """`isr` is the last committed ISR, still with the members proposed for removal."""

    isr: tuple[BrokerId, ...]
    leaving: tuple[BrokerId, ...]


PendingIsr = PendingExpand | PendingShrink
IsrState = CommittedIsr | PendingIsr


def maximal_isr(state: IsrState) -> tuple[BrokerId, ...]:
    """Every replica that may be in the ISR now, including a joining one and those proposed for removal (R8.3)."""
    return (*state.isr, state.joining) if isinstance(state, PendingExpand) else state.isr


def proposed_isr(proposal: PendingIsr) -> tuple[BrokerId, ...]:
    """The ISR to write if the proposal is accepted, in the order of Kafka's leader.

    Kafka keeps the ISR in a Scala Set: up to four members are in insertion order, more are ordered by hash; removing
    members from a larger set does not restore insertion order.
    """
    if isinstance(proposal, PendingExpand):
        members = (*proposal.isr, proposal.joining)
    else:
        members = tuple(broker for broker in proposal.isr if broker not in proposal.leaving)
    is_hashed = max(len(members), len(proposal.isr)) > LISTED_AS_THEY_CAME
    return tuple(in_hash_order(members)) if is_hashed else members


def choose_leaving(
    state: IsrState,
    leader: BrokerId,
    remote: Mapping[BrokerId, ReplicaProgress],
    *,
    leader_end_offset: Offset,
    now_ms: float,
    lag_ms_max: int,
) -> tuple[BrokerId, ...]:
    """Members of the committed ISR that lag behind, never the leader (R8.4, R8.7).

    A member without a progress record is no longer a replica and is removed, too. Empty while a change is in flight.
    """
    if not isinstance(state, CommittedIsr):
        return ()
    return tuple(
        broker
        for broker in state.isr
        if broker != leader
        and (
            (progress := remote.get(broker)) is None
            or not is_caught_up(progress, leader_end_offset, now_ms=now_ms, lag_ms_max=lag_ms_max)
        )
    )


def may_join(
    state: IsrState,
    replica: BrokerId,
    *,
    replica_end_offset: Offset,
    high_watermark: Offset,
    epoch_start_offset: Offset,
    is_alive: bool,
) -> bool:
    """Whether a follower that has just fetched may be proposed for the ISR (R8.10).

    Reaching the start of the leader's epoch matters right after an election: the high watermark may still be below what
    the previous leader committed, and all of that is below the epoch start (R8.11).
    """
    return (
        isinstance(state, CommittedIsr)
        and replica not in state.isr
        and is_alive
        and replica_end_offset >= high_watermark
        and replica_end_offset >= epoch_start_offset
    )


class IsrAnswer(Enum):
    """What a leader does after the response to its proposal."""

    COMMIT = "commit"
    """The returned state is in effect."""
    REVERT = "revert"
    """Certainly nothing was written: return to the last committed state."""
    STAY_PENDING = "stay pending"
    """The state in effect is unknown until the next LeaderAndIsr."""
    SUBMIT_AGAIN = "submit again"


_NOT_APPLIED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
_UNCERTAIN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


def classify_isr_answer(
    answer: AlterPartitionResult, *, leader_epoch: LeaderEpoch, partition_epoch: PartitionEpoch
) -> IsrAnswer:
    """Classify a response by comparing its epochs with the leader's current ones (R8.15, R8.16).

    An equal partition epoch is a success: the proposed ISR was in effect already.
    """
    code = answer.error_code
    if code is ErrorCode.NONE:
        is_current = answer.leader_epoch == leader_epoch and answer.partition_epoch >= partition_epoch
        return IsrAnswer.COMMIT if is_current else IsrAnswer.STAY_PENDING
    if code in _NOT_APPLIED:
        return IsrAnswer.REVERT
    return IsrAnswer.STAY_PENDING if code in _UNCERTAIN else IsrAnswer.SUBMIT_AGAIN
