"""The fetch state of each partition of one fetcher.

States are immutable and replaced on every change. A response is current only if the state object of its request is
still in the table; one that arrives after a removal, a new epoch, a back-off or a truncation is dropped (R0.5, R5.14,
R5.22). Source: Kafka PartitionFetchState.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from cluster.metrics.registry import Metrics
from cluster.model.broker import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicId
from cluster.model.partition import TopicPartition
from state_log.record import Cause

_LAG_METRIC: Final = ("kafka.server", "FetcherLagMetrics", "ConsumerLag")


class FetchState(Struct, frozen=True):
    """`fetch_offset` is the next one to request. `lag` is None before the first response.

    `delayed_until` is in seconds of the event loop's clock, None if ready. `cause` led to the role. `is_in_sync`: where
    replication is throttled, whether it has been fetched without lag and within the quota; it is not held up since.
    """

    topic_id: TopicId | None
    fetch_offset: Offset
    leader_epoch: LeaderEpoch
    last_fetched_epoch: LeaderEpoch = NO_LEADER_EPOCH
    is_truncating: bool = False
    lag: int | None = None
    delayed_until: float | None = None
    cause: Cause | None = None
    is_in_sync: bool = False


class FetchStates:
    """The partitions of one fetcher, in the order in which they are requested next."""

    def __init__(self, client_id: str, metrics: Metrics, *, per_partition_metrics: bool) -> None:
        self._client_id = client_id
        self._states: dict[TopicPartition, FetchState] = {}
        self._metrics = metrics
        self._per_partition_metrics = per_partition_metrics

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._states)

    def get(self, tp: TopicPartition) -> FetchState | None:
        return self._states.get(tp)

    def put(self, tp: TopicPartition, state: FetchState) -> None:
        """Replace the state in place, or append it."""
        self._states[tp] = state
        if self._per_partition_metrics and state.lag is not None:
            self._metrics.gauge(*_LAG_METRIC, **self._lag_tags(tp)).set(state.lag)

    def move_to_end(self, tp: TopicPartition) -> None:
        """Move a partition that received data to the end, so that others come first next time (R5.11)."""
        self._states[tp] = self._states.pop(tp)

    def remove(self, tp: TopicPartition) -> FetchState | None:
        if self._per_partition_metrics:
            self._metrics.remove(*_LAG_METRIC, **self._lag_tags(tp))
        return self._states.pop(tp, None)

    def delay(self, tp: TopicPartition, *, now: float, until: float) -> None:
        """Delay a partition; the rest of its state stays. A running delay is not extended (R5.28)."""
        state = self._states[tp]
        if state.delayed_until is None or state.delayed_until <= now:
            self._states[tp] = replace(state, delayed_until=until)

    def ready(self, now: float, *, truncating: bool) -> list[tuple[TopicPartition, FetchState]]:
        """The partitions that may be truncated, or fetched, now. Clears elapsed delays."""
        found = []
        for tp, state in self._states.items():
            if state.is_truncating is truncating and (state.delayed_until is None or state.delayed_until <= now):
                found.append((tp, state))
        return found

    def seconds_until_ready(self, now: float) -> float | None:
        """The time until the first delay ends; None without any."""
        delays = (state.delayed_until - now for state in self._states.values() if state.delayed_until is not None)
        return min(delays, default=None)

    @property
    def max_lag(self) -> int:
        return max((state.lag for state in self._states.values() if state.lag is not None), default=0)

    def _lag_tags(self, tp: TopicPartition) -> dict[str, str]:
        return {"clientId": self._client_id, "topic": tp.topic, "partition": str(tp.partition)}
