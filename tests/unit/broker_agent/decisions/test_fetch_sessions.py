"""Fetch sessions: who has to make room, and what is worth an answer."""

import pytest
from msgspec.structs import replace

from broker_agent.decisions.fetch_sessions import (
    CONSUMER_PARTITIONS_MAX,
    EVICTION_MS,
    SentOffsets,
    SessionUse,
    choose_evicted,
    has_room,
    is_news,
    sent_with,
    unused_sessions,
)
from cluster.model.broker import BrokerId, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.requests.data import EpochEndOffset, FetchPartitionData

OLD = EVICTION_MS + 1.0
DATA = FetchPartitionData("t", 0, ErrorCode.NONE, Offset(5), Offset(5), Offset(2))


def use(
    number: int, partitions: int = 10, *, age_ms: float = OLD, unused_ms: float = 0, is_privileged: bool = False
) -> SessionUse:
    """As of the time 0."""
    return SessionUse(number, partitions, -age_ms, -unused_ms, is_privileged)


@pytest.mark.rule("R5.12")
def test_only_sessions_unused_for_longer_than_the_limit_have_lost_their_fetchers() -> None:
    uses = [use(1, unused_ms=EVICTION_MS), use(2, unused_ms=OLD), use(3)]
    assert unused_sessions(uses, 0) == (2,)


@pytest.mark.rule("R5.12")
@pytest.mark.parametrize(
    ("uses", "partitions", "evicted"),
    [
        ([], 10, None),
        ([use(1, age_ms=EVICTION_MS)], 1000, None),  # Too young.
        ([use(1, 11)], 10, None),  # Larger than the new one.
        ([use(1, 10)], 10, None),  # As large: it would come back and take the slot again.
        ([use(1, 9), use(2, 3), use(3, 5)], 10, 2),
        ([use(1, 9), use(2, 3, age_ms=0)], 10, 1),
        ([use(2, 3), use(1, 3)], 10, 1),
    ],
)
@pytest.mark.parametrize("is_privileged", [False, True])
def test_the_smallest_session_that_is_not_young_makes_room_for_a_larger_one_of_its_kind(
    uses: list[SessionUse], partitions: int, evicted: int | None, is_privileged: bool
) -> None:
    of_kind = [replace(session, is_privileged=is_privileged) for session in uses]
    assert choose_evicted(of_kind, partitions, 0, is_privileged=is_privileged) == evicted


@pytest.mark.rule("R5.12")
@pytest.mark.parametrize(
    ("uses", "is_privileged", "evicted"),
    [
        ([use(1, 1, is_privileged=True)], False, None),  # However small and old, a follower's stays.
        ([use(1, 1, is_privileged=True), use(2, 9)], False, 2),
        ([use(1, 99, age_ms=0)], True, 1),  # However large and young, a consumer's goes.
        ([use(1, 1, is_privileged=True), use(2, 99, age_ms=0)], True, 2),
        ([use(1, 9, is_privileged=True), use(2, 3, age_ms=0, is_privileged=True)], True, 1),
    ],
)
def test_followers_take_slots_of_consumers_and_never_the_other_way(
    uses: list[SessionUse], is_privileged: bool, evicted: int | None
) -> None:
    assert choose_evicted(uses, 10, 0, is_privileged=is_privileged) == evicted


@pytest.mark.rule("R5.12")
@pytest.mark.parametrize(
    ("data", "sent", "expected"),
    [
        (DATA, None, True),
        (DATA, SentOffsets(Offset(5), Offset(2)), False),
        (DATA, SentOffsets(Offset(4), Offset(2)), True),
        (DATA, SentOffsets(Offset(5), Offset(1)), True),
        (replace(DATA, preferred_read_replica=BrokerId(2)), SentOffsets(Offset(5), Offset(2)), True),
        (replace(DATA, records=b"r"), SentOffsets(Offset(5), Offset(2)), True),
        (replace(DATA, error_code=ErrorCode.FENCED_LEADER_EPOCH), SentOffsets(Offset(5), Offset(2)), True),
        (
            replace(DATA, diverging_epoch=EpochEndOffset(LeaderEpoch(1), Offset(3))),
            SentOffsets(Offset(5), Offset(2)),
            True,
        ),
    ],
)
def test_records_errors_other_offsets_and_another_replica_are_worth_an_answer(
    data: FetchPartitionData, sent: SentOffsets | None, expected: bool
) -> None:
    assert is_news(data, sent) is expected


@pytest.mark.rule("R5.12", "R5.23")
def test_offsets_that_came_with_an_error_or_a_divergence_are_not_taken_and_so_not_sent() -> None:
    assert sent_with(DATA) == SentOffsets(Offset(5), Offset(2))
    assert sent_with(replace(DATA, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)) is None
    assert sent_with(replace(DATA, diverging_epoch=EpochEndOffset(LeaderEpoch(1), Offset(3)))) is None


@pytest.mark.rule("R5.12")
def test_consumers_have_a_number_of_partitions_together_and_those_of_followers_do_not_count() -> None:
    others = [use(1, CONSUMER_PARTITIONS_MAX - 5), use(2, 3), use(3, CONSUMER_PARTITIONS_MAX, is_privileged=True)]
    assert has_room(others, 2)
    assert not has_room(others, 3)
