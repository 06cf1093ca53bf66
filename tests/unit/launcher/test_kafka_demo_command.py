"""The result of `klamm demo --kafka`: when it passes, and its table."""

from pathlib import Path

import pytest

from deploy.local.cluster import LocalCluster
from launcher.kafka_demo import CONTROLLER_DIES, LEADER_DIES, Report
from launcher.kafka_demo_command import document_of, print_summary
from launcher.kafka_load import Outcome

GOOD = Outcome(acknowledged=52_050, lost=0, twice=0, failed=0, unread=0, replaced=0)


def report(outcome: Outcome | None = GOOD) -> Report:
    seconds = {LEADER_DIES: {"klamm": 5.11, "Kafka": 6.8}, CONTROLLER_DIES: {"klamm": 6.2, "Kafka": 6.84}}
    return Report(seconds=seconds, to_kafka=1.5, to_klamm=6.2, outcome=outcome)


@pytest.mark.parametrize(
    "outcome",
    [
        None,
        Outcome(0, 0, 0, 0, 0, 0),
        Outcome(10, 1, 0, 0, 0, 0),
        Outcome(10, 0, 1, 0, 0, 0),
        Outcome(10, 0, 0, 0, 1, 0),
    ],
)
def test_it_passes_only_if_every_record_is_stored_once_and_read(outcome: Outcome | None) -> None:
    assert report().passed
    assert not report(outcome).passed


def test_the_summary_has_klamm_beside_kafka(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = LocalCluster.create_or_open(tmp_path, kafka="3.9.1")
    document = document_of(report(), cluster, 101.84)
    assert document["failovers"][0] == {"failure": LEADER_DIES, "klamm": 5.11, "Kafka": 6.8}
    print_summary(document)
    shown = capsys.readouterr().out
    assert "The demonstration on Kafka 3.9.1 passed in 101.8 s." in shown
    [row] = [line.split() for line in shown.splitlines() if LEADER_DIES in line]
    assert row[-2:] == ["5.1", "6.8"]
    assert "52,050" in shown
