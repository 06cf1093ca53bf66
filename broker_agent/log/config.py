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
    message_timestamp_type: str = "CreateTime"
    message_timestamp_difference_max_ms: int = UNLIMITED
    """The former name of the next two; applies to each that has its default."""
    message_timestamp_before_max_ms: int = UNLIMITED
    message_timestamp_after_max_ms: int = UNLIMITED
    leader_replication_throttled_replicas: str = ""
    follower_replication_throttled_replicas: str = ""
    """`*`, or `partition:broker,…`: the replicas whose copies the throttled rates of the brokers limit."""
