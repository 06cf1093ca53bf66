"""Decisions on fetch sessions: room for another one, and what is worth an answer.

Source: Kafka FetchMetadata, FetchSessionCache.tryEvict, CachedPartition.maybeUpdateResponseData; KIP-227.
"""

from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct

from cluster.model.broker import Offset
from cluster.model.errors import ErrorCode
from cluster.requests.data import NO_READ_REPLICA, FetchPartitionData

EVICTION_MS: Final = 120_000
"""A session that was not used for this time is dropped when another one is made, and one that exists for this time may
have to make room for a larger one. `min.incremental.fetch.session.eviction.ms`, a constant as in Kafka.
"""

CONSUMER_PARTITIONS_MAX: Final = 200_000
"""Partitions in all sessions of consumers together, of about half a kilobyte each: anybody may ask for sessions, and
name partitions that there are not.
"""


class SessionUse(Struct, frozen=True):
    """How large a session is, in partitions, and since when it exists and was last used; times in ms of one clock.

    `is_privileged`: of a follower, which consumers cannot take a slot from.
    """

    session_id: int
    partitions: int
    created_ms: float
    used_ms: float
    is_privileged: bool = False


def unused_sessions(sessions: Collection[SessionUse], now_ms: float) -> tuple[int, ...]:
    """The ids of the sessions that were not used for so long that their fetchers are gone."""
    return tuple(session.session_id for session in sessions if now_ms - session.used_ms > EVICTION_MS)


def choose_evicted(
    sessions: Collection[SessionUse], partitions: int, now_ms: float, *, is_privileged: bool
) -> int | None:
    """The id of the session that makes room for a new one of so many partitions, where all slots are taken; None if
    none has to.

    The smallest gains its fetcher least, and one of a consumer less than any of a follower. Young ones stay, so that
    fetchers do not take slots from each other in turn; but a follower takes that of a consumer at once.
    """
    evictable = [
        session
        for session in sessions
        if now_ms - session.created_ms > EVICTION_MS or (is_privileged and not session.is_privileged)
    ]
    if not evictable:
        return None
    least = min(evictable, key=lambda session: (session.is_privileged, session.partitions, session.session_id))
    is_less = (least.is_privileged, least.partitions) < (is_privileged, partitions)
    return least.session_id if is_less else None


def has_room(sessions: Iterable[SessionUse], partitions: int) -> bool:
    """Whether consumers may have so many partitions beside those of these sessions; followers' do not count."""
    used = sum(session.partitions for session in sessions if not session.is_privileged)
    return used + partitions <= CONSUMER_PARTITIONS_MAX


class SentOffsets(Struct, frozen=True):
    """The offsets of the log that an answer had for a partition."""

    high_watermark: Offset
    log_start_offset: Offset


def sent_with(data: FetchPartitionData) -> SentOffsets | None:
    """The offsets that the fetcher takes from a result; None if it takes none of them."""
    if data.error_code is not ErrorCode.NONE or data.diverging_epoch is not None:
        return None
    return SentOffsets(data.high_watermark, data.log_start_offset)


def is_news(data: FetchPartitionData, sent: SentOffsets | None) -> bool:
    """Whether a partition's result belongs into an answer: records, an error, a divergence, a replica to read from
    instead, or offsets that differ from those sent before. `sent` None: nothing was sent since the partition was named.
    """
    sends_elsewhere = data.preferred_read_replica != NO_READ_REPLICA
    return bool(data.records) or sends_elsewhere or sent is None or sent_with(data) != sent
