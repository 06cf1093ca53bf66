from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_agent.decisions.truncation import (
    FetchErrorReaction,
    Truncation,
    choose_truncation,
    diverges,
    react_to_fetch_error,
)
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.requests.data import EpochEndOffset


def end(epoch: int, offset: int) -> EpochEndOffset:
    return EpochEndOffset(LeaderEpoch(epoch), Offset(offset))


@pytest.mark.rule("R5.15")
@pytest.mark.parametrize(
    ("leader", "local", "log_end", "expected"),
    [
        (end(-1, -1), end(5, 50), 60, (33, True)),  # The leader knows nothing: the start of fetching.
        (end(3, -1), end(3, 50), 60, (33, True)),
        (end(-1, 45), end(5, 60), 60, (45, True)),
        (end(-1, 70), end(5, 60), 60, (60, True)),
        (end(3, 45), end(-1, -1), 60, (45, True)),  # No epoch here that is not later.
        (end(3, 70), end(-1, -1), 60, (60, True)),
        (end(3, 45), end(1, 30), 50, (30, False)),  # E5, first step.
        (end(1, 20), end(1, 30), 30, (20, True)),  # E5, second step.
        (end(3, 45), end(3, 40), 60, (40, True)),
        (end(3, 80), end(3, 70), 60, (60, True)),
    ],
)
def test_a_follower_cuts_where_its_history_leaves_the_leaders(
    leader: EpochEndOffset, local: EpochEndOffset, log_end: int, expected: tuple[int, bool]
) -> None:
    chosen = choose_truncation(leader, local, log_end_offset=Offset(log_end), fetch_offset=Offset(33))
    assert chosen == Truncation(Offset(expected[0]), expected[1])


class Replica:
    """A log as the leader epoch of each record, with the epoch entries that its agent keeps."""

    def __init__(self) -> None:
        self.records: list[int] = []
        self.entries: list[tuple[int, int]] = []

    def lead(self, epoch: int, appended: int) -> None:
        self.entries.append((epoch, len(self.records)))
        self.records += [epoch] * appended

    def copy(self, leader: "Replica", count: int) -> None:
        """Follow as an agent with perfect knowledge would: cut to the common prefix, then copy some records."""
        pairs = zip(self.records, leader.records, strict=False)
        common = next(
            (offset for offset, (a, b) in enumerate(pairs) if a != b), min(len(self.records), len(leader.records))
        )
        self.cut(common)
        for epoch in leader.records[common : common + count]:
            if not self.entries or self.entries[-1][0] < epoch:
                self.entries.append((epoch, len(self.records)))
            self.records.append(epoch)

    def cut(self, offset: int) -> None:
        del self.records[offset:]
        self.entries = [(epoch, start) for epoch, start in self.entries if start < offset]

    def end_of(self, epoch: int) -> EpochEndOffset:
        """The end of an epoch, computed naively (R6.20)."""
        if not self.entries or epoch > self.entries[-1][0]:
            return end(-1, -1)
        if epoch == self.entries[-1][0]:
            return end(epoch, len(self.records))
        if epoch < self.entries[0][0]:
            return end(epoch, self.entries[0][1])
        known, (_, following) = next((a, b) for a, b in pairwise(self.entries) if a[0] <= epoch < b[0])
        return end(known[0], following)


LEADERSHIPS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 4), st.none() | st.integers(0, 6)), min_size=1, max_size=8
)
"""Who leads, how many records it appends, and how many the other copies (None: it does not hear of it)."""


@pytest.mark.rule("R5.15", "R5.18", "R5.23", "P8")
@given(LEADERSHIPS)
def test_repeated_truncation_leaves_a_common_prefix(
    leaderships: list[tuple[bool, int, int | None]],
) -> None:
    leader, follower = Replica(), Replica()
    for epoch, (swap, appended, copied) in enumerate(leaderships):
        if swap:
            leader, follower = follower, leader
        leader.lead(epoch, appended)
        if copied is not None:
            follower.copy(leader, copied)
    rounds = 0
    while follower.entries:
        last, offset = follower.entries[-1][0], len(follower.records)
        answer = leader.end_of(last)
        if not diverges(answer, last_fetched_epoch=LeaderEpoch(last), fetch_offset=Offset(offset)):
            break
        chosen = choose_truncation(
            answer, follower.end_of(answer.epoch), log_end_offset=Offset(offset), fetch_offset=Offset(offset)
        )
        follower.cut(chosen.offset)
        rounds += 1
        assert rounds <= 2 * len(leaderships), "does not end"
    assert follower.records == leader.records[: len(follower.records)]


@pytest.mark.rule("R6.7")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [(end(5, 50), False), (end(4, 50), True), (end(5, 49), True), (end(5, 60), False)],
)
def test_a_lower_epoch_or_a_lower_end_is_a_divergence(answer: EpochEndOffset, expected: bool) -> None:
    assert diverges(answer, last_fetched_epoch=LeaderEpoch(5), fetch_offset=Offset(50)) is expected


@pytest.mark.rule("R5.16", "R5.25")
@pytest.mark.parametrize(
    ("code", "current", "expected"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, 3, FetchErrorReaction.RESET_OFFSET),
        (ErrorCode.FENCED_LEADER_EPOCH, 3, FetchErrorReaction.GIVE_UP),
        (ErrorCode.FENCED_LEADER_EPOCH, 4, FetchErrorReaction.BACK_OFF),
        *(
            (code, 3, FetchErrorReaction.BACK_OFF)
            for code in (
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.UNKNOWN_TOPIC_ID,
                ErrorCode.INCONSISTENT_TOPIC_ID,
                ErrorCode.KAFKA_STORAGE_ERROR,
                ErrorCode.UNKNOWN_SERVER_ERROR,
            )
        ),
    ],
)
def test_only_a_fenced_current_epoch_ends_fetching(code: ErrorCode, current: int, expected: FetchErrorReaction) -> None:
    reaction = react_to_fetch_error(code, requested_epoch=LeaderEpoch(3), current_epoch=LeaderEpoch(current))
    assert reaction is expected
