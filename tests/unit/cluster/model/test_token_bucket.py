"""Tokens come at their rate, up to as many as the burst holds."""

import pytest

from cluster.model.token_bucket import TokenBucket


@pytest.mark.rule("MQ-1")
def test_tokens_come_at_the_rate_up_to_the_burst() -> None:
    bucket = TokenBucket(burst_s=10)
    assert bucket.tokens(2, now_s=100) == 20
    bucket.use(15, 2, now_s=100)
    assert (bucket.tokens(2, now_s=100), bucket.tokens(2, now_s=103), bucket.wait_s(2, now_s=103)) == (5, 11, 0)
    assert bucket.tokens(2, now_s=1000) == 20


@pytest.mark.rule("MQ-1")
def test_a_use_of_more_than_there_are_is_paid_for_by_waiting() -> None:
    bucket = TokenBucket(burst_s=10)
    bucket.use(50, 2, now_s=0)
    assert (bucket.tokens(2, now_s=0), bucket.wait_s(2, now_s=0), bucket.wait_s(2, now_s=5)) == (-30, 15, 10)
    # At another rate, too.
    assert bucket.wait_s(4, now_s=5) == 5
    assert bucket.wait_s(4, now_s=10) == 0
