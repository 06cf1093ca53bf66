"""Quantiles of measured values, the same for metrics, load and benchmarks."""

from collections.abc import Sequence

from msgspec import Struct


def quantile(ranked: Sequence[float], share: float) -> float:
    """The value at this share, from 0 to 1, of values in rising order, by nearest rank; 0 where there is none."""
    return ranked[min(int(share * len(ranked)), len(ranked) - 1)] if ranked else 0.0


class LatencySummary(Struct, frozen=True):
    """Durations in ms. Source: Kafka ProducerPerformance.Stats."""

    avg: float = 0.0
    max: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    p999: float = 0.0


def summarize_latencies(durations_ms: Sequence[float]) -> LatencySummary:
    """Summarize durations in any order; zeros where there is none."""
    ranked = sorted(durations_ms)
    if not ranked:
        return LatencySummary()
    values = (sum(ranked) / len(ranked), ranked[-1], *(quantile(ranked, share) for share in (0.5, 0.95, 0.99, 0.999)))
    return LatencySummary(*(round(value, 2) for value in values))
