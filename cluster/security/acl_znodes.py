"""Access control lists in ZooKeeper, as Apache Kafka keeps them: paths, JSON and notices of changes.

    /kafka-acl/<type>/<name>                            literal patterns
    /kafka-acl-extended/prefixed/<type>/<name>          prefixed patterns
    /kafka-acl-changes/acl_changes_<number>             notices, of literal patterns
    /kafka-acl-extended-changes/acl_changes_<number>    and of prefixed ones

Source: kafka.zk.ZkAclStore, ResourceZNode, AclEntry; recorded from Apache Kafka 3.9.1.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct

from cluster.model import bounds
from cluster.model.errors import DECODE_ERRORS, ConfigError
from cluster.security.acls import AccessRule, Operation, Pattern, PatternType, Permission, ResourceType
from cluster.security.principals import parse_principal

LITERAL_TOP: Final = "/kafka-acl"
PREFIXED_TOP: Final = "/kafka-acl-extended/prefixed"
_CHANGES: Final = {
    PatternType.LITERAL: "/kafka-acl-changes",
    PatternType.PREFIXED: "/kafka-acl-extended-changes",
}
CHANGE_PREFIX: Final = "acl_changes_"
VERSION: Final = 1
_OPERATIONS: Final = {operation.lower(): operation for operation in Operation}
_PERMISSIONS: Final = {permission.lower(): permission for permission in Permission}


class UnsupportedAclVersionError(ConfigError):
    """The znode says another version: the rules that were known of it before stay, as in Kafka."""


def top_of(kind: PatternType) -> str:
    """The znode below which the patterns of this kind are."""
    return LITERAL_TOP if kind is PatternType.LITERAL else PREFIXED_TOP


def path_of(pattern: Pattern) -> str:
    """The znode with the rules of a pattern. Raises ConfigError for a name that none can have."""
    if "/" in pattern.name or not bounds.ZNODE_NAME.accepts(pattern.name):
        name = bounds.shortened(pattern.name)
        raise ConfigError(
            [f"resource name {name}: must have 1 to 1024 characters, no '/' or control character among them"]
        )
    return f"{top_of(pattern.type)}/{pattern.resource_type}/{pattern.name}"


def changes_of(kind: PatternType) -> str:
    """The znode with the notices about patterns of this kind."""
    return _CHANGES[kind]


def encode_rules(rules: Iterable[AccessRule]) -> bytes:
    """Write rules as Kafka's tools do."""
    acls = [
        {
            "principal": str(rule.principal),
            "permissionType": rule.permission,
            "operation": rule.operation,
            "host": rule.host,
        }
        for rule in sorted(rules)
    ]
    return msgspec.json.encode({"version": VERSION, "acls": acls})


class _Znode(Struct):
    version: int
    acls: list[dict[str, Any]]


class ReadRules(Struct, frozen=True):
    """The rules of a znode, and what in it has no effect, each as a text for the operator."""

    rules: frozenset[AccessRule]
    problems: tuple[str, ...] = ()


def decode_rules(data: bytes) -> ReadRules:
    """Read rules as Kafka does: malformed JSON has none, and an entry that is unknown has no effect beside the others.

    Raises UnsupportedAclVersionError.
    """
    try:
        version = msgspec.json.decode(data, type=dict[str, Any]).get("version")
        if version is not None and version != VERSION:
            raise UnsupportedAclVersionError([f"version {version!r}: only {VERSION} is known"])
        znode = msgspec.json.decode(data, type=_Znode)
    except UnsupportedAclVersionError:
        raise
    except DECODE_ERRORS as error:
        return ReadRules(frozenset(), (f"malformed, so it has no rules: {error}",))
    rules, problems = set[AccessRule](), list[str]()
    for entry in znode.acls:
        try:
            rules.add(_rule(entry))
        except (KeyError, TypeError, AttributeError, ConfigError) as error:
            problems.append(f"entry {entry!r} has no effect: {error}")
    return ReadRules(frozenset(rules), tuple(problems))


def _rule(entry: dict[str, Any]) -> AccessRule:
    operation = _OPERATIONS.get(entry["operation"].lower())
    permission = _PERMISSIONS.get(entry["permissionType"].lower())
    if operation is None or permission is None:
        raise ConfigError([f"unknown operation {entry['operation']!r} or permission {entry['permissionType']!r}"])
    if not isinstance(entry["host"], str):
        raise ConfigError([f"host {entry['host']!r}: is no text"])
    return AccessRule(parse_principal(entry["principal"]), operation, permission, entry["host"])


class _PrefixedNotice(Struct):
    version: int
    resourceType: str  # noqa: N815 - Kafka's name.
    name: str
    patternType: str  # noqa: N815 - Kafka's name.


_TYPES_OF_NOTICES: Final = {
    "TOPIC": ResourceType.TOPIC,
    "GROUP": ResourceType.GROUP,
    "CLUSTER": ResourceType.CLUSTER,
    "TRANSACTIONAL_ID": ResourceType.TRANSACTIONAL_ID,
    "DELEGATION_TOKEN": ResourceType.DELEGATION_TOKEN,
    "USER": ResourceType.USER,
}
_NAMES_IN_NOTICES: Final = {kind: name for name, kind in _TYPES_OF_NOTICES.items()}


def encode_notice(pattern: Pattern) -> bytes:
    """Write the notice that the rules of a pattern have changed; brokers read nothing again without one."""
    kind = _NAMES_IN_NOTICES[pattern.resource_type]
    if pattern.type is PatternType.LITERAL:
        return f"{kind}:{pattern.name}".encode()
    return msgspec.json.encode(_PrefixedNotice(VERSION, kind, pattern.name, "PREFIXED"))


def decode_notice(kind: PatternType, data: bytes) -> Pattern:
    """Read a notice. Raises ConfigError for what is none, which Kafka logs and skips."""
    try:
        if kind is PatternType.LITERAL:
            resource_type, _, name = data.decode().partition(":")
        else:
            notice = msgspec.json.decode(data, type=_PrefixedNotice)
            resource_type, name = notice.resourceType, notice.name
        return Pattern(_TYPES_OF_NOTICES[resource_type], name, kind)
    except (*DECODE_ERRORS, KeyError, UnicodeDecodeError) as error:
        raise ConfigError([f"notice {data[:200]!r}: is none of a changed access control list: {error}"]) from error
