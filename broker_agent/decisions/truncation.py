"""Where a follower truncates its log, and how it reacts to fetch errors.

Source: Kafka AbstractFetcherThread (getOffsetTruncationState); KIP-101, KIP-279, KIP-595 (diverging epochs).
"""

from enum import Enum

from msgspec import Struct

from cluster.model.broker import NO_LEADER_EPOCH, UNKNOWN_OFFSET, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.requests.data import EpochEndOffset


class Truncation(Struct, frozen=True):
    """Truncate to `offset` (exclusive end). Not complete: ask the leader again with the latest epoch left then."""

    offset: Offset
    is_complete: bool


def choose_truncation(
    leader: EpochEndOffset, local: EpochEndOffset, *, log_end_offset: Offset, fetch_offset: Offset
) -> Truncation:
    """Compare the leader's end offset for our latest epoch with our own epoch history (R5.15).

    `local` is our own end offset for `leader.epoch`: the largest epoch not above it, with its end. If our first epoch
    is above the leader's, it repeats that epoch with the start of our first one: nothing from there on can be the
    leader's. Without a response, only the log up to `fetch_offset` (the high watermark) is certain.
    """
    if leader.end_offset == UNKNOWN_OFFSET:
        return Truncation(fetch_offset, is_complete=True)
    if NO_LEADER_EPOCH in (leader.epoch, local.epoch):
        return Truncation(min(leader.end_offset, log_end_offset), is_complete=True)
    if local.epoch < leader.epoch:
        return Truncation(min(local.end_offset, log_end_offset), is_complete=False)
    return Truncation(min(local.end_offset, leader.end_offset, log_end_offset), is_complete=True)


def diverges(answer: EpochEndOffset, *, last_fetched_epoch: LeaderEpoch, fetch_offset: Offset) -> bool:
    """Whether the follower's last fetched epoch and position contradict the leader's epoch history (R6.7)."""
    return answer.epoch < last_fetched_epoch or answer.end_offset < fetch_offset


class FetchErrorReaction(Enum):
    GIVE_UP = "give up"
    """Our epoch is over: add the partition to the failed set until the next LeaderAndIsr."""
    BACK_OFF = "back off"
    """The leader cannot serve the partition at present: retry after `replica.fetch.backoff.ms`."""
    RESET_OFFSET = "reset offset"
    """The fetch offset is outside the leader's log: determine a new one (R5.25)."""


def react_to_fetch_error(
    code: ErrorCode, *, requested_epoch: LeaderEpoch, current_epoch: LeaderEpoch
) -> FetchErrorReaction:
    """Choose the reaction of a fetcher to a partition's error code (R5.16, R5.25).

    A fenced request gives up only if it carried the fetcher's current epoch: otherwise a role change overtook it, and
    its refusal says nothing about the new epoch.
    """
    if code is ErrorCode.OFFSET_OUT_OF_RANGE:
        return FetchErrorReaction.RESET_OFFSET
    if code is ErrorCode.FENCED_LEADER_EPOCH and requested_epoch == current_epoch:
        return FetchErrorReaction.GIVE_UP
    return FetchErrorReaction.BACK_OFF
