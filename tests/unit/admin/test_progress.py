"""The estimate of the remaining time."""

from admin.moving.progress import Progress


def test_nothing_is_predicted_before_something_was_done() -> None:
    progress = Progress(10, now=100)
    assert progress.describe("things", ()) == "0 of 10 things"
    progress.update(4, now=101)
    assert progress.remaining_s() is None
    assert progress.describe("things are done", ()) == "4 of 10 things are done"


def test_the_rest_takes_as_long_per_thing_as_what_was_seen() -> None:
    progress = Progress(10, now=100)
    progress.update(4, now=101)
    progress.update(7, now=107)
    assert progress.remaining_s() == 6
    assert progress.describe("things are done", ()) == "7 of 10 things are done, about 6 s left"


def test_what_is_stuck_has_no_time_of_arrival() -> None:
    progress = Progress(10, now=100)
    progress.update(4, now=101)
    progress.update(7, now=107)
    hindrances = [("u", "broker 2 is away"), ("b", "broker 1 is away"), ("a", "broker 1 is away")]
    assert progress.describe("done", hindrances) == "7 of 10 done; a, b: broker 1 is away; u: broker 2 is away"


def test_many_things_that_wait_for_the_same_are_reported_in_one_line() -> None:
    hindrances = [(f"t{number:03}", "broker 1 is away") for number in range(100)]
    assert (
        Progress(100, now=0).describe("gone", hindrances)
        == "0 of 100 gone; t000, t001, t002 and 97 more: broker 1 is away"
    )
