"""A rate is what was recorded in the last samples, per second of the time since the oldest of them."""

import pytest

from cluster.model.sampled_rate import SampledRate


def test_nothing_recorded_is_a_rate_of_0() -> None:
    assert SampledRate(11, 1000).per_second(5000) == 0


def test_the_time_counts_from_the_oldest_sample_one_sample_at_least() -> None:
    rate = SampledRate(11, 1000)
    rate.record(1000, now_ms=50_000)
    assert rate.per_second(50_000) == 1000
    assert rate.per_second(50_500) == 1000
    assert rate.per_second(52_000) == 500
    assert rate.per_second(52_000, more=1000) == 1000


def test_a_sample_takes_what_comes_within_its_length() -> None:
    rate = SampledRate(2, 1000)
    for now_ms in (0, 400, 999):
        rate.record(100, now_ms)
    rate.record(50, 1000)
    assert rate.per_second(1999) == pytest.approx(350 / 1.999)
    # The first sample has passed, with all that was in it.
    assert rate.per_second(2000) == 50


def test_what_is_older_than_all_samples_is_forgotten() -> None:
    rate = SampledRate(11, 1000)
    rate.record(10_000_000, 0)
    assert rate.per_second(10_999) > 0
    assert rate.per_second(11_000) == 0


def test_a_longer_time_lets_through_what_was_not_used() -> None:
    rate = SampledRate(11, 1000, lowest_ms=10_000)
    rate.record(2000, 0)
    assert (rate.per_second(0), rate.window_ms(0)) == (200, 10_000)
    assert (rate.per_second(10_500), rate.window_ms(10_500)) == (pytest.approx(2000 / 10.5), 10_500)
