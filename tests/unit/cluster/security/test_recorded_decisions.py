"""The 4,000 recorded decisions of the authorizer of Apache Kafka 3.9.1 are ours, and so are the znodes it wrote."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.security.acl_znodes import (
    CHANGE_PREFIX,
    LITERAL_TOP,
    PREFIXED_TOP,
    changes_of,
    decode_notice,
    decode_rules,
    encode_rules,
    path_of,
)
from cluster.security.acls import AccessRule, Authorizer, Operation, Pattern, PatternType, Permission, ResourceType
from cluster.security.principals import parse_principal, parse_super_users
from tests.processes.installations import ROOT

RECORDED = [
    json.loads(line)
    for line in gzip.decompress((ROOT / "tests/recorded/acl/decisions.jsonl.gz").read_bytes()).splitlines()
]
TYPES = {kind.name: kind for kind in ResourceType}
OPERATIONS = {operation.name: operation for operation in Operation}


def rules_of(znodes: dict[str, str | None]) -> dict[Pattern, frozenset[AccessRule]]:
    """The rules as they are read from Kafka's tree."""
    found = {}
    for kind, top in ((PatternType.LITERAL, LITERAL_TOP), (PatternType.PREFIXED, PREFIXED_TOP)):
        for path, data in znodes.items():
            if path.startswith(f"{top}/") and path.count("/") == top.count("/") + 2:
                resource_type, name = path.removeprefix(f"{top}/").split("/")
                assert data is not None
                read = decode_rules(data.encode())
                assert read.problems == ()
                found[Pattern(ResourceType(resource_type), name, kind)] = read.rules
    return found


def created(acls: list[dict[str, Any]]) -> dict[Pattern, frozenset[AccessRule]]:
    """The rules as they were asked for."""
    found: dict[Pattern, set[AccessRule]] = {}
    for acl in acls:
        pattern = Pattern(TYPES[acl["type"]], acl["name"], PatternType[acl["pattern"]])
        rule = AccessRule(
            parse_principal(acl["principal"]), OPERATIONS[acl["operation"]], Permission[acl["permission"]], acl["host"]
        )
        found.setdefault(pattern, set()).add(rule)
    return {pattern: frozenset(rules) for pattern, rules in found.items()}


def decisions(scenario: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    authorizer = Authorizer(
        rules_of(scenario["znodes"]),
        parse_super_users(scenario["super_users"]),
        scenario["allow_everyone_if_no_acl_found"],
    )
    for asked in scenario["decisions"]:
        who = parse_principal(asked["principal"]), asked["host"], OPERATIONS[asked["operation"]], TYPES[asked["type"]]
        if asked.get("any_resource"):
            yield asked, authorizer.allows_somewhere(*who)
        else:
            yield asked, authorizer.allows(*who, asked["name"])


@pytest.mark.parametrize("scenario", RECORDED, ids=lambda scenario: f"{len(scenario['acls'])}-rules")
def test_each_recorded_decision_is_ours(scenario: dict[str, Any]) -> None:
    different = [asked for asked, allowed in decisions(scenario) if allowed != (asked["result"] == "ALLOWED")]
    assert different == []


def test_the_recording_is_whole() -> None:
    counted = [asked["result"] for scenario in RECORDED for asked in scenario["decisions"]]
    assert (len(RECORDED), len(counted), counted.count("ALLOWED")) == (160, 4000, 1493)


@pytest.mark.parametrize("scenario", RECORDED, ids=lambda scenario: f"{len(scenario['acls'])}-rules")
def test_the_znodes_that_kafka_wrote_are_those_that_we_would_write(scenario: dict[str, Any]) -> None:
    wanted = created(scenario["acls"])
    assert rules_of(scenario["znodes"]) == wanted
    for pattern, rules in wanted.items():
        theirs = json.loads(scenario["znodes"][path_of(pattern)])
        ours = json.loads(encode_rules(rules))
        key = lambda acl: sorted(acl.items())  # noqa: E731
        assert (ours["version"], sorted(ours["acls"], key=key)) == (theirs["version"], sorted(theirs["acls"], key=key))


@pytest.mark.parametrize("kind", PatternType)
def test_the_notices_that_kafka_wrote_are_read(kind: PatternType) -> None:
    read = 0
    for scenario in RECORDED:
        known = created(scenario["acls"])
        for path, data in scenario["znodes"].items():
            if path.startswith(f"{changes_of(kind)}/{CHANGE_PREFIX}"):
                assert decode_notice(kind, data.encode()) in known
                read += 1
    assert read > 100
