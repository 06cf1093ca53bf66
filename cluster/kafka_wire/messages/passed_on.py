"""Made by cluster/kafka_wire/make_messages.py; do not edit.

Messages and their versions: CreateDelegationTokenResponse 0-3, DescribeClientQuotasResponse 0-1,
DescribeDelegationTokenResponse 0-3, DescribeQuorumResponse 0-2, DescribeUserScramCredentialsResponse 0,
EnvelopeResponse 0, ExpireDelegationTokenResponse 0-2, FetchResponse 0-17, RenewDelegationTokenResponse 0-2,
UnregisterBrokerResponse 0.
"""

from typing import ClassVar

from cluster.kafka_wire.message import Message
from cluster.model.broker import ZERO_TOPIC_ID, TopicId


class CreateDelegationTokenResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateDelegationTokenResponse"

    error_code: int = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""  # 3+
    token_requester_principal_name: str = ""  # 3+
    issue_timestamp_ms: int = 0
    expiry_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0


class DescribeClientQuotasResponseEntityData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClientQuotasResponse"

    entity_type: str = ""
    entity_name: str | None = ""


class ValueData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClientQuotasResponse"

    key: str = ""
    value: float = 0.0


class DescribeClientQuotasResponseEntryData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClientQuotasResponse"

    entity: tuple[DescribeClientQuotasResponseEntityData, ...] = ()
    values: tuple[ValueData, ...] = ()


class DescribeClientQuotasResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeClientQuotasResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: tuple[DescribeClientQuotasResponseEntryData, ...] | None = ()


class DescribedDelegationTokenRenewer(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeDelegationTokenResponse"

    principal_type: str = ""
    principal_name: str = ""


class DescribedDelegationToken(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeDelegationTokenResponse"

    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""  # 3+
    token_requester_principal_name: str = ""  # 3+
    issue_timestamp: int = 0
    expiry_timestamp: int = 0
    max_timestamp: int = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = ()


class DescribeDelegationTokenResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeDelegationTokenResponse"

    error_code: int = 0
    tokens: tuple[DescribedDelegationToken, ...] = ()
    throttle_time_ms: int = 0


class ReplicaState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumResponse"

    replica_id: int = 0
    replica_directory_id: TopicId = ZERO_TOPIC_ID  # 2+
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1  # 1+
    last_caught_up_timestamp: int = -1  # 1+


class DescribeQuorumResponsePartitionData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumResponse"

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""  # 2+
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


class DescribeQuorumResponseTopicData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumResponse"

    topic_name: str = ""
    partitions: tuple[DescribeQuorumResponsePartitionData, ...] = ()


class Listener(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumResponse"

    name: str = ""  # 2+
    host: str = ""  # 2+
    port: int = 0  # 2+


class Node(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumResponse"

    node_id: int = 0  # 2+
    listeners: tuple[Listener, ...] = ()  # 2+


class DescribeQuorumResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeQuorumResponse"

    error_code: int = 0
    error_message: str | None = ""  # 2+
    topics: tuple[DescribeQuorumResponseTopicData, ...] = ()
    nodes: tuple[Node, ...] = ()  # 2+


class CredentialInfo(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeUserScramCredentialsResponse"

    mechanism: int = 0
    iterations: int = 0


class DescribeUserScramCredentialsResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeUserScramCredentialsResponse"

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: tuple[CredentialInfo, ...] = ()


class DescribeUserScramCredentialsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeUserScramCredentialsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()


class EnvelopeResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "EnvelopeResponse"

    response_data: bytes | None = None
    error_code: int = 0


class ExpireDelegationTokenResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ExpireDelegationTokenResponse"

    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0


class EpochEndOffset(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchResponse"

    epoch: int = -1  # 12+
    end_offset: int = -1  # 12+


class FetchResponseLeaderIdAndEpoch(Message, frozen=True, kw_only=True):
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


class FetchResponsePartitionData(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchResponse"

    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1  # 4+
    log_start_offset: int = -1  # 5+
    diverging_epoch: EpochEndOffset = EpochEndOffset()  # 12+
    current_leader: FetchResponseLeaderIdAndEpoch = FetchResponseLeaderIdAndEpoch()  # 12+
    snapshot_id: SnapshotId = SnapshotId()  # 12+
    aborted_transactions: tuple[AbortedTransaction, ...] | None = ()  # 4+
    preferred_read_replica: int = -1  # 11+
    records: bytes | None = None


class FetchableTopicResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "FetchResponse"

    topic: str = ""  # 0-12
    topic_id: TopicId = ZERO_TOPIC_ID  # 13+
    partitions: tuple[FetchResponsePartitionData, ...] = ()


class FetchResponseNodeEndpoint(Message, frozen=True, kw_only=True):
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
    node_endpoints: tuple[FetchResponseNodeEndpoint, ...] = ()  # 16+


class RenewDelegationTokenResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "RenewDelegationTokenResponse"

    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0


class UnregisterBrokerResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UnregisterBrokerResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
