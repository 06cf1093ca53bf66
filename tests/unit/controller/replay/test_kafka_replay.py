"""What Kafka's controllers decided in the recordings is what klamm's would have; what is changed in them is found."""

import re
from pathlib import Path

import pytest

from controller.replay.logs import replay_folders
from controller.replay.replay import Replayed
from controller.replay.report import FINDINGS, INCOMPLETE, verdict_of

RECORDED = Path(__file__).resolve().parents[3] / "recorded" / "kafka"
LOGS = ("2.4.1-trace", "2.8.2-info", "2.8.2-trace", "3.3.2-trace", "3.9.1-info", "3.9.1-trace")


@pytest.mark.parametrize("name", LOGS)
def test_klamm_would_have_decided_as_kafka_did(name: str) -> None:
    replayed = replay_folders([RECORDED / name])
    assert replayed.others == []
    assert replayed.decisions.total() >= 10
    # Kafka's lines do not say who was live.
    assert verdict_of(replayed) == INCOMPLETE


def replayed_with(tmp_path: Path, name: str, pattern: str, instead: str) -> Replayed:
    """Replay a recording after the first match of the pattern in it was replaced."""
    count = 0
    for path in sorted((RECORDED / name).glob("*.log")):
        text = path.read_text("utf-8")
        if not count:
            text, count = re.subn(pattern, instead, text, count=1)
        (tmp_path / path.name).write_text(text, "utf-8")
    assert count == 1
    return replay_folders([tmp_path])


ELECTION = r"(from OfflinePartition to OnlinePartition with state LeaderAndIsr\(leader=)"
SHRUNK = r"(state changed to \(Leader:-?\d+,ISR:)"


@pytest.mark.parametrize(
    ("name", "pattern", "instead", "differs"),
    [
        ("2.4.1-trace", r"(from NewPartition to OnlinePartition .*leader=)\d", r"\g<1>9", "leader"),
        ("2.4.1-trace", r"(from NewPartition to OnlinePartition .*leaderEpoch=)0", r"\g<1>1", "leader-epoch"),
        ("3.9.1-trace", ELECTION + r"\d", r"\g<1>9", "leader"),
        ("3.9.1-trace", ELECTION + r"(\d+, leaderEpoch=)\d+", r"\g<1>\g<2>77", "leader-epoch"),
        ("2.8.2-trace", SHRUNK + r"[\d,]+(,LeaderEpoch)", r"\g<1>1,2,3,4\g<2>", "isr"),
    ],
)
def test_a_decision_that_kafka_did_not_make_is_found(
    tmp_path: Path, name: str, pattern: str, instead: str, differs: str
) -> None:
    replayed = replayed_with(tmp_path, name, pattern, instead)
    assert differs in {what.value for each in replayed.others for what in each.differs}
    assert verdict_of(replayed) == FINDINGS


def test_garbage_among_the_lines_is_named(tmp_path: Path) -> None:
    replayed = replayed_with(tmp_path, "2.4.1-trace", r"Changed partition", "Changed something")
    assert "lines that are no records" in replayed.undecided
