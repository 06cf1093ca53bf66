"""Made by cluster/kafka_wire/make_messages.py; do not edit.

Messages and their versions: CreateAclsRequest 0-3, CreateAclsResponse 0-3, DeleteAclsRequest 0-3, DeleteAclsResponse
0-3, DescribeAclsRequest 0-3, DescribeAclsResponse 0-3.
"""

from typing import ClassVar

from cluster.kafka_wire.message import Message


class AclCreation(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateAclsRequest"

    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3  # 1+
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class CreateAclsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateAclsRequest"

    creations: tuple[AclCreation, ...] = ()


class AclCreationResult(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateAclsResponse"

    error_code: int = 0
    error_message: str | None = ""


class CreateAclsResponse(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "CreateAclsResponse"

    throttle_time_ms: int = 0
    results: tuple[AclCreationResult, ...] = ()


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


class DescribeAclsRequest(Message, frozen=True, kw_only=True):
    SCHEMA: ClassVar[str] = "DescribeAclsRequest"

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3  # 1+
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


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
