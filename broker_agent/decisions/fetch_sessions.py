"""Decisions on fetch sessions: the numbers of their requests, room for another one, what is worth an answer.

Source: Kafka FetchMetadata, FetchSessionCache.tryEvict, CachedPartition.maybeUpdateResponseData; KIP-227.
"""

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from cluster.model.bounds import INT32_MAX
from cluster.model.broker import Offset
from cluster.model.errors import ErrorCode
from cluster.requests.data import FULL_FETCH_EPOCH, FetchPartitionData

EVICTION_MS: Final = 120_000
"""A session that was not used for this time is dropped when another one is made, and one that exists for this time may
have to make room for a larger one. `min.incremental.fetch.session.eviction.ms`, a constant as in Kafka.
"""


def next_session_epoch(epoch: int) -> int:
    """The number of the request after this one in its session; it is never that of a full fetch again."""
    return FULL_FETCH_EPOCH + 1 if epoch == INT32_MAX else epoch + 1


class SessionUse(Struct, frozen=True):
    """How large a session is, in partitions, and since when it exists and was last used; times in ms of one clock."""

    session_id: int
    partitions: int
    created_ms: float
    used_ms: float


def unused_sessions(sessions: Collection[SessionUse], now_ms: float) -> tuple[int, ...]:
    """The ids of the sessions that were not used for so long that their followers are gone."""
    return tuple(session.session_id for session in sessions if now_ms - session.used_ms > EVICTION_MS)


def choose_evicted(sessions: Collection[SessionUse], partitions: int, now_ms: float) -> int | None:
    """The id of the session that makes room for a new one of so many partitions, where all slots are taken; None if
    none has to.

    The smallest gains its follower least. Young ones stay, so that followers do not take slots from each other in turn.
    """
    evictable = [session for session in sessions if now_ms - session.created_ms > EVICTION_MS]
    if not evictable:
        return None
    smallest = min(evictable, key=lambda session: (session.partitions, session.session_id))
    return smallest.session_id if smallest.partitions <= partitions else None


class SentOffsets(Struct, frozen=True):
    """The offsets of the leader that an answer had for a partition."""

    high_watermark: Offset
    log_start_offset: Offset


def sent_with(data: FetchPartitionData) -> SentOffsets | None:
    """The offsets that the follower takes from a result; None if it takes none of them."""
    if data.error_code is not ErrorCode.NONE or data.diverging_epoch is not None:
        return None
    return SentOffsets(data.high_watermark, data.log_start_offset)


def is_news(data: FetchPartitionData, sent: SentOffsets | None) -> bool:
    """Whether a partition's result belongs into an answer: records, an error, a divergence, or offsets that differ from
    those sent before. `sent` None: nothing was sent since the partition was named.
    """
    return bool(data.records) or sent is None or sent_with(data) != sent
