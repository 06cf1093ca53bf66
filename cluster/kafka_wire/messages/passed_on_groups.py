"""Made by cluster/kafka_wire/make_messages.py; do not edit.

Messages and their versions: AddOffsetsToTxnResponse 0-4, AddPartitionsToTxnResponse 0-5, ConsumerGroupHeartbeatResponse
0, EndTxnResponse 0-4, JoinGroupResponse 0-9, LeaveGroupResponse 0-5, OffsetDeleteResponse 0, OffsetFetchResponse 0-9,
SyncGroupResponse 0-5.
"""

from typing import ClassVar

from cluster.kafka_wire.message import Message
from cluster.model.broker import ZERO_TOPIC_ID, TopicId


class AddOffsetsToTxnResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "AddOffsetsToTxnResponse"

    throttle_time_ms: int = 0
    error_code: int = 0


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


class ConsumerGroupHeartbeatResponseTopicPartitions(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupHeartbeatResponse"

    topic_id: TopicId = ZERO_TOPIC_ID
    partitions: tuple[int, ...] = ()


class Assignment(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupHeartbeatResponse"

    topic_partitions: tuple[ConsumerGroupHeartbeatResponseTopicPartitions, ...] = ()


class ConsumerGroupHeartbeatResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ConsumerGroupHeartbeatResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


class EndTxnResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "EndTxnResponse"

    throttle_time_ms: int = 0
    error_code: int = 0


class JoinGroupResponseMember(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "JoinGroupResponse"

    member_id: str = ""
    group_instance_id: str | None = None  # 5+
    metadata: bytes = b""


class JoinGroupResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "JoinGroupResponse"

    throttle_time_ms: int = 0  # 2+
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None  # 7+
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False  # 9+
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


class MemberResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaveGroupResponse"

    member_id: str = ""  # 3+
    group_instance_id: str | None = ""  # 3+
    error_code: int = 0  # 3+


class LeaveGroupResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "LeaveGroupResponse"

    throttle_time_ms: int = 0  # 1+
    error_code: int = 0
    members: tuple[MemberResponse, ...] = ()  # 3+


class OffsetDeleteResponsePartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetDeleteResponse"

    partition_index: int = 0
    error_code: int = 0


class OffsetDeleteResponseTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetDeleteResponse"

    name: str = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


class OffsetDeleteResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetDeleteResponse"

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()


class OffsetFetchResponsePartition(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchResponse"

    partition_index: int = 0  # 0-7
    committed_offset: int = 0  # 0-7
    committed_leader_epoch: int = -1  # 5-7
    metadata: str | None = ""  # 0-7
    error_code: int = 0  # 0-7


class OffsetFetchResponseTopic(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchResponse"

    name: str = ""  # 0-7
    partitions: tuple[OffsetFetchResponsePartition, ...] = ()  # 0-7


class OffsetFetchResponsePartitions(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchResponse"

    partition_index: int = 0  # 8+
    committed_offset: int = 0  # 8+
    committed_leader_epoch: int = -1  # 8+
    metadata: str | None = ""  # 8+
    error_code: int = 0  # 8+


class OffsetFetchResponseTopics(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchResponse"

    name: str = ""  # 8+
    partitions: tuple[OffsetFetchResponsePartitions, ...] = ()  # 8+


class OffsetFetchResponseGroup(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchResponse"

    group_id: str = ""  # 8+
    topics: tuple[OffsetFetchResponseTopics, ...] = ()  # 8+
    error_code: int = 0  # 8+


class OffsetFetchResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "OffsetFetchResponse"

    throttle_time_ms: int = 0  # 3+
    topics: tuple[OffsetFetchResponseTopic, ...] = ()  # 0-7
    error_code: int = 0  # 2-7
    groups: tuple[OffsetFetchResponseGroup, ...] = ()  # 8+


class SyncGroupResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "SyncGroupResponse"

    throttle_time_ms: int = 0  # 1+
    error_code: int = 0
    protocol_type: str | None = None  # 5+
    protocol_name: str | None = None  # 5+
    assignment: bytes = b""
