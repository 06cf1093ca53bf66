"""UpdateFeaturesResponse, versions 0-1. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class UpdatableFeatureResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateFeaturesResponse"

    feature: str = ""
    error_code: int = 0
    error_message: str | None = ""


class UpdateFeaturesResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "UpdateFeaturesResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: tuple[UpdatableFeatureResult, ...] = ()
