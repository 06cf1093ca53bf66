"""Throttle times, and the quotas in the configs of a client id."""

import pytest

from broker_agent.decisions.client_quotas import parse_quotas, throttle_time_ms


@pytest.mark.rule("R18.6")
@pytest.mark.parametrize(
    ("rate", "quota", "throttle_ms"), [(0, 100, 0), (100, 100, 0), (150, 100, 5000), (1000, 100, 90_000)]
)
def test_the_mean_of_the_window_is_the_quota_again_after_the_throttle_time(
    rate: float, quota: float, throttle_ms: int
) -> None:
    assert throttle_time_ms(rate, quota, 10_000) == throttle_ms


@pytest.mark.rule("R18.8")
def test_invalid_quotas_and_those_for_something_else_are_left_out() -> None:
    assert parse_quotas({"producer_byte_rate": "1024", "consumer_byte_rate": "2.5e3", "request_percentage": "50"}) == {
        "producer_byte_rate": 1024,
        "consumer_byte_rate": 2500,
    }
    for value in ("0", "-1", "inf", "nan", "much", ""):
        assert parse_quotas({"producer_byte_rate": value}) == {}
