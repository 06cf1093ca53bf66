"""The topic-level settings of a log."""

from typing import Final

from msgspec import Struct

UNLIMITED: Final = 9_223_372_036_854_775_807
"""Kafka's value for a time or number without limit."""


class LogConfig(Struct, frozen=True):
    """Topic-level settings of one log; defaults are the broker's defaults. Sizes in bytes, times in ms."""

    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    max_message_bytes: int = 1_048_588
    min_insync_replicas: int = 1
    flush_messages: int = UNLIMITED
    flush_ms: int = UNLIMITED
    file_delete_delay_ms: int = 60_000
    cleanup_policy: str = "delete"
    """`delete`, `compact`, or both, separated by a comma."""
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = UNLIMITED
    message_timestamp_type: str = "CreateTime"
    message_timestamp_difference_max_ms: int = UNLIMITED
    """The former name of the next two; applies to each that has its default."""
    message_timestamp_before_max_ms: int = UNLIMITED
    message_timestamp_after_max_ms: int = UNLIMITED
    leader_replication_throttled_replicas: str = ""
    follower_replication_throttled_replicas: str = ""
    """`*`, or `partition:broker,…`: the replicas whose copies the throttled rates of the brokers limit."""

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def segment_ms_max(self) -> int:
        """The age at which a segment rolls: that of a compacted log must not keep records from being cleaned in time.

        Source: Kafka LogConfig.maxSegmentMs.
        """
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms
