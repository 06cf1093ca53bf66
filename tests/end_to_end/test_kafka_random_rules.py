"""Random access control lists: a real broker of Apache Kafka allows and denies what klamm's decisions do."""

import random
from pathlib import Path

import pytest

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from cluster.security.acls import Authorizer
from cluster.security.principals import parse_super_users
from tests.kafka.authorizer_answers import stand
from tests.kafka.random_rules import SUPER_USERS, as_json, differences, random_rules

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(600)]
ROUNDS = 150


@pytest.mark.parametrize("allows_unlisted", [False, True])
async def test_a_broker_answers_as_klamm_decides(tmp_path: Path, allows_unlisted: bool) -> None:
    randomness, answered, allowed = random.Random(33 + allows_unlisted), 0, 0
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        async with stand(tmp_path / "kafka", f"{server.address}/kafka", allows_unlisted=allows_unlisted) as asked:
            for number in range(ROUNDS):
                rules = random_rules(randomness)
                answers = await asked.answers(rules)
                ours = Authorizer(rules, parse_super_users(SUPER_USERS), allows_unlisted)
                assert differences(ours, answers) == [], (number, as_json(rules))
                answered += sum(map(len, answers.values()))
                allowed += sum(answer > 0 for of_one in answers.values() for answer in of_one.values())
    print(f"{ROUNDS} sets of rules, {answered} answers, {allowed} of them not empty")
    assert allowed > answered / 10
