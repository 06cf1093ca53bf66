"""DeleteAclsResponse, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DeleteAclsMatchingAcl(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteAclsResponse"

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3  # 1+
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class DeleteAclsFilterResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteAclsResponse"

    error_code: int = 0
    error_message: str | None = ""
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = ()


class DeleteAclsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteAclsResponse"

    throttle_time_ms: int = 0
    filter_results: tuple[DeleteAclsFilterResult, ...] = ()
