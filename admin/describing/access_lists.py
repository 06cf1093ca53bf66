"""What the options of `klamm acls` mean: rules to be added, and filters. They are those of kafka-acls.

Source: Kafka AclCommand, AclEntry.supportedOperations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final, TypeVar

from msgspec import Struct

from cluster.model.errors import ConfigError
from cluster.requests.acls import AclCreation, DeleteAclsFilter, DescribeAclsRequest, DescribeAclsResponse
from cluster.security.acl_numbers import (
    ANY,
    MATCH,
    NUMBER_OF_OPERATION,
    NUMBER_OF_PATTERN_TYPE,
    NUMBER_OF_PERMISSION,
    NUMBER_OF_RESOURCE_TYPE,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
)
from cluster.security.acls import ANY_HOST, CLUSTER_NAME, EVERY_NAME, Operation, PatternType, Permission, ResourceType
from cluster.security.principals import USER, parse_principal

_T = TypeVar("_T")
_OF_CONFIGS: Final = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})
_MADE_FOR: Final[Mapping[ResourceType, frozenset[Operation]]] = {
    ResourceType.TOPIC: _OF_CONFIGS
    | {
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.ALTER,
    },
    ResourceType.GROUP: _OF_CONFIGS | {Operation.READ, Operation.DESCRIBE, Operation.DELETE},
    ResourceType.CLUSTER: _OF_CONFIGS
    | {
        Operation.CREATE,
        Operation.CLUSTER_ACTION,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALTER,
        Operation.DESCRIBE,
    },
    ResourceType.TRANSACTIONAL_ID: frozenset({Operation.DESCRIBE, Operation.WRITE}),
    ResourceType.DELEGATION_TOKEN: frozenset({Operation.DESCRIBE}),
    ResourceType.USER: frozenset({Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS}),
}
"""Which operations there are on each type; any other rule would never be asked for."""
_PATTERNS_TO_FIND: Final = {"any": ANY, "match": MATCH}


class Resources(Struct, frozen=True):
    """The resources that options name, and the type of pattern that their names are."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    is_cluster: bool = False
    transactional_ids: Sequence[str] = ()
    delegation_tokens: Sequence[str] = ()
    users: Sequence[str] = ()
    pattern_type: str = "literal"

    def named(self) -> Iterator[tuple[ResourceType, str]]:
        """Yield the type and name of each."""
        for kind, names in (
            (ResourceType.TOPIC, self.topics),
            (ResourceType.GROUP, self.groups),
            (ResourceType.CLUSTER, (CLUSTER_NAME,) if self.is_cluster else ()),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_ids),
            (ResourceType.DELEGATION_TOKEN, self.delegation_tokens),
            (ResourceType.USER, self.users),
        ):
            for name in names:
                yield kind, name


class Grants(Struct, frozen=True):
    """Who is allowed or denied what, from where, as options say it; empty: not said."""

    allowed: Sequence[str] = ()
    denied: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    denied_hosts: Sequence[str] = ()
    operations: Sequence[str] = ()
    is_producer: bool = False
    is_consumer: bool = False
    is_idempotent: bool = False


def rules_to_add(resources: Resources, grants: Grants) -> tuple[AclCreation, ...]:
    """Make the rules that options ask for. Raises ConfigError with every mistake."""
    problems = [
        *_wrong_principals("--allow-principal", grants.allowed, is_new=True),
        *_wrong_principals("--deny-principal", grants.denied, is_new=True),
        *_wrong_hosts("--allow-host", grants.allowed_hosts),
        *_wrong_hosts("--deny-host", grants.denied_hosts),
    ]
    if not grants.allowed and not grants.denied:
        problems.append("--allow-principal or --deny-principal is missing: who is it about?")
    for hosts, principals, option in (
        (grants.allowed_hosts, grants.allowed, "allow"),
        (grants.denied_hosts, grants.denied, "deny"),
    ):
        if hosts and not principals:
            problems.append(f"--{option}-host needs --{option}-principal")
    wanted = list(_wanted(resources, grants, problems))
    pattern_type = _pattern_type(resources.pattern_type, {}, problems)
    if pattern_type == NUMBER_OF_PATTERN_TYPE[PatternType.PREFIXED] and EVERY_NAME in {
        name for _, name in resources.named()
    }:
        problems.append("--resource-pattern-type prefixed: '*' would be the names that begin with this character")
    if problems:
        raise ConfigError(problems)
    rules = {
        AclCreation(
            NUMBER_OF_RESOURCE_TYPE[kind],
            name,
            principal,
            host,
            NUMBER_OF_OPERATION[operation],
            NUMBER_OF_PERMISSION[permission],
            # The cluster has one name, whatever the names of the other resources are.
            NUMBER_OF_PATTERN_TYPE[PatternType.LITERAL] if kind is ResourceType.CLUSTER else pattern_type,
        ): None
        for permission, principals, hosts in (
            (Permission.ALLOW, grants.allowed, grants.allowed_hosts),
            (Permission.DENY, grants.denied, grants.denied_hosts),
        )
        for principal in principals
        for kind, name, operation in wanted
        for host in hosts or (ANY_HOST,)
    }
    return tuple(rules)


def filters(resources: Resources, grants: Grants, principals: Sequence[str] = ()) -> tuple[DeleteAclsFilter, ...]:
    """Make the filters that options ask for: what is not said matches everything. Raises ConfigError.

    `principals`: those of rules that allow or deny.
    """
    problems = [*_wrong_principals("--allow-principal", grants.allowed)]
    problems += [*_wrong_principals("--deny-principal", grants.denied), *_wrong_principals("--principal", principals)]
    pattern_type = _pattern_type(resources.pattern_type, _PATTERNS_TO_FIND, problems)
    operations = [_operation(text, problems) for text in grants.operations]
    if problems:
        raise ConfigError(problems)
    named: list[tuple[int, str | None]] = [(NUMBER_OF_RESOURCE_TYPE[kind], name) for kind, name in resources.named()]
    who: list[tuple[str | None, int, Sequence[str]]] = [
        *((principal, ANY, (*grants.allowed_hosts, *grants.denied_hosts)) for principal in principals),
        *((p, NUMBER_OF_PERMISSION[Permission.ALLOW], grants.allowed_hosts) for p in grants.allowed),
        *((p, NUMBER_OF_PERMISSION[Permission.DENY], grants.denied_hosts) for p in grants.denied),
    ]
    return tuple(
        DeleteAclsFilter(
            kind,
            operation,
            permission,
            NUMBER_OF_PATTERN_TYPE[PatternType.LITERAL] if name == CLUSTER_NAME else pattern_type,
            name,
            principal,
            host,
        )
        for kind, name in named or [(ANY, None)]
        for principal, permission, hosts in who or [(None, ANY, (*grants.allowed_hosts, *grants.denied_hosts))]
        for host in hosts or (None,)
        for operation in [NUMBER_OF_OPERATION[o] for o in operations if o is not None] or [ANY]
    )


def as_description(wanted: DeleteAclsFilter) -> DescribeAclsRequest:
    """The request for the rules that a filter matches."""
    return DescribeAclsRequest(**{field: getattr(wanted, field) for field in wanted.__struct_fields__})


def documents(described: Iterable[DescribeAclsResponse]) -> list[dict[str, Any]]:
    """The rules of several answers, each once, as documents that are sorted by resource."""
    found = {
        (rule["resource_type"], rule["resource_name"], *map(str, rule.values())): rule
        for response in described
        for resource in response.resources
        for acl in resource.acls
        for rule in [
            document(
                kind=resource.resource_type,
                name=resource.resource_name,
                pattern_type=resource.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission=acl.permission_type,
            )
        ]
    }
    return [found[key] for key in sorted(found)]


def document(
    *, kind: int, name: str, pattern_type: int, principal: str, host: str, operation: int, permission: int
) -> dict[str, Any]:
    """Make the document of one rule; a number that is not known stays a number."""
    return {
        "resource_type": _known(RESOURCE_TYPES, kind),
        "resource_name": name,
        "pattern_type": _known(PATTERN_TYPES, pattern_type),
        "principal": principal,
        "permission": _known(PERMISSIONS, permission),
        "operation": _known(OPERATIONS, operation),
        "host": host,
    }


def _wanted(resources: Resources, grants: Grants, problems: list[str]) -> Iterator[tuple[ResourceType, str, Operation]]:
    """The operations on each resource; for producers and consumers those that they need. Source: AclCommand."""
    named = list(resources.named())
    if grants.is_producer or grants.is_consumer:
        yield from _of_programs(resources, grants, problems)
        return
    if grants.is_idempotent:
        problems.append("--idempotent needs --producer")
    if not named:
        problems.append("no resource: give --topic, --group, --cluster, --transactional-id, --delegation-token or …")
    operations = [o for text in grants.operations if (o := _operation(text, problems)) is not None]
    for kind, name in named:
        for operation in operations or ([] if grants.operations else [Operation.ALL]):
            if operation is not Operation.ALL and operation not in _MADE_FOR[kind]:
                known = ", ".join(sorted(_MADE_FOR[kind]))
                problems.append(f"--operation {operation}: nobody does that to a {kind}; it has: All, {known}")
            yield kind, name, operation


def _of_programs(
    resources: Resources, grants: Grants, problems: list[str]
) -> Iterator[tuple[ResourceType, str, Operation]]:
    if grants.operations:
        problems.append("--operation: --producer and --consumer choose the operations themselves")
    if not resources.topics:
        problems.append("--topic is missing: --producer and --consumer are about topics")
    if grants.is_consumer and not resources.groups:
        problems.append("--group is missing: a consumer has one; '*' stands for all")
    if grants.is_idempotent and not grants.is_producer:
        problems.append("--idempotent needs --producer")
    operations = {Operation.DESCRIBE: None}
    operations |= {Operation.WRITE: None, Operation.CREATE: None} if grants.is_producer else {}
    operations |= {Operation.READ: None} if grants.is_consumer else {}
    for topic in resources.topics:
        yield from ((ResourceType.TOPIC, topic, operation) for operation in operations)
    if grants.is_consumer:
        yield from ((ResourceType.GROUP, group, Operation.READ) for group in resources.groups)
    if grants.is_producer:
        for id_ in resources.transactional_ids:
            yield from ((ResourceType.TRANSACTIONAL_ID, id_, o) for o in (Operation.WRITE, Operation.DESCRIBE))
    if grants.is_idempotent:
        yield ResourceType.CLUSTER, CLUSTER_NAME, Operation.IDEMPOTENT_WRITE


def _operation(text: str, problems: list[str]) -> Operation | None:
    found = next((operation for operation in Operation if operation.lower() == text.lower()), None)
    if found is None:
        problems.append(f"--operation {text}: must be one of {', '.join(Operation)}")
    return found


def _pattern_type(text: str, others: Mapping[str, int], problems: list[str]) -> int:
    known: dict[str, int] = {**{kind.lower(): number for kind, number in NUMBER_OF_PATTERN_TYPE.items()}, **others}
    if text.lower() not in known:
        problems.append(f"--resource-pattern-type {text}: must be one of {', '.join(known)}")
    return known.get(text.lower(), ANY)


def _wrong_principals(option: str, texts: Iterable[str], *, is_new: bool = False) -> Iterator[str]:
    """`is_new`: of a rule that is added; others may be there already, to be found and removed."""
    for text in texts:
        try:
            principal = parse_principal(text)
            if is_new and principal.type != USER and principal.type.lower() == USER.lower():
                yield f"{option} {text}: matches nobody: types are compared exactly, so write {USER}:{principal.name}"
        except ConfigError as error:
            yield f"{option}: {'; '.join(error.errors)}"


def _wrong_hosts(option: str, texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        try:
            if text != ANY_HOST:
                ip_address(text)
        except ValueError:
            yield f"{option} {text}: is no address: rules compare addresses, not names or networks; * is any"


def _known(names: Mapping[int, _T], number: int) -> _T | int:
    return names.get(number, number)
