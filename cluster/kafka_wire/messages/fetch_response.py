"""FetchResponse, versions 0-17. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.model.broker import ZERO_TOPIC_ID, TopicId
from cluster.kafka_wire.message import Message


class EpochEndOffset(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchResponse"

    epoch: int = -1  # 12+
    end_offset: int = -1  # 12+


class LeaderIdAndEpoch(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchResponse"

    leader_id: int = -1  # 12+
    leader_epoch: int = -1  # 12+


class SnapshotId(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchResponse"

    end_offset: int = -1
    epoch: int = -1


class AbortedTransaction(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchResponse"

    producer_id: int = 0  # 4+
    first_offset: int = 0  # 4+


class PartitionData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchResponse"

    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1  # 4+
    log_start_offset: int = -1  # 5+
    diverging_epoch: EpochEndOffset = EpochEndOffset()  # 12+
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()  # 12+
    snapshot_id: SnapshotId = SnapshotId()  # 12+
    aborted_transactions: tuple[AbortedTransaction, ...] | None = ()  # 4+
    preferred_read_replica: int = -1  # 11+
    records: bytes | None = None


class FetchableTopicResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchResponse"

    topic: str = ""  # 0-12
    topic_id: TopicId = ZERO_TOPIC_ID  # 13+
    partitions: tuple[PartitionData, ...] = ()


class NodeEndpoint(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchResponse"

    node_id: int = 0  # 16+
    host: str = ""  # 16+
    port: int = 0  # 16+
    rack: str | None = None  # 16+


class FetchResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchResponse"

    throttle_time_ms: int = 0  # 1+
    error_code: int = 0  # 7+
    session_id: int = 0  # 7+
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()  # 16+
