"""AddPartitionsToTxnResponse, versions 0-5. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AddPartitionsToTxnPartitionResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AddPartitionsToTxnResponse"

    partition_index: int = 0
    partition_error_code: int = 0


class AddPartitionsToTxnTopicResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AddPartitionsToTxnResponse"

    name: str = ""
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = ()


class AddPartitionsToTxnResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AddPartitionsToTxnResponse"

    transactional_id: str = ""  # 4+
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = ()  # 4+


class AddPartitionsToTxnResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AddPartitionsToTxnResponse"

    throttle_time_ms: int = 0
    error_code: int = 0  # 4+
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = ()  # 4+
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ()  # 0-3
