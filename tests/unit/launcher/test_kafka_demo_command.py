"""The result of `klamm demo --kafka`: when it passes, and its table."""

from pathlib import Path

import pytest

from admin.consuming.record_history import HistoryRule
from deploy.local.cluster import LocalCluster
from launcher.demo.kafka import CONTROLLER_DIES, LEADER_DIES, KafkaResult
from launcher.demo.load import LoadOutcome
from launcher.demo.summary import kafka_document, print_summary

GOOD = LoadOutcome(52_050)


def result(outcome: LoadOutcome = GOOD) -> KafkaResult:
    seconds = {LEADER_DIES: {"klamm": 5.11, "Kafka": 6.8}, CONTROLLER_DIES: {"klamm": 6.2, "Kafka": 6.84}}
    return KafkaResult(seconds=seconds, to_kafka=1.5, to_klamm=6.2, outcome=outcome)


@pytest.mark.parametrize(
    "outcome",
    [
        LoadOutcome(),
        LoadOutcome(10, {HistoryRule.LOST: 1}),
        LoadOutcome(10, {HistoryRule.DUPLICATED: 1}, duplicates=1),
        LoadOutcome(10, unread=1),
    ],
)
def test_it_passes_only_if_every_record_is_stored_once_and_read(outcome: LoadOutcome, tmp_path: Path) -> None:
    cluster = LocalCluster.create_or_open(tmp_path, kafka="3.9.1")
    assert kafka_document(result(), cluster)["passed"]
    assert not kafka_document(result(outcome), cluster)["passed"]


def test_the_summary_has_klamm_beside_kafka(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = LocalCluster.create_or_open(tmp_path, kafka="3.9.1")
    document = {**kafka_document(result(), cluster), "seconds": 101.8}
    assert document["failovers"][0] == {"failure": LEADER_DIES, "klamm": 5.11, "Kafka": 6.8}
    print_summary(document)
    shown = capsys.readouterr().out
    assert "The demonstration on Kafka 3.9.1 passed in 101.8 s." in shown
    [row] = [line.split() for line in shown.splitlines() if LEADER_DIES in line]
    assert row[-2:] == ["5.1", "6.8"]
    assert "52,050" in shown
