"""Random access control lists, and what klamm decides by them for the requests of `authorizer_answers.py`."""

import random
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cluster.security.acl_numbers import NUMBER_OF_OPERATION
from cluster.security.acls import (
    CLUSTER_NAME,
    EVERY_NAME,
    AccessRule,
    Authorizer,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    RulesByPattern,
)
from cluster.security.authorization import CallerRights, Resource
from cluster.security.identities import Identity
from cluster.security.principals import ANONYMOUS, Principal, parse_principal
from controller.adapters.kafka.authorized_answers import ClientRights

SUPER_USERS: Final = "User:broker;User:carol"
USERS: Final = ("alice", "bob", "carol")
HOSTS: Final = ("127.0.0.1", "127.0.0.2")
NAMES: Final = ("orders", "orders-eu", "ord", "payments")
"""Of topics, and of groups and transactional ids."""
OWNER: Final = "User:dave"
"""For whom delegation tokens are asked: this is the name of a resource of type User."""
HIDDEN: Final = -1
"""In place of operations, where they are not told for lack of Describe."""
_PREFIXES: Final = ("o", "ord", "orders", "orders-", "pay", EVERY_NAME, "User:", "k", CLUSTER_NAME)
_PRINCIPALS: Final = ("User:alice", "User:bob", "User:carol", "User:*", "User:ANONYMOUS", "Group:alice", "User:Alice")
_RULE_HOSTS: Final = ("*", "*", "*", "*", *HOSTS, "localhost", "127.0.0.0/8")
_OF_GROUP: Final = (
    Operation.READ,
    Operation.DESCRIBE,
    Operation.DELETE,
)
_MOST_ASKED: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)

Answers = dict[str, int]
"""What was asked, and the bits of all operations that are allowed, or 1 and 0 for one that is allowed or not."""


def random_rules(randomness: random.Random) -> dict[Pattern, frozenset[AccessRule]]:
    """Up to 30 rules, on few resources, so that they concern one another."""
    types = randomness.sample((*ResourceType, *_MOST_ASKED, *_MOST_ASKED), 5)
    operations = randomness.sample(list(Operation), 5)
    found: dict[Pattern, set[AccessRule]] = {}
    for _ in range(randomness.randint(1, 30)):
        found.setdefault(_pattern(randomness, randomness.choice(types)), set()).add(
            AccessRule(
                parse_principal(randomness.choice(_PRINCIPALS)),
                randomness.choice((*operations, Operation.ALL, Operation.DESCRIBE, Operation.DESCRIBE)),
                randomness.choices((Permission.ALLOW, Permission.DENY), (4, 1))[0],
                randomness.choice(_RULE_HOSTS),
            )
        )
    return {pattern: frozenset(rules) for pattern, rules in found.items()}


def _pattern(randomness: random.Random, kind: ResourceType) -> Pattern:
    if randomness.random() < 0.3:
        return Pattern(kind, randomness.choice(_PREFIXES), PatternType.PREFIXED)
    own = {ResourceType.CLUSTER: (CLUSTER_NAME,), ResourceType.USER: (OWNER, "User:alice")}.get(kind, NAMES)
    return Pattern(kind, EVERY_NAME if randomness.random() < 0.2 else randomness.choice(own))


def as_json(rules: RulesByPattern) -> list[list[str]]:
    """One rule a list of texts."""
    return sorted(
        [p.resource_type, p.name, p.type, str(r.principal), r.operation, r.permission, r.host]
        for p, of_it in rules.items()
        for r in of_it
    )


def from_json(texts: Iterable[list[str]]) -> dict[Pattern, frozenset[AccessRule]]:
    """The rules of such lists."""
    found: dict[Pattern, set[AccessRule]] = {}
    for kind, name, pattern, principal, operation, permission, host in texts:
        rule = AccessRule(parse_principal(principal), Operation(operation), Permission(permission), host)
        found.setdefault(Pattern(ResourceType(kind), name, PatternType(pattern)), set()).add(rule)
    return {pattern: frozenset(rules) for pattern, rules in found.items()}


def decided(authorizer: Authorizer, principal: Principal, host: str) -> Answers:
    """The answers that a client with these rights gets by klamm's decisions. Source: Kafka KafkaApis."""
    rights = CallerRights(Identity(principal, host=host), authorizer)
    client = ClientRights(rights)

    def may(operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME) -> bool:
        return rights.may(operation, Resource(kind, name))

    topic, group, cluster = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
    found: dict[str, int] = {
        "DescribeCluster": client.cluster_operations(is_asked=True),
        "DescribeConfigs of a broker": may(Operation.DESCRIBE_CONFIGS, cluster),
        "AlterConfigs of a broker": may(Operation.ALTER_CONFIGS, cluster),
        "AlterPartitionReassignments": may(Operation.ALTER, cluster),
        "InitProducerId": may(Operation.IDEMPOTENT_WRITE, cluster) or rights.may_somewhere(Operation.WRITE, topic),
        # A listener without authentication refuses tokens whatever the rules say.
        f"CreateDelegationToken {OWNER}": principal != ANONYMOUS
        and may(Operation.CREATE_TOKENS, ResourceType.USER, OWNER),
    }
    for name in NAMES:
        own = Resource(topic, name)
        found |= {
            f"Metadata {name}": client.operations(own) if rights.may(Operation.DESCRIBE, own) else HIDDEN,
            f"DescribeGroups {name}": _of_group(rights, name) if may(Operation.DESCRIBE, group, name) else HIDDEN,
            f"FindCoordinator of group {name}": may(Operation.DESCRIBE, group, name),
            f"FindCoordinator of id {name}": may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name),
            f"InitProducerId {name}": may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name),
            f"DescribeConfigs {name}": may(Operation.DESCRIBE_CONFIGS, topic, name),
            f"AlterConfigs {name}": may(Operation.ALTER_CONFIGS, topic, name),
            f"CreateTopics {name}": may(Operation.CREATE, cluster) or may(Operation.CREATE, topic, name),
            f"CreatePartitions {name}": may(Operation.ALTER, topic, name),
            f"DeleteRecords {name}": may(Operation.DELETE, topic, name),
        }
    return {asked: int(answer) for asked, answer in found.items()}


def _of_group(rights: CallerRights, name: str) -> int:
    group = Resource(ResourceType.GROUP, name)
    return sum(1 << NUMBER_OF_OPERATION[operation] for operation in _OF_GROUP if rights.may(operation, group))


def clients() -> list[tuple[Principal, str]]:
    """Who asks, and from where: users, and one who has not said who it is."""
    principals = [parse_principal(f"User:{user}") for user in (*USERS, "ANONYMOUS")]
    return [(principal, host) for principal in principals for host in HOSTS]


def differences(authorizer: Authorizer, answers: Mapping[str, Answers]) -> list[Any]:
    """What a broker answered to whom, where klamm decides otherwise, with both."""
    found: list[Any] = []
    for principal, host in clients():
        who = f"{principal} {host}"
        ours, theirs = decided(authorizer, principal, host), answers[who]
        assert ours.keys() == theirs.keys()
        found += [(who, asked, theirs[asked], ours[asked]) for asked in ours if ours[asked] != theirs[asked]]
    return found
