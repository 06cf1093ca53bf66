"""ISR changes on the leader: committed and maximal ISR, members to remove, followers that may join.

Two sets are kept on purpose. The committed ISR is what ZooKeeper is known to hold. The maximal ISR is the largest set
that may already be in effect; the high watermark waits for all of it. Source: Kafka Partition.scala (PartitionState,
CommittedPartitionState, Pending…); KIP-497.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from broker_agent.decisions.replica_progress import ReplicaProgress, is_caught_up
from cluster.model.broker import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.model.hash_order import in_hash_order
from cluster.requests.agents import AlterPartitionResult

LISTED_AS_THEY_CAME: Final = 4
"""The size of Scala's largest set that is not hashed."""
_NO_EPOCHS: Final[Mapping[BrokerId, BrokerEpoch]] = MappingProxyType({})


class CommittedIsr(Struct, frozen=True):
    """No ISR change is in flight."""

    committed: tuple[BrokerId, ...]


class IsrProposal(Struct, frozen=True):
    """`isr` was proposed and may be in effect already; `committed` is the last committed ISR.

    `epochs`: the broker epoch with which each member of `isr` fetched, known only of one that joins (KIP-903). If that
    broker has restarted since, it may have lost records; the controller detects it by this epoch.
    """

    committed: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    epochs: tuple[BrokerEpoch, ...]

    @property
    def is_expansion(self) -> bool:
        """Whether a follower joins; otherwise some leave."""
        return len(self.isr) > len(self.committed)


IsrState = CommittedIsr | IsrProposal


def maximal_isr(state: IsrState) -> tuple[BrokerId, ...]:
    """The replicas that may be in the ISR now, with a joining one and those proposed for removal (R8.3)."""
    return state.isr if isinstance(state, IsrProposal) and state.is_expansion else state.committed


def propose_shrink(
    state: IsrState,
    leader: BrokerId,
    remote: Mapping[BrokerId, ReplicaProgress],
    *,
    leader_end_offset: Offset,
    now_ms: float,
    lag_ms_max: int,
) -> IsrProposal | None:
    """Propose to remove all members that lag behind, never the leader (R8.4, R8.7); None if there are none.

    A member without a progress record is no longer a replica and is removed, too. None while a change is in flight.
    """
    if not isinstance(state, CommittedIsr):
        return None
    staying = tuple(
        broker
        for broker in state.committed
        if broker == leader
        or (
            (progress := remote.get(broker)) is not None
            and is_caught_up(progress, leader_end_offset, now_ms=now_ms, lag_ms_max=lag_ms_max)
        )
    )
    return None if len(staying) == len(state.committed) else _propose(state, staying)


def propose_expand(
    state: IsrState,
    replica: BrokerId,
    progress: ReplicaProgress,
    *,
    high_watermark: Offset,
    epoch_start_offset: Offset,
    is_alive: bool,
) -> IsrProposal | None:
    """Propose a follower that has just fetched for the ISR; None if it may not join, or not yet (R8.10).

    Reaching the start of the leader's epoch matters right after an election: the high watermark may still be below what
    the previous leader committed, and all of that is below the epoch start (R8.11).
    """
    may_join = (
        isinstance(state, CommittedIsr)
        and replica not in state.committed
        and is_alive
        and progress.log_end_offset >= max(high_watermark, epoch_start_offset)
    )
    return _propose(state, (*state.committed, replica), {replica: progress.broker_epoch}) if may_join else None


def _propose(
    state: IsrState, members: tuple[BrokerId, ...], epochs: Mapping[BrokerId, BrokerEpoch] = _NO_EPOCHS
) -> IsrProposal:
    """Propose these members, in the order of Kafka's leader.

    Kafka keeps the ISR in a Scala Set: up to four members are in insertion order, more are ordered by hash; removing
    members from a larger set does not restore insertion order.
    """
    is_hashed = max(len(members), len(state.committed)) > LISTED_AS_THEY_CAME
    isr = tuple(in_hash_order(members)) if is_hashed else members
    return IsrProposal(state.committed, isr, tuple(epochs.get(broker, UNKNOWN_BROKER_EPOCH) for broker in isr))


class IsrAnswer(Enum):
    """The reaction of a leader to the response to its proposal."""

    COMMIT = "commit"
    """The returned state is in effect."""
    REVERT = "revert"
    """Certainly nothing was written: return to the last committed state."""
    STAY_PENDING = "stay pending"
    """The state in effect is unknown until the next LeaderAndIsr."""
    SUBMIT_AGAIN = "submit again"


_NOT_APPLIED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
# These say that the leader's view is outdated, so an expansion may be in effect. A leader that went back to the smaller
# ISR would advance the high watermark without the new member, who may then be elected and lack committed records.
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
