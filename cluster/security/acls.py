"""Access control lists, and what Kafka's AclAuthorizer decides by them.

Source: kafka.security.authorizer.AclAuthorizer of Apache Kafka 3.9.1, AclEntry; KIP-11, KIP-290 (prefixed patterns).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Final

from msgspec import Struct

from cluster.security.principals import EVERY_USER, Principal

ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
"""The name under which settings ask for these decisions."""
ACL_AUTHORIZERS: Final = (ACL_AUTHORIZER, "kafka.security.auth.SimpleAclAuthorizer")
"""All such names: brokers before 2.4 had another class, of the same rules, and those until 2.8 take its name, too."""
ANY_HOST: Final = "*"
EVERY_NAME: Final = "*"
"""As the name of a literal pattern: every resource of the type. In a prefixed pattern it is only a character."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a resource of type Cluster."""


class ResourceType(StrEnum):
    """The types of resources, by their names in znodes."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"
    TRANSACTIONAL_ID = "TransactionalId"
    DELEGATION_TOKEN = "DelegationToken"  # noqa: S105 - the name of a kind.
    USER = "User"


class PatternType(StrEnum):
    LITERAL = "Literal"
    PREFIXED = "Prefixed"


class Permission(StrEnum):
    ALLOW = "Allow"
    DENY = "Deny"


class Operation(StrEnum):
    """What is done to a resource, by its name in znodes."""

    ALL = "All"
    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"
    CREATE_TOKENS = "CreateTokens"
    DESCRIBE_TOKENS = "DescribeTokens"


_IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""Who may do one of these may do the other. It holds for what is allowed, never for what is denied."""


class Pattern(Struct, frozen=True, order=True):
    """The resources that a rule is about: of one type, by their name or by its first characters."""

    resource_type: ResourceType
    name: str
    type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return f"{self.resource_type}:{self.type.upper()}:{self.name}"


def patterns_for(resource_type: ResourceType, name: str, prefix_lengths: Iterable[int]) -> Iterator[Pattern]:
    """The patterns that match a resource: its name, every name, and each prefix of its name that has such a length."""
    yield Pattern(resource_type, name)
    yield Pattern(resource_type, EVERY_NAME)
    for length in prefix_lengths:
        if length <= len(name):
            yield Pattern(resource_type, name[:length], PatternType.PREFIXED)


class AccessRule(Struct, frozen=True, order=True):
    """What one principal may do, or may not, from one host. `host`: an address as text, or ANY_HOST."""

    principal: Principal
    operation: Operation
    permission: Permission = Permission.ALLOW
    host: str = ANY_HOST

    def __str__(self) -> str:
        return f"{self.permission} {self.operation} by {self.principal} from {self.host}"

    def is_about(self, principal: Principal, host: str) -> bool:
        """Whether it holds for this principal on this host. Kafka compares texts: no host names, no networks."""
        return self.principal in {principal, EVERY_USER} and self.host in {host, ANY_HOST}


RulesByPattern = Mapping[Pattern, frozenset[AccessRule]]


class Authorizer(Struct, frozen=True, dict=True):
    """Decides what is allowed.

    `allow_unlisted`: whether everyone may do everything to a resource for which there is no rule at all
    (`allow.everyone.if.no.acl.found`).
    """

    rules: RulesByPattern
    super_users: Collection[Principal] = frozenset()
    allow_unlisted: bool = False

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the principal may do this to the resource."""
        if principal in self.super_users:
            return True
        patterns = patterns_for(resource_type, name, self._prefix_lengths)
        found = [rule for pattern in patterns for rule in self.rules.get(pattern, ())]
        if not found:
            return self.allow_unlisted
        about = [rule for rule in found if rule.is_about(principal, host)]
        if _has(about, Permission.DENY, {operation, Operation.ALL}):
            return False
        return _has(about, Permission.ALLOW, {operation, Operation.ALL, *_IMPLIED_BY.get(operation, ())})

    def allows_somewhere(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether the principal may do this to some resource of the type, as a producer asks for IdempotentWrite.

        Only the operation itself and All count, none that imply it. Source: AclAuthorizer.authorizeByResourceType.
        """
        if principal in self.super_users:
            return True
        wanted = {operation, Operation.ALL}
        denied = set(self._patterns(principal, host, Permission.DENY, wanted, resource_type))
        if Pattern(resource_type, EVERY_NAME) in denied:
            return False
        if self.allow_unlisted:
            return True
        allowed = self._patterns(principal, host, Permission.ALLOW, wanted, resource_type)
        return any(not _is_dominated(pattern, denied) for pattern in allowed)

    @cached_property
    def _prefix_lengths(self) -> frozenset[int]:
        """The lengths of prefixes in the rules. Only these are looked up, however long the name of a caller is."""
        return frozenset(len(pattern.name) for pattern in self.rules if pattern.type is PatternType.PREFIXED)

    def _patterns(
        self,
        principal: Principal,
        host: str,
        permission: Permission,
        operations: Collection[Operation],
        resource_type: ResourceType,
    ) -> Iterator[Pattern]:
        """The patterns of this type with such a rule about the principal on the host."""
        for pattern, rules in self.rules.items():
            about = [rule for rule in rules if rule.is_about(principal, host)]
            if pattern.resource_type is resource_type and _has(about, permission, operations):
                yield pattern


def _has(rules: Iterable[AccessRule], permission: Permission, operations: Collection[Operation]) -> bool:
    return any(rule.permission is permission and rule.operation in operations for rule in rules)


def _is_dominated(allowed: Pattern, denied: Collection[Pattern]) -> bool:
    """Whether a denial covers every resource of an allowed pattern: of the same name, or a prefix of it."""
    if allowed.type is PatternType.LITERAL and allowed.name == EVERY_NAME:
        return False
    if allowed.type is PatternType.LITERAL and allowed in denied:
        return True
    prefixes = (pattern.name for pattern in denied if pattern.type is PatternType.PREFIXED)
    return any(allowed.name.startswith(prefix) for prefix in prefixes)
