"""The fetch state of each partition of one fetcher.

States are immutable and replaced on every change. A response is current only if the state object of its request is
still in the table; one that arrives after a removal, a new epoch, a back-off or a truncation is dropped (R0.5, R5.14,
R5.22). Source: Kafka PartitionFetchState.
"""

from collections.abc import Callable, Iterator
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

    def is_ready(self, now: float) -> bool:
        """Whether its delay, if there is one, has ended."""
        return self.delayed_until is None or self.delayed_until <= now


class FetchStates:
    """The partitions of one fetcher, in the order in which they are requested next."""

    def __init__(self, client_id: str, metrics: Metrics, *, per_partition_metrics: bool) -> None:
        self._client_id = client_id
        self._states: dict[TopicPartition, FetchState] = {}
        # What is done each time that nothing has happened must not depend on the number of partitions.
        self._truncating: dict[TopicPartition, None] = {}
        self._delayed: dict[TopicPartition, None] = {}
        self._lagging: dict[TopicPartition, None] = {}
        self.on_change: Callable[[TopicPartition], None] = lambda _tp: None
        """Called when a state was put or removed."""
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
        _include(self._truncating, tp, state.is_truncating)
        _include(self._delayed, tp, state.delayed_until is not None)
        _include(self._lagging, tp, bool(state.lag))
        self.on_change(tp)
        if self._per_partition_metrics and state.lag is not None:
            self._metrics.gauge(*_LAG_METRIC, **self._lag_tags(tp)).set(state.lag)

    def move_to_end(self, tp: TopicPartition) -> None:
        """Move a partition that received data to the end, so that others come first next time (R5.11)."""
        self._states[tp] = self._states.pop(tp)

    def remove(self, tp: TopicPartition) -> FetchState | None:
        if self._per_partition_metrics:
            self._metrics.remove(*_LAG_METRIC, **self._lag_tags(tp))
        for index in (self._truncating, self._delayed, self._lagging):
            index.pop(tp, None)
        self.on_change(tp)
        return self._states.pop(tp, None)

    def delay(self, tp: TopicPartition, *, now: float, until: float) -> None:
        """Delay a partition; the rest of its state stays. A running delay is not extended (R5.28)."""
        state = self._states[tp]
        if state.delayed_until is None or state.delayed_until <= now:
            self.put(tp, replace(state, delayed_until=until))

    def ready(self, now: float, *, truncating: bool) -> list[tuple[TopicPartition, FetchState]]:
        """The partitions that may be truncated, or fetched, now."""
        among = [(tp, self._states[tp]) for tp in self._truncating] if truncating else self._states.items()
        return [(tp, state) for tp, state in among if state.is_truncating is truncating and state.is_ready(now)]

    def no_longer_delayed(self, now: float) -> list[TopicPartition]:
        """The partitions whose delays have ended since they were put."""
        return [tp for tp in self._delayed if self._states[tp].is_ready(now)]

    def seconds_until_ready(self, now: float) -> float | None:
        """The time until the first delay ends; None without any."""
        ends = (self._states[tp].delayed_until for tp in self._delayed)
        return min((end - now for end in ends if end is not None), default=None)

    @property
    def max_lag(self) -> int:
        return max((self._states[tp].lag or 0 for tp in self._lagging), default=0)

    def _lag_tags(self, tp: TopicPartition) -> dict[str, str]:
        return {"clientId": self._client_id, "topic": tp.topic, "partition": str(tp.partition)}


def _include(index: dict[TopicPartition, None], tp: TopicPartition, belongs: bool) -> None:
    if belongs:
        index[tp] = None
    else:
        index.pop(tp, None)
