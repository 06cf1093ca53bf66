"""DescribeClusterResponse, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DescribeClusterBroker(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClusterResponse"

    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class DescribeClusterResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClusterResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1  # 1+
    cluster_id: str = ""
    controller_id: int = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: int = -2147483648
