"""Access control lists, with Kafka's numbers (`cluster.security.acl_numbers`). Source: KIP-140, KIP-290."""

from msgspec import Struct

from cluster.model.errors import ErrorCode
from cluster.requests.field_types import ClientItems, Int32, String
from cluster.requests.request import RequestFor
from cluster.security.acl_numbers import LITERAL


class AclCreation(Struct, frozen=True):
    """A rule to be added: what a principal, from a host (`*`: any), may do or may not do to resources."""

    resource_type: Int32
    resource_name: String
    principal: String
    host: String
    operation: Int32
    permission_type: Int32
    resource_pattern_type: Int32 = LITERAL


class CreateAclsRequest(RequestFor["CreateAclsResponse"], frozen=True):
    creations: ClientItems[AclCreation]


class AclCreationResult(Struct, frozen=True):
    error_code: ErrorCode
    error_message: str | None = None


class CreateAclsResponse(Struct, frozen=True):
    """One result for each creation, in their order. A rule that is there already is no error."""

    results: tuple[AclCreationResult, ...]


class DescribeAclsRequest(RequestFor["DescribeAclsResponse"], frozen=True):
    """A filter, of which ANY and None match everything. `pattern_type_filter` MATCH: all patterns that concern a
    resource of this name.
    """

    resource_type_filter: Int32
    operation: Int32
    permission_type: Int32
    pattern_type_filter: Int32 = LITERAL
    resource_name_filter: String | None = None
    principal_filter: String | None = None
    host_filter: String | None = None


class AclDescription(Struct, frozen=True):
    principal: str
    host: str
    operation: int
    permission_type: int


class DescribeAclsResource(Struct, frozen=True):
    resource_type: int
    resource_name: str
    pattern_type: int
    acls: tuple[AclDescription, ...]


class DescribeAclsResponse(Struct, frozen=True):
    """The rules that match, by resource pattern."""

    resources: tuple[DescribeAclsResource, ...] = ()


class DeleteAclsFilter(Struct, frozen=True):
    """A filter as in DescribeAclsRequest."""

    resource_type_filter: Int32
    operation: Int32
    permission_type: Int32
    pattern_type_filter: Int32 = LITERAL
    resource_name_filter: String | None = None
    principal_filter: String | None = None
    host_filter: String | None = None


class DeleteAclsRequest(RequestFor["DeleteAclsResponse"], frozen=True):
    filters: ClientItems[DeleteAclsFilter]


class DeleteAclsMatchingAcl(Struct, frozen=True):
    """A rule that matched: deleted, if there is no error."""

    error_code: ErrorCode
    resource_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission_type: int
    pattern_type: int = LITERAL
    error_message: str | None = None


class DeleteAclsFilterResult(Struct, frozen=True):
    error_code: ErrorCode
    error_message: str | None = None
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = ()


class DeleteAclsResponse(Struct, frozen=True):
    """One result for each filter, in their order."""

    filter_results: tuple[DeleteAclsFilterResult, ...]
