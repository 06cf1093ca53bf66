"""Decisions about access control lists: what is refused, and what a filter matches."""

import pytest
from msgspec.structs import replace

from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.acls import AclCreation, DescribeAclsRequest
from cluster.security.acl_numbers import ANY, LITERAL, MATCH
from cluster.security.acls import AccessRule, Operation, Pattern, PatternType, Permission, ResourceType
from cluster.security.principals import Principal
from controller.decisions.configs.access_lists import AclBinding, binding_of, check_filter, matching

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
PREFIXED, TOPIC, GROUP, READ, WRITE, DENY, ALLOW = 4, 2, 3, 3, 4, 2, 3
CREATION = AclCreation(TOPIC, "orders", "User:alice", "*", READ, ALLOW)


def test_a_rule_is_made_of_kafkas_numbers() -> None:
    assert binding_of(CREATION) == AclBinding(Pattern(ResourceType.TOPIC, "orders"), AccessRule(ALICE, Operation.READ))
    denied = replace(CREATION, permission_type=DENY, resource_pattern_type=PREFIXED, host="10.0.0.1")
    assert binding_of(denied) == AclBinding(
        Pattern(ResourceType.TOPIC, "orders", PatternType.PREFIXED),
        AccessRule(ALICE, Operation.READ, Permission.DENY, "10.0.0.1"),
    )


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("resource_type", ANY, "resource_type: 1: must be one of 2, 3, 4"),
        ("resource_pattern_type", MATCH, "resource_pattern_type: 2: must be one of 3, 4"),
        ("operation", 15, "operation: 15: must be one of 2, 3"),
        ("permission_type", 0, "permission_type: 0: must be one of 2, 3"),
        ("resource_type", 4, "resource_name: 'orders': the only resource of type Cluster is kafka-cluster"),
        ("resource_name", "", "resource name '': must have 1 to 1024 characters"),
        ("resource_name", "a/b", "resource name 'a/b': must have 1 to 1024 characters, no '/'"),
        ("principal", "alice", "principal 'alice': is not Type:name"),
        ("host", "", "host: '': must be an address, or * for any"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_its_field_and_value(field: str, value: object, why: str) -> None:
    with pytest.raises(ApiError) as caught:
        binding_of(replace(CREATION, **{field: value}))
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert caught.value.message.startswith(why)


RULES = {
    Pattern(ResourceType.TOPIC, "orders"): frozenset({AccessRule(ALICE, Operation.READ)}),
    Pattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED): frozenset({AccessRule(BOB, Operation.WRITE)}),
    Pattern(ResourceType.TOPIC, "*"): frozenset({AccessRule(BOB, Operation.READ, Permission.DENY, "10.0.0.1")}),
    Pattern(ResourceType.GROUP, "orders"): frozenset({AccessRule(ALICE, Operation.READ)}),
}
EVERYTHING = DescribeAclsRequest(ANY, ANY, ANY, ANY)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, ["Group orders", "Topic *", "Topic ord", "Topic orders"]),
        ({"resource_type_filter": TOPIC}, ["Topic *", "Topic ord", "Topic orders"]),
        ({"pattern_type_filter": LITERAL}, ["Group orders", "Topic *", "Topic orders"]),
        ({"pattern_type_filter": PREFIXED}, ["Topic ord"]),
        ({"resource_name_filter": "orders"}, ["Group orders", "Topic orders"]),
        ({"resource_name_filter": "orders", "pattern_type_filter": LITERAL}, ["Group orders", "Topic orders"]),
        (
            {"resource_name_filter": "orders", "pattern_type_filter": MATCH},
            ["Group orders", "Topic *", "Topic ord", "Topic orders"],
        ),
        ({"resource_name_filter": "or", "pattern_type_filter": MATCH}, ["Topic *"]),
        ({"principal_filter": "User:bob"}, ["Topic *", "Topic ord"]),
        ({"host_filter": "*"}, ["Group orders", "Topic ord", "Topic orders"]),
        ({"operation": WRITE}, ["Topic ord"]),
        ({"permission_type": DENY}, ["Topic *"]),
    ],
)
def test_a_filter_matches_as_in_kafka(changes: dict[str, object], found: list[str]) -> None:
    """MATCH asks which rules concern a resource, ANY which are written for one of this name (KIP-290)."""
    wanted = replace(EVERYTHING, **changes)
    check_filter(wanted)
    assert [f"{pattern.resource_type} {pattern.name}" for pattern, _ in matching(wanted, RULES)] == found


@pytest.mark.parametrize("field", ["resource_type_filter", "operation", "permission_type", "pattern_type_filter"])
def test_a_filter_with_an_unknown_number_is_refused(field: str) -> None:
    with pytest.raises(ApiError, match=f"^INVALID_REQUEST: {field}: 99: must be one of 1, "):
        check_filter(replace(EVERYTHING, **{field: 99}))
