"""The leader's record of one follower's progress, updated by fetches and role changes.

Times are milliseconds of the event loop's clock, whose origin is arbitrary; NEVER is below all of them. Source: Kafka
Replica.scala (ReplicaState); KIP-16 for the caught-up time.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from cluster.model.broker import UNKNOWN_BROKER_EPOCH, UNKNOWN_OFFSET, BrokerEpoch, Offset

NEVER: Final = float("-inf")


class ReplicaProgress(Struct, frozen=True):
    """The position of a remote replica. `log_end_offset` -1 is unknown, and smaller than every known one."""

    log_end_offset: Offset = UNKNOWN_OFFSET
    log_start_offset: Offset = UNKNOWN_OFFSET
    leader_end_offset_at_fetch: Offset = Offset(0)
    last_fetch_ms: float = NEVER
    last_caught_up_ms: float = NEVER
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH


def record_fetch(
    previous: ReplicaProgress,
    *,
    fetch_offset: Offset,
    log_start_offset: Offset,
    leader_end_offset: Offset,
    broker_epoch: BrokerEpoch,
    now_ms: float,
) -> ReplicaProgress:
    """The progress after a fetch at `fetch_offset`, when the leader's log end was `leader_end_offset` (R6.10).

    A follower is caught up now if it fetches at the log end; and as of its previous fetch if it fetches at the log end
    of that time, because under constant writes it never reaches the present end. The end offset may decrease.
    """
    caught_up_ms = previous.last_caught_up_ms
    if fetch_offset >= leader_end_offset:
        caught_up_ms = max(caught_up_ms, now_ms)
    elif fetch_offset >= previous.leader_end_offset_at_fetch:
        caught_up_ms = max(caught_up_ms, previous.last_fetch_ms)
    return ReplicaProgress(
        log_end_offset=fetch_offset,
        log_start_offset=log_start_offset,
        leader_end_offset_at_fetch=max(leader_end_offset, previous.leader_end_offset_at_fetch),
        last_fetch_ms=now_ms,
        last_caught_up_ms=caught_up_ms,
        broker_epoch=broker_epoch,
    )


def record_idle_fetch(previous: ReplicaProgress, fetched_ms: float) -> ReplicaProgress:
    """The progress after a fetch at the same offset as before, which was the leader's log end at that time (R6.10)."""
    if fetched_ms <= previous.last_fetch_ms:
        return previous
    return replace(previous, last_fetch_ms=fetched_ms, last_caught_up_ms=max(previous.last_caught_up_ms, fetched_ms))


def restart_epoch(
    previous: ReplicaProgress, *, is_new_leader: bool, in_isr: bool, epoch_start_offset: Offset, now_ms: float
) -> ReplicaProgress:
    """The progress at the start of a leader epoch (R3.7a).

    A new leader knows nothing of its followers; one that remains leader keeps their positions. ISR members get a full
    lag period before they can be removed.
    """
    caught_up_ms = now_ms if in_isr else NEVER
    if is_new_leader:
        return ReplicaProgress(leader_end_offset_at_fetch=UNKNOWN_OFFSET, last_caught_up_ms=caught_up_ms)
    return ReplicaProgress(
        log_end_offset=previous.log_end_offset,
        log_start_offset=previous.log_start_offset,
        leader_end_offset_at_fetch=epoch_start_offset,
        last_fetch_ms=now_ms if in_isr else NEVER,
        last_caught_up_ms=caught_up_ms,
        broker_epoch=previous.broker_epoch,
    )


def is_caught_up(progress: ReplicaProgress, leader_end_offset: Offset, *, now_ms: float, lag_ms_max: int) -> bool:
    """Whether the replica is at the leader's log end, or was within the last `lag_ms_max` (R6.13)."""
    return progress.log_end_offset == leader_end_offset or now_ms - progress.last_caught_up_ms <= lag_ms_max
