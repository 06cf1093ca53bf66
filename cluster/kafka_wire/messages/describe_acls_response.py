"""DescribeAclsResponse, versions 0-3. Made by cluster/kafka_wire/make_messages.py; do not edit."""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AclDescription(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeAclsResponse"

    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class DescribeAclsResource(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeAclsResponse"

    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3  # 1+
    acls: tuple[AclDescription, ...] = ()


class DescribeAclsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeAclsResponse"

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: tuple[DescribeAclsResource, ...] = ()
