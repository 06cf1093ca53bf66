"""Logs of klamm's controllers and of Apache Kafka's over `klamm leave` and `klamm adopt`: one sequence of states."""

from pathlib import Path

import pytest

from audit.report.report import read_findings
from tests.audits.log_audits import audit_folder
from tests.kafka.logs import copy_governed, write_log

ELECTED = (
    "[2026-11-23 10:2%d:00,000] INFO [Controller id=3 epoch=%d] Changed partition orders-0 from OfflinePartition to "
    "OnlinePartition with state LeaderAndIsr(leader=%d, leaderEpoch=%d, isrWithBrokerEpoch=List("
    "BrokerState(brokerId=%d, brokerEpoch=-1)), leaderRecoveryState=RECOVERED, partitionEpoch=%d) "
    "(state.change.logger)\n"
)
"""Kafka's broker 3 is the controller: minute, controller epoch, leader, leader epoch, the replica in sync, version.

klamm's controller, of epoch 1, has left the partition without a leader, with leader epoch 3, version 3 and ISR [3].
"""


BETWEEN_STATES = {"leader-epoch-never-back", "leader-epoch-by-one", "leader-from-isr", "controller-epoch-never-back"}


def audited(tmp_path: Path, *elections: tuple[int, ...]) -> list[tuple[str, str]]:
    """The findings between states of both kinds of logs, where Kafka's controller has elected these: rule, message."""
    folder = copy_governed(tmp_path / "logs")
    path = folder / "broker-3.state-change.log"
    lines = "".join(ELECTED % (minute, *election) for minute, election in enumerate(elections))
    write_log(path, path.read_bytes() + lines.encode())
    audit_folder(folder, tmp_path / "output")
    rows = read_findings(tmp_path / "output", 20)
    found = [row for row in rows if row["subject"].endswith(" of brokers") and row["rule"] in BETWEEN_STATES]
    return sorted((f["rule"], f["message"]) for f in found)


def test_kafka_continues_where_klamm_has_left(tmp_path: Path) -> None:
    assert audited(tmp_path, (2, 3, 4, 3, 4), (2, 3, 5, 3, 5)) == []


@pytest.mark.parametrize(
    ("election", "rule", "said"),
    [
        ((2, 3, 1, 3, 4), "leader-epoch-never-back", "leader epoch went from 3 back to 1"),
        ((2, 3, 9, 3, 4), "leader-epoch-by-one", "one write raised the leader epoch from 3 to 9"),
        (
            (0, 3, 4, 3, 4),
            "controller-epoch-never-back",
            "controller epoch 0 wrote partition epoch 4 after controller epoch 1 had seen partition epoch 3",
        ),
    ],
)
def test_a_state_of_kafkas_controller_follows_from_that_of_klamms(
    election: tuple[int, ...], rule: str, said: str, tmp_path: Path
) -> None:
    assert audited(tmp_path, election) == [(rule, said)]


def test_a_leader_that_klamm_had_taken_out_of_the_isr_is_found(tmp_path: Path) -> None:
    """It does not start an ISR of its own."""
    (found,) = audited(tmp_path, (2, 1, 4, 2, 4))
    assert found == ("leader-from-isr", "leader 1 was not in the ISR [3] and does not start an ISR of its own")


def test_what_kafka_writes_after_its_own_states_is_found_once_in_its_own_logs(tmp_path: Path) -> None:
    assert audited(tmp_path, (2, 3, 4, 3, 4), (2, 3, 3, 3, 5)) == []
