"""ApiVersionsResponse, versions 0-4. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


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
