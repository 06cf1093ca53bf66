"""Quantiles of measured values."""

from hypothesis import given
from hypothesis import strategies as st

from cluster.metrics.quantiles import LatencySummary, quantile, summarize_latencies


def test_a_quantile_is_the_value_at_its_rank() -> None:
    ranked = [float(n) for n in range(1, 101)]
    assert [quantile(ranked, share) for share in (0, 0.5, 0.95, 0.99, 0.999, 1)] == [1, 51, 96, 100, 100, 100]


def test_of_nothing_everything_is_zero() -> None:
    assert quantile([], 0.5) == 0
    assert summarize_latencies([]) == LatencySummary(0, 0, 0, 0, 0, 0)


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_the_percentiles_rise_up_to_the_maximum_whatever_the_order(durations: list[float]) -> None:
    found = summarize_latencies(durations)
    assert found == summarize_latencies(sorted(durations))
    assert found.p50 <= found.p95 <= found.p99 <= found.p999 <= found.max
    assert found.max == round(max(durations), 2)
