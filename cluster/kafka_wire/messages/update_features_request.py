"""UpdateFeaturesRequest, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class FeatureUpdateKey(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateFeaturesRequest"

    feature: str = ""
    max_version_level: int = 0
    allow_downgrade: bool = False  # 0
    upgrade_type: int = 1  # 1+


class UpdateFeaturesRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateFeaturesRequest"

    timeout_ms: int = 60000
    feature_updates: tuple[FeatureUpdateKey, ...] = ()
    validate_only: bool = False  # 1+
