"""DescribeLogDirsResponse, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DescribeLogDirsPartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeLogDirsResponse"

    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeLogDirsResponse"

    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


class DescribeLogDirsResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeLogDirsResponse"

    error_code: int = 0
    log_dir: str = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: int = -1  # 4+
    usable_bytes: int = -1  # 4+


class DescribeLogDirsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeLogDirsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0  # 3+
    results: tuple[DescribeLogDirsResult, ...] = ()
