"""Fetch sessions: numbers of requests, who has to make room, and what is worth an answer."""

import pytest
from msgspec.structs import replace

from broker_agent.decisions.fetch_sessions import (
    EVICTION_MS,
    SentOffsets,
    SessionUse,
    choose_evicted,
    is_news,
    next_session_epoch,
    sent_with,
    unused_sessions,
)
from cluster.model.bounds import INT32_MAX
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.requests.data import EpochEndOffset, FetchPartitionData

OLD = EVICTION_MS + 1.0
DATA = FetchPartitionData("t", 0, ErrorCode.NONE, Offset(5), Offset(5), Offset(2))


def use(number: int, partitions: int = 10, *, age_ms: float = OLD, unused_ms: float = 0) -> SessionUse:
    """As of the time 0."""
    return SessionUse(number, partitions, -age_ms, -unused_ms)


@pytest.mark.rule("R5.12")
@pytest.mark.parametrize(("epoch", "following"), [(0, 1), (1, 2), (INT32_MAX - 1, INT32_MAX), (INT32_MAX, 1)])
def test_numbers_rise_and_begin_again_above_that_of_a_full_fetch(epoch: int, following: int) -> None:
    assert next_session_epoch(epoch) == following


@pytest.mark.rule("R5.12")
def test_only_sessions_unused_for_longer_than_the_limit_have_lost_their_followers() -> None:
    uses = [use(1, unused_ms=EVICTION_MS), use(2, unused_ms=OLD), use(3)]
    assert unused_sessions(uses, 0) == (2,)


@pytest.mark.rule("R5.12")
@pytest.mark.parametrize(
    ("uses", "partitions", "evicted"),
    [
        ([], 10, None),
        ([use(1, age_ms=EVICTION_MS)], 1000, None),  # Too young.
        ([use(1, 11)], 10, None),  # Larger than the new one.
        ([use(1, 10)], 10, 1),
        ([use(1, 9), use(2, 3), use(3, 5)], 10, 2),
        ([use(1, 9), use(2, 3, age_ms=0)], 10, 1),
        ([use(2, 3), use(1, 3)], 10, 1),
    ],
)
def test_the_smallest_session_that_is_not_young_makes_room_for_one_as_large(
    uses: list[SessionUse], partitions: int, evicted: int | None
) -> None:
    assert choose_evicted(uses, partitions, 0) == evicted


@pytest.mark.rule("R5.12")
@pytest.mark.parametrize(
    ("data", "sent", "expected"),
    [
        (DATA, None, True),
        (DATA, SentOffsets(Offset(5), Offset(2)), False),
        (DATA, SentOffsets(Offset(4), Offset(2)), True),
        (DATA, SentOffsets(Offset(5), Offset(1)), True),
        (replace(DATA, records=b"r"), SentOffsets(Offset(5), Offset(2)), True),
        (replace(DATA, error_code=ErrorCode.FENCED_LEADER_EPOCH), SentOffsets(Offset(5), Offset(2)), True),
        (
            replace(DATA, diverging_epoch=EpochEndOffset(LeaderEpoch(1), Offset(3))),
            SentOffsets(Offset(5), Offset(2)),
            True,
        ),
    ],
)
def test_records_errors_and_other_offsets_are_worth_an_answer(
    data: FetchPartitionData, sent: SentOffsets | None, expected: bool
) -> None:
    assert is_news(data, sent) is expected


@pytest.mark.rule("R5.12", "R5.23")
def test_offsets_that_came_with_an_error_or_a_divergence_are_not_taken_and_so_not_sent() -> None:
    assert sent_with(DATA) == SentOffsets(Offset(5), Offset(2))
    assert sent_with(replace(DATA, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)) is None
    assert sent_with(replace(DATA, diverging_epoch=EpochEndOffset(LeaderEpoch(1), Offset(3)))) is None
