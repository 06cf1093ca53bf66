"""The order in which files of tests begin."""

from tests.durations import FileDuration, mixed


def test_files_that_compute_begin_beside_files_that_wait_and_of_both_the_longest_first() -> None:
    computes = {f"computes_{seconds}": FileDuration(seconds, seconds) for seconds in (10, 40, 20, 30)}
    waits = {f"waits_{seconds}": FileDuration(seconds, 1) for seconds in (50, 5, 25, 20)}
    order = mixed({**computes, **waits})
    assert order[:2] == ["computes_40", "waits_50"]
    assert [file for file in order if file in computes] == [f"computes_{seconds}" for seconds in (40, 30, 20, 10)]
    assert [file for file in order if file in waits] == [f"waits_{seconds}" for seconds in (50, 25, 20, 5)]
    # Halfway of one kind is halfway of the other.
    assert order[-2:] == ["computes_10", "waits_5"]


def test_files_of_one_kind_begin_with_the_longest() -> None:
    assert mixed({"short": FileDuration(2, 2), "long": FileDuration(3, 3)}) == ["long", "short"]
    assert mixed({}) == []
