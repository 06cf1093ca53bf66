"""Made by cluster/kafka_wire/make_messages.py; do not edit.

Messages and their versions: DescribeClusterRequest 0-1, DescribeClusterResponse 0-1, FindCoordinatorRequest 0-6,
FindCoordinatorResponse 0-6, InitProducerIdRequest 0-5, InitProducerIdResponse 0-5.
"""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DescribeClusterRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClusterRequest"

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1  # 1+


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


class FindCoordinatorRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FindCoordinatorRequest"

    key: str = ""  # 0-3
    key_type: int = 0  # 1+
    coordinator_keys: tuple[str, ...] = ()  # 4+


class Coordinator(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FindCoordinatorResponse"

    key: str = ""  # 4+
    node_id: int = 0  # 4+
    host: str = ""  # 4+
    port: int = 0  # 4+
    error_code: int = 0  # 4+
    error_message: str | None = ""  # 4+


class FindCoordinatorResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FindCoordinatorResponse"

    throttle_time_ms: int = 0  # 1+
    error_code: int = 0  # 0-3
    error_message: str | None = ""  # 1-3
    node_id: int = 0  # 0-3
    host: str = ""  # 0-3
    port: int = 0  # 0-3
    coordinators: tuple[Coordinator, ...] = ()  # 4+


class InitProducerIdRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "InitProducerIdRequest"

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1  # 3+
    producer_epoch: int = -1  # 3+


class InitProducerIdResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "InitProducerIdResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
