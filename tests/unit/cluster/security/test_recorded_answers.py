"""What a broker of Apache Kafka 3.9.1 answered to real requests under random access control lists is what we decide."""

import gzip
import json
from typing import Any

import pytest

from cluster.security.acls import Authorizer, Operation, Permission, ResourceType
from cluster.security.principals import parse_super_users
from tests.kafka.random_rules import SUPER_USERS, differences, from_json
from tests.processes.installations import ROOT

RECORDED = [
    json.loads(line)
    for line in gzip.decompress((ROOT / "tests/recorded/acl/answers.jsonl.gz").read_bytes()).splitlines()
]


@pytest.mark.parametrize("sets", RECORDED, ids=lambda of: f"{len(of['rules'])}-rules")
def test_each_recorded_answer_is_ours(sets: dict[str, Any]) -> None:
    authorizer = Authorizer(from_json(sets["rules"]), parse_super_users(SUPER_USERS), sets["allows_unlisted"])
    assert differences(authorizer, sets["answers"]) == []


def test_the_recording_has_all_kinds_of_rules_and_answers() -> None:
    rules = [rule for of in RECORDED for rule in of["rules"]]
    answers = [answer for of in RECORDED for client in of["answers"].values() for answer in client.values()]
    assert {rule[0] for rule in rules} == set(ResourceType)
    assert {rule[4] for rule in rules} == set(Operation)
    assert {rule[5] for rule in rules} == set(Permission)
    assert (len(RECORDED), len(answers)) == (60, 22_080)
    assert 5_000 < sum(answer > 0 for answer in answers) < 17_000
