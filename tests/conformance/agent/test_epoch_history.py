"""The leader epoch cache, rule by rule, and the worked example of two diverging logs."""

import pytest

from broker_agent.log.epoch_history import EpochEntry, EpochHistory
from cluster.model.broker import LeaderEpoch, Offset

Entries = list[tuple[int, int]]


def history(entries: Entries) -> EpochHistory:
    return EpochHistory(EpochEntry(LeaderEpoch(epoch), Offset(start)) for epoch, start in entries)


@pytest.mark.rule("R9.10")
@pytest.mark.parametrize(
    ("before", "assigned", "after"),
    [
        ([], (0, 0), [(0, 0)]),
        ([(1, 10)], (1, 10), [(1, 10)]),
        ([(1, 10)], (1, 15), [(1, 10)]),
        ([(1, 10)], (1, 5), [(1, 5)]),
        ([(1, 10)], (2, 20), [(1, 10), (2, 20)]),
        ([(1, 10), (2, 20)], (3, 20), [(1, 10), (3, 20)]),
        ([(1, 10), (2, 20), (4, 30)], (3, 25), [(1, 10), (2, 20), (3, 25)]),
        ([(1, 10), (2, 20), (4, 30)], (5, 15), [(1, 10), (5, 15)]),
        ([(1, 10), (2, 20)], (0, 5), [(0, 5)]),
    ],
)
def test_assign_removes_what_contradicts_it(before: Entries, assigned: tuple[int, int], after: Entries) -> None:
    epochs = history(before)
    assert not epochs.is_dirty
    epochs.assign(LeaderEpoch(assigned[0]), Offset(assigned[1]))
    assert (list(epochs.entries), epochs.is_dirty) == (after, before != after)


@pytest.mark.rule("R9.10")
@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (0, -1)])
def test_assign_refuses_negative_numbers(epoch: int, start: int) -> None:
    with pytest.raises(ValueError, match="cannot assign"):
        EpochHistory().assign(LeaderEpoch(epoch), Offset(start))


@pytest.mark.rule("R9.10")
@pytest.mark.parametrize(
    ("offset", "after"),
    [
        (31, [(1, 10), (2, 20), (4, 30)]),
        (30, [(1, 10), (2, 20)]),
        (11, [(1, 10)]),
        (0, []),
        (-1, [(1, 10), (2, 20), (4, 30)]),
    ],
)
def test_truncating_from_the_end_drops_entries_that_begin_there_or_later(offset: int, after: Entries) -> None:
    epochs = history([(1, 10), (2, 20), (4, 30)])
    epochs.truncate_from_end(Offset(offset))
    assert (list(epochs.entries), epochs.is_dirty) == (after, len(after) < 3)


@pytest.mark.rule("R9.10")
@pytest.mark.parametrize(
    ("offset", "after"),
    [
        (5, [(1, 10), (2, 20), (4, 30)]),
        (10, [(1, 10), (2, 20), (4, 30)]),
        (15, [(1, 15), (2, 20), (4, 30)]),
        (20, [(2, 20), (4, 30)]),
        (99, [(4, 99)]),
        (-1, [(1, 10), (2, 20), (4, 30)]),
    ],
)
def test_truncating_from_the_start_lets_the_epoch_of_that_offset_begin_there(offset: int, after: Entries) -> None:
    epochs = history([(1, 10), (2, 20), (4, 30)])
    epochs.truncate_from_start(Offset(offset))
    assert (list(epochs.entries), epochs.is_dirty) == (after, after != [(1, 10), (2, 20), (4, 30)])


@pytest.mark.rule("R6.20", "R9.12")
@pytest.mark.parametrize(
    ("entries", "asked", "answer"),
    [
        ([], 3, (-1, -1)),
        ([(2, 10), (4, 30)], -1, (-1, -1)),
        ([(2, 10), (4, 30)], 5, (-1, -1)),
        ([(2, 10), (4, 30)], 4, (4, 50)),
        ([(2, 10), (4, 30)], 3, (2, 30)),
        ([(2, 10), (4, 30)], 2, (2, 30)),
        ([(2, 10), (4, 30)], 1, (1, 10)),
    ],
)
def test_the_end_of_an_epoch(entries: Entries, asked: int, answer: tuple[int, int]) -> None:
    found = history(entries).end_offset_for(LeaderEpoch(asked), Offset(50))
    assert (found.epoch, found.end_offset) == answer


@pytest.mark.rule("R9.12")
@pytest.mark.parametrize(("offset", "epoch"), [(9, None), (10, 2), (29, 2), (30, 4), (1000, 4)])
def test_the_epoch_of_an_offset(offset: int, epoch: int | None) -> None:
    assert history([(2, 10), (4, 30)]).epoch_at(Offset(offset)) == epoch


@pytest.mark.rule("R6.20", "R9.10")
def test_diverging_logs_are_reconciled_in_two_steps() -> None:
    leader, leader_end = history([(1, 0), (3, 20), (6, 45)]), Offset(60)
    follower = history([(1, 0), (4, 30), (5, 40)])

    first = leader.end_offset_for(LeaderEpoch(5), leader_end)
    assert (first.epoch, first.end_offset) == (3, 45)
    own = follower.end_offset_for(first.epoch, Offset(50))
    assert (own.epoch, own.end_offset) == (1, 30)
    follower.truncate_from_end(own.end_offset)

    second = leader.end_offset_for(LeaderEpoch(1), leader_end)
    assert (second.epoch, second.end_offset) == (1, 20)
    own = follower.end_offset_for(second.epoch, Offset(30))
    assert min(own.end_offset, second.end_offset) == 20
