"""Apache Kafka's state-change.log files in the history of a partition."""

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfoNotFoundError

import pytest
from typer.testing import CliRunner

from cluster.model.partition import TopicPartition
from launcher.__main__ import app
from state_log.kafka.lines import KafkaLine, record_of
from state_log.kafka.message_fields import Said
from state_log.kafka.messages import read_message
from state_log.kafka.reader import read_kafka_state_changes
from state_log.record import Cause, Kind, StateChange, incarnation_id
from state_log.writer import FileStateChangeLog
from tests.kafka.logs import copy_cluster

FOLLOWER = (
    "[2026-11-23 10:05:19,756] INFO [Broker id=1] Follower orders-0 starts at leader epoch 0 from offset 0 with "
    "partition epoch 0 and high watermark 0. Current leader is 2. Previous leader Some(2) and previous leader epoch "
    "was 0. (state.change.logger)\n"
)


def story(folder: Path, partition: str, *arguments: str) -> Any:
    answer = CliRunner().invoke(app, ["story", partition, "--log-dir", str(folder), "-o", "json", *arguments])
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


@pytest.mark.parametrize("recording", ["2.4.1-trace", "2.8.2-info", "3.3.2-trace", "3.9.1-trace"])
def test_the_logs_of_every_release_have_the_leaders_and_the_roles(recording: str, tmp_path: Path) -> None:
    folder = copy_cluster(recording, tmp_path / "logs")
    lines = [line for path in sorted(folder.glob("*.log")) for line in path.read_text().splitlines()]
    elected = next(line for line in lines if "Changed partition " in line and " with state LeaderAndIsr(" in line)
    found = story(folder, elected.partition("Changed partition ")[2].split(" ")[0])
    assert found["leaderships"][0]["leader"] > 0
    nodes = {line["node"].rpartition("-")[0] for line in found["story"]}
    assert nodes == {"kafka-controller", "kafka-broker"}


def test_roles_of_kafkas_brokers_stand_after_what_klamms_controller_decided(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_text(FOLLOWER)
    log = FileStateChangeLog(
        tmp_path / "klamm", node="controller-1001", incarnation=incarnation_id(1, 1), clock=_ClockAhead()
    )
    log.append(
        [
            StateChange(
                kind=Kind.PARTITION,
                topic="orders",
                topic_id="Cn_coqtFSPaBzlRZIGc4zQ",
                partition=0,
                controller_epoch=1,
                leader=2,
                leader_epoch=0,
                partition_epoch=0,
                isr=(2, 1),
                from_state="NewPartition",
                to_state="OnlinePartition",
                cause=Cause("CreateTopics", 7),
            )
        ]
    )
    log.close()
    found = story(tmp_path, "orders-0")
    # The controller's clock is ahead: the cause stands first all the same.
    assert [line["node"] for line in found["story"]] == ["controller-1001", "kafka-broker-1"]
    assert found["story"][1]["message"] == "broker 1 follows broker 2 in epoch 0"
    (span,) = found["leaderships"]
    assert span["leader"] == 2


class _ClockAhead:
    def now_ms(self) -> int:
        return 1_900_000_000_000


def test_local_times_are_of_the_zone_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "state-change.log.2026-11-23-10").write_text(FOLLOWER)
    (line,) = story(tmp_path, "orders-0", "--timezone", "Europe/Berlin")["records"]
    (in_utc,) = story(tmp_path, "orders-0")["records"]
    assert in_utc["at_ms"] - line["at_ms"] == 3_600_000
    with pytest.raises(ZoneInfoNotFoundError):
        list(read_kafka_state_changes([tmp_path], TopicPartition("orders", 0), "No/Where"))
    answer = CliRunner().invoke(app, ["story", "orders-0", "--log-dir", str(tmp_path), "--timezone", "No/Where"])
    assert answer.exit_code == 2


def test_a_file_is_read_once_and_what_is_not_kafkas_is_skipped(tmp_path: Path) -> None:
    content = FOLLOWER + "orders-0 is no line of Kafka's\n" + FOLLOWER.replace("id=1", "id=99999999999999999")
    (tmp_path / "state-change.log").write_text(content)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "state-change.log").write_text(content)
    (tmp_path / "state-change.log.gz").write_bytes(b"\x1f\x8b")
    assert len(list(read_kafka_state_changes([tmp_path], TopicPartition("orders", 0), "UTC"))) == 1


def test_a_request_that_a_broker_refused_states_nothing() -> None:
    refused = "Received update metadata request with correlation id 2 from an old controller 3 with epoch 2. "
    assert read_message(refused + "Latest known controller epoch is 3") == Said()


@pytest.mark.parametrize(
    "message",
    [
        "Sending become-follower LeaderAndIsr request LeaderAndIsrPartitionState(topicName='orders', partitionIndex=0, "
        "controllerEpoch=5, leader=2, leaderEpoch=3, isr=[2, 1], partitionEpoch=7, replicas=[1, 2], addingReplicas=[], "
        "removingReplicas=[], isNew=false, leaderRecoveryState=0) to broker 1 for partition orders-0",
        "Received LeaderAndIsr request LeaderAndIsrPartitionState(topicName='orders', partitionIndex=0, "
        "controllerEpoch=5, leader=2, leaderEpoch=3, isr=[2, 1], partitionEpoch=7, replicas=[1, 2], addingReplicas=[], "
        "removingReplicas=[], isNew=false, leaderRecoveryState=0) correlation id 1 from controller 1 epoch 4",
    ],
)
@pytest.mark.parametrize(("sender_epoch", "expected"), [(4, 5), (6, 6)])
def test_a_replaced_controller_that_still_loads_sends_states_of_its_successor(
    message: str, sender_epoch: int, expected: int
) -> None:
    """Taken as states that epoch 4 wrote, they would follow states of epoch 5."""
    said = read_message(message.replace("epoch 4", f"epoch {sender_epoch}"))
    record = record_of(KafkaLine(0, "TRACE", True, 1, sender_epoch, 0, said), "log")
    assert record is not None
    assert (record.controller_epoch, record.partition_epoch) == (expected, 7)
