"""DescribeConfigsResponse, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DescribeConfigsSynonym(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeConfigsResponse"

    name: str = ""  # 1+
    value: str | None = ""  # 1+
    source: int = 0  # 1+


class DescribeConfigsResourceResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeConfigsResponse"

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    is_default: bool = False  # 0
    config_source: int = -1  # 1+
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()  # 1+
    config_type: int = 0  # 3+
    documentation: str | None = ""  # 3+


class DescribeConfigsResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeConfigsResponse"

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


class DescribeConfigsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeConfigsResponse"

    throttle_time_ms: int = 0
    results: tuple[DescribeConfigsResult, ...] = ()
