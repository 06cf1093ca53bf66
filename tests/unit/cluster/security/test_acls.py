"""What access control lists mean at the edges: recorded from brokers of Apache Kafka 3.9.1."""

import pytest

from cluster.model.errors import ConfigError
from cluster.security.acl_znodes import (
    UnsupportedAclVersionError,
    decode_notice,
    decode_rules,
    encode_notice,
    encode_rules,
    path_of,
)
from cluster.security.acls import AccessRule, Authorizer, Operation, Pattern, PatternType, Permission, ResourceType
from cluster.security.principals import EVERY_USER, Principal, parse_principal, parse_super_users

ALICE = Principal("User", "alice")
HOST = "10.0.0.1"
ORDERS = Pattern(ResourceType.TOPIC, "orders")


def allows(rule: AccessRule, operation: Operation, principal: Principal = ALICE, name: str = "orders") -> bool:
    return Authorizer({ORDERS: frozenset({rule})}).allows(principal, HOST, operation, ResourceType.TOPIC, name)


@pytest.mark.parametrize(
    ("granted", "operation", "is_allowed"),
    [
        (Operation.READ, Operation.DESCRIBE, True),
        (Operation.ALTER, Operation.DESCRIBE, True),
        (Operation.CREATE, Operation.DESCRIBE, False),
        (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS, True),
        (Operation.ALTER_CONFIGS, Operation.DESCRIBE, False),
        (Operation.DESCRIBE, Operation.READ, False),
        (Operation.ALL, Operation.CLUSTER_ACTION, True),
    ],
)
def test_some_operations_imply_others(granted: Operation, operation: Operation, is_allowed: bool) -> None:
    assert allows(AccessRule(ALICE, granted), operation) is is_allowed


@pytest.mark.parametrize(("denied", "read", "describe"), [("READ", False, True), ("DESCRIBE", True, False)])
def test_a_denial_implies_nothing(denied: str, read: bool, describe: bool) -> None:
    rules = {AccessRule(ALICE, Operation.ALL), AccessRule(ALICE, Operation[denied], Permission.DENY)}
    authorizer = Authorizer({ORDERS: frozenset(rules)})
    wanted = (Operation.READ, Operation.DESCRIBE)
    decided = tuple(authorizer.allows(ALICE, HOST, each, ResourceType.TOPIC, "orders") for each in wanted)
    assert decided == (read, describe)


@pytest.mark.parametrize("text", ["user:alice", "User:Alice", "Group:alice"])
def test_principals_are_compared_exactly(text: str) -> None:
    assert not allows(AccessRule(parse_principal(text), Operation.READ), Operation.READ)


def test_only_the_wildcard_of_users_stands_for_all() -> None:
    assert allows(AccessRule(EVERY_USER, Operation.READ), Operation.READ)
    assert not allows(AccessRule(Principal("*", "*"), Operation.READ), Operation.READ)


def test_the_star_of_a_prefix_is_a_character() -> None:
    rules = frozenset({AccessRule(ALICE, Operation.READ)})
    prefixed = Authorizer({Pattern(ResourceType.TOPIC, "*", PatternType.PREFIXED): rules})
    assert not prefixed.allows(ALICE, HOST, Operation.READ, ResourceType.TOPIC, "orders")
    assert prefixed.allows(ALICE, HOST, Operation.READ, ResourceType.TOPIC, "*orders")


@pytest.mark.parametrize("host", ["localhost", "10.0.0.0/8", "10.0.0.2"])
def test_hosts_are_addresses_compared_as_texts(host: str) -> None:
    assert not allows(AccessRule(ALICE, Operation.READ, host=host), Operation.READ)
    assert allows(AccessRule(ALICE, Operation.READ, host=HOST), Operation.READ)


def test_a_rule_about_anybody_ends_that_everybody_may() -> None:
    rule = AccessRule(Principal("User", "bob"), Operation.READ)
    open_to_all = Authorizer({ORDERS: frozenset({rule})}, allow_unlisted=True)
    decided = [open_to_all.allows(ALICE, HOST, Operation.READ, ResourceType.TOPIC, name) for name in ("orders", "x")]
    assert decided == [False, True]


def test_super_users_are_divided_by_semicolons() -> None:
    assert parse_super_users("User:CN=carol,OU=x; User:bob;") == {
        Principal("User", "CN=carol,OU=x"),
        Principal("User", "bob"),
    }
    with pytest.raises(ConfigError, match="principal 'carol': is not Type:name"):
        parse_super_users("carol")


def test_malformed_rules_are_none_and_an_unknown_entry_has_no_effect() -> None:
    assert decode_rules(b"{").rules == frozenset()
    assert "malformed, so it has no rules" in decode_rules(b"{").problems[0]
    mixed = b"""{"version":1,"acls":[
        {"principal":"User:alice","permissionType":"allow","operation":"read","host":"*"},
        {"principal":"User:alice","permissionType":"Allow","operation":"Fly","host":"*"},
        {"principal":"alice","permissionType":"Allow","operation":"Read","host":"*"},
        {"principal":"User:alice"}]}"""
    read = decode_rules(mixed)
    assert read.rules == {AccessRule(ALICE, Operation.READ)}
    assert len(read.problems) == 3
    with pytest.raises(UnsupportedAclVersionError, match="version 2: only 1 is known"):
        decode_rules(b'{"version":2,"acls":[]}')


def test_rules_and_notices_are_read_as_they_were_written() -> None:
    rules = frozenset({AccessRule(ALICE, Operation.READ, Permission.DENY, HOST), AccessRule(EVERY_USER, Operation.ALL)})
    assert decode_rules(encode_rules(rules)).rules == rules
    for kind in PatternType:
        pattern = Pattern(ResourceType.TRANSACTIONAL_ID, "pay:1", kind)
        assert decode_notice(kind, encode_notice(pattern)) == pattern
    assert encode_notice(ORDERS) == b"TOPIC:orders"


@pytest.mark.parametrize("kind", PatternType)
@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"Topic:x", b'{"version":1}'])
def test_a_malformed_notice_is_named(kind: PatternType, data: bytes) -> None:
    with pytest.raises(ConfigError, match="is none of a changed access control list"):
        decode_notice(kind, data)


@pytest.mark.parametrize("name", ["", "a/b"])
def test_names_that_no_znode_can_have_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="resource name"):
        path_of(Pattern(ResourceType.TOPIC, name))
