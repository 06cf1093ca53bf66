"""Throttle times."""

import pytest

from broker_agent.decisions.client_quotas import throttle_time_ms


@pytest.mark.rule("R18.6")
@pytest.mark.parametrize(
    ("rate", "quota", "throttle_ms"),
    [
        (0, 100, 0),
        (100, 100, 0),
        (150, 100, 5000),
        (1000, 100, 90_000),
        (1e7, 1, 2**31 - 1),
        (1, 1e-320, 2**31 - 1),
    ],
)
def test_the_mean_of_the_window_is_the_quota_again_after_the_throttle_time(
    rate: float, quota: float, throttle_ms: int
) -> None:
    assert throttle_time_ms(rate, quota, 10_000) == throttle_ms
