"""Made by cluster/kafka_wire/make_messages.py; do not edit.

Messages and their versions: ApiVersionsRequest 0-4, ApiVersionsResponse 0-4, HeartbeatRequest 0-4, HeartbeatResponse
0-4, ListGroupsRequest 0-5, ListGroupsResponse 0-5, ListTransactionsRequest 0-1, ListTransactionsResponse 0-1,
RequestHeader 0-2, ResponseHeader 0-1.
"""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class ApiVersionsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ApiVersionsRequest"

    client_software_name: str = ""  # 3+
    client_software_version: str = ""  # 3+


class ApiVersion(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ApiVersionsResponse"

    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


class SupportedFeatureKey(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ApiVersionsResponse"

    name: str = ""  # 3+
    min_version: int = 0  # 3+
    max_version: int = 0  # 3+


class FinalizedFeatureKey(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ApiVersionsResponse"

    name: str = ""  # 3+
    max_version_level: int = 0  # 3+
    min_version_level: int = 0  # 3+


class ApiVersionsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ApiVersionsResponse"

    error_code: int = 0
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: int = 0  # 1+
    supported_features: tuple[SupportedFeatureKey, ...] = ()  # 3+
    finalized_features_epoch: int = -1  # 3+
    finalized_features: tuple[FinalizedFeatureKey, ...] = ()  # 3+
    zk_migration_ready: bool = False  # 3+


class HeartbeatRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "HeartbeatRequest"

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None  # 3+


class HeartbeatResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "HeartbeatResponse"

    throttle_time_ms: int = 0  # 1+
    error_code: int = 0


class ListGroupsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListGroupsRequest"

    states_filter: tuple[str, ...] = ()  # 4+
    types_filter: tuple[str, ...] = ()  # 5+


class ListedGroup(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListGroupsResponse"

    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""  # 4+
    group_type: str = ""  # 5+


class ListGroupsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListGroupsResponse"

    throttle_time_ms: int = 0  # 1+
    error_code: int = 0
    groups: tuple[ListedGroup, ...] = ()


class ListTransactionsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListTransactionsRequest"

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter: int = -1  # 1+


class TransactionState(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListTransactionsResponse"

    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""


class ListTransactionsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ListTransactionsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionState, ...] = ()


class RequestHeader(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "RequestHeader"

    request_api_key: int = 0
    request_api_version: int = 0
    correlation_id: int = 0
    client_id: str | None = ""  # 1+


class ResponseHeader(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "ResponseHeader"

    correlation_id: int = 0
