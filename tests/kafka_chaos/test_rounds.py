"""A few rounds of faults on Kafka brokers: nothing acknowledged is lost, transactions are whole."""

import os
from pathlib import Path

import pytest

from deploy.local.kafka_jars import NEWEST
from tests.kafka.broker import kafka_class_path
from tests.kafka_chaos.__main__ import run, summary
from tests.kafka_chaos.secured import SecuredChaosCluster

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(7200)]

FAULTS = ["kill-leader-and-controller", "klamm-away-and-leader", "pause-leader-and-controller", "kill-zookeeper"]
SECURED = ["kill-leader", "kill-leader-and-controller"]
ROUNDS = int(os.environ.get("KLAMM_CHAOS_ROUNDS", len(FAULTS)))


async def test_rounds_of_faults_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kafka_class_path(NEWEST)
    rows = await run(tmp_path, FAULTS, ROUNDS, seed=1)
    print(summary(rows))
    assert [row for row in rows if row.problems] == []


async def test_rounds_of_faults_on_secured_brokers_lose_nothing_and_let_nobody_in(tmp_path: Path) -> None:
    kafka_class_path(NEWEST)
    rows = await run(tmp_path, SECURED, len(SECURED), seed=1, kind=SecuredChaosCluster)
    print(summary(rows))
    assert [row for row in rows if row.problems] == []
    assert all(row.attacks for row in rows)
