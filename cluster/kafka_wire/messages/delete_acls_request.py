"""DeleteAclsRequest, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class DeleteAclsFilter(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteAclsRequest"

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3  # 1+
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


class DeleteAclsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DeleteAclsRequest"

    filters: tuple[DeleteAclsFilter, ...] = ()
