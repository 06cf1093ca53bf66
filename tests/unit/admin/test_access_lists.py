"""The options of `klamm acls` are those of kafka-acls, and mean the same."""

import pytest

from admin.describing.access_lists import Grants, Resources, filters, rules_to_add
from cluster.model.errors import ConfigError
from cluster.requests.acls import AclCreation, DeleteAclsFilter
from cluster.security.acl_numbers import OPERATIONS, RESOURCE_TYPES

TOPIC, GROUP, CLUSTER = 2, 3, 4
ORDERS = Resources(("orders",))
ALICE = Grants(("User:alice",), operations=("read",))


def shown(rules: tuple[AclCreation, ...]) -> list[str]:
    return [f"{RESOURCE_TYPES[r.resource_type]} {r.resource_name} {OPERATIONS[r.operation]}" for r in rules]


def test_each_principal_gets_each_operation_on_each_resource_from_each_host() -> None:
    resources = Resources(("a", "b"), is_cluster=True, pattern_type="Prefixed")
    grants = Grants(("User:x",), ("User:y",), denied_hosts=("10.0.0.1", "::1"), operations=("Describe",))
    assert rules_to_add(resources, grants) == (
        AclCreation(TOPIC, "a", "User:x", "*", 8, 3, 4),
        AclCreation(TOPIC, "b", "User:x", "*", 8, 3, 4),
        AclCreation(CLUSTER, "kafka-cluster", "User:x", "*", 8, 3, 3),
        AclCreation(TOPIC, "a", "User:y", "10.0.0.1", 8, 2, 4),
        AclCreation(TOPIC, "a", "User:y", "::1", 8, 2, 4),
        AclCreation(TOPIC, "b", "User:y", "10.0.0.1", 8, 2, 4),
        AclCreation(TOPIC, "b", "User:y", "::1", 8, 2, 4),
        AclCreation(CLUSTER, "kafka-cluster", "User:y", "10.0.0.1", 8, 2, 3),
        AclCreation(CLUSTER, "kafka-cluster", "User:y", "::1", 8, 2, 3),
    )
    assert shown(rules_to_add(ORDERS, Grants(("User:x",)))) == ["Topic orders All"]


@pytest.mark.parametrize(
    ("resources", "grants", "rules"),
    [
        (
            Resources(("t",), transactional_ids=("x",)),
            Grants(("User:a",), is_producer=True, is_idempotent=True),
            [
                "Topic t Describe",
                "Topic t Write",
                "Topic t Create",
                "TransactionalId x Write",
                "TransactionalId x Describe",
                "Cluster kafka-cluster IdempotentWrite",
            ],
        ),
        (
            Resources(("t",), ("g",)),
            Grants(("User:a",), is_consumer=True),
            ["Topic t Describe", "Topic t Read", "Group g Read"],
        ),
        (
            Resources(("t",), ("g",)),
            Grants(("User:a",), is_consumer=True, is_producer=True),
            ["Topic t Describe", "Topic t Write", "Topic t Create", "Topic t Read", "Group g Read"],
        ),
    ],
)
def test_producers_and_consumers_get_what_kafka_acls_gives_them(
    resources: Resources, grants: Grants, rules: list[str]
) -> None:
    assert shown(rules_to_add(resources, grants)) == rules


@pytest.mark.parametrize(
    ("resources", "grants", "why"),
    [
        (ORDERS, Grants(), "--allow-principal or --deny-principal is missing"),
        (ORDERS, Grants(("alice",)), "--allow-principal: principal 'alice': is not Type:name"),
        (ORDERS, Grants(("User:a",), denied_hosts=("*",)), "--deny-host needs --deny-principal"),
        (ORDERS, Grants(("User:a",), allowed_hosts=("web.example",)), "--allow-host web.example: is no address"),
        (ORDERS, Grants((), ("user:a",)), "--deny-principal user:a: matches nobody"),
        (ORDERS, Grants(("User:a",), operations=("Fly",)), "--operation Fly: must be one of All, Read"),
        (ORDERS, Grants(("User:a",), operations=("ClusterAction",)), "nobody does that to a Topic; it has: All, Alter"),
        (Resources(), ALICE, "no resource: give --topic"),
        (Resources(("t",), pattern_type="match"), ALICE, "--resource-pattern-type match: must be one of literal, pre"),
        (Resources(("*",), pattern_type="prefixed"), ALICE, "'*' would be the names that begin with this character"),
        (Resources(groups=("g",)), Grants(("User:a",), is_producer=True), "--topic is missing"),
        (ORDERS, Grants(("User:a",), is_consumer=True), "--group is missing"),
        (ORDERS, Grants(("User:a",), is_idempotent=True), "--idempotent needs --producer"),
        (ORDERS, Grants(("User:a",), operations=("Read",), is_producer=True), "choose the operations themselves"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_option_and_value(resources: Resources, grants: Grants, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rules_to_add(resources, grants)
    assert why in "; ".join(caught.value.errors)


def test_a_rule_of_a_type_that_nobody_has_can_be_removed() -> None:
    (found,) = filters(ORDERS, Grants(("user:a",)))
    assert found.principal_filter == "user:a"


def test_a_filter_matches_whatever_is_not_said() -> None:
    assert filters(Resources(), Grants()) == (DeleteAclsFilter(1, 1, 1, 3),)
    assert filters(Resources(("t",), pattern_type="match"), ALICE) == (
        DeleteAclsFilter(TOPIC, 3, 3, 2, "t", "User:alice", None),
    )
    of_cluster = Resources(is_cluster=True, pattern_type="prefixed")
    assert filters(of_cluster, Grants(allowed_hosts=("10.0.0.1",)), ("User:b",)) == (
        DeleteAclsFilter(CLUSTER, 1, 1, 3, "kafka-cluster", "User:b", "10.0.0.1"),
    )
    with pytest.raises(ConfigError, match="must be one of literal, prefixed, any, match"):
        filters(Resources(pattern_type="regex"), Grants())
