"""Decides what requests about access control lists mean: which rules are added, and which ones a filter matches.

Source: Kafka AclApis, CreateAclsRequest.validate, AclBindingFilter, ResourcePatternFilter; KIP-290.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cluster.model.bounds import shortened
from cluster.model.errors import ApiError, ConfigError, ErrorCode
from cluster.requests.acls import AclCreation, DeleteAclsFilter, DescribeAclsRequest
from cluster.security.acl_numbers import ANY, MATCH, OPERATIONS, PATTERN_TYPES, PERMISSIONS, RESOURCE_TYPES
from cluster.security.acl_znodes import path_of
from cluster.security.acls import (
    CLUSTER_NAME,
    EVERY_NAME,
    AccessRule,
    Pattern,
    PatternType,
    ResourceType,
    RulesByPattern,
)
from cluster.security.principals import parse_principal

AclFilter = DescribeAclsRequest | DeleteAclsFilter


class AclBinding(NamedTuple):
    """One rule, and the resources that it is about."""

    pattern: Pattern
    rule: AccessRule


def binding_of(creation: AclCreation) -> AclBinding:
    """Make the rule of a request. Raises ApiError that names the field."""
    for field, number, known in (
        ("resource_type", creation.resource_type, RESOURCE_TYPES),
        ("resource_pattern_type", creation.resource_pattern_type, PATTERN_TYPES),
        ("operation", creation.operation, OPERATIONS),
        ("permission_type", creation.permission_type, PERMISSIONS),
    ):
        _check_known(field, number, known)
    kind = RESOURCE_TYPES[creation.resource_type]
    pattern = Pattern(kind, creation.resource_name, PATTERN_TYPES[creation.resource_pattern_type])
    if kind is ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise _invalid("resource_name", creation.resource_name, f"the only resource of type Cluster is {CLUSTER_NAME}")
    if not creation.host:
        raise _invalid("host", creation.host, "must be an address, or * for any")
    try:
        path_of(pattern)
        principal = parse_principal(creation.principal)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, "; ".join(error.errors)) from error
    operation, permission = OPERATIONS[creation.operation], PERMISSIONS[creation.permission_type]
    return AclBinding(pattern, AccessRule(principal, operation, permission, creation.host))


def check_filter(wanted: AclFilter) -> None:
    """Raise ApiError that names the field if a filter asks for a number that is unknown."""
    for field, number, known in (
        ("resource_type_filter", wanted.resource_type_filter, {ANY, *RESOURCE_TYPES}),
        ("pattern_type_filter", wanted.pattern_type_filter, {ANY, MATCH, *PATTERN_TYPES}),
        ("operation", wanted.operation, {ANY, *OPERATIONS}),
        ("permission_type", wanted.permission_type, {ANY, *PERMISSIONS}),
    ):
        _check_known(field, number, known)


def matching(wanted: AclFilter, rules: RulesByPattern) -> Iterator[AclBinding]:
    """Yield the rules that a filter matches, sorted by pattern."""
    for pattern in sorted(rules):
        if _matches_pattern(wanted, pattern):
            yield from (AclBinding(pattern, rule) for rule in sorted(rules[pattern]) if _matches_rule(wanted, rule))


def _matches_pattern(wanted: AclFilter, pattern: Pattern) -> bool:
    if wanted.resource_type_filter != ANY and RESOURCE_TYPES[wanted.resource_type_filter] is not pattern.resource_type:
        return False
    name, kind = wanted.resource_name_filter, wanted.pattern_type_filter
    if kind not in (ANY, MATCH) and PATTERN_TYPES[kind] is not pattern.type:
        return False
    if name is None or name == pattern.name:
        return True
    if kind != MATCH:
        return False
    if pattern.type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name == EVERY_NAME


def _matches_rule(wanted: AclFilter, rule: AccessRule) -> bool:
    return (
        wanted.principal_filter in (None, str(rule.principal))
        and wanted.host_filter in (None, rule.host)
        and (wanted.operation == ANY or OPERATIONS[wanted.operation] is rule.operation)
        and (wanted.permission_type == ANY or PERMISSIONS[wanted.permission_type] is rule.permission)
    )


def _check_known(field: str, number: int, known: Mapping[int, object] | set[int]) -> None:
    if number not in known:
        raise _invalid(field, number, f"must be one of {', '.join(map(str, sorted(known)))}")


def _invalid(field: str, value: object, why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"{field}: {shortened(value)}: {why}", field=field, value=value)
