"""What is said of logs that Apache Kafka itself has written: nothing that is not so."""

from collections import Counter
from pathlib import Path

import pyarrow.dataset
import pytest

from audit.report.report import read_result
from audit.report.rule_catalogue import EXPLANATIONS, not_applicable
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import LEDGERS_TABLE
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from state_log.record import Kind, Stamper, StateChange
from tests.audits.log_audits import FolderAudit, audit_folder
from tests.kafka.logs import DELETION, copy_cluster, copy_scenario

SCENARIOS = {
    "kill-all-last-first.controller-101": ("TRACE", "1, 2, 3, 102"),
    "kill-leader.broker-2": ("TRACE", "101"),
    "reassign-failover.controller-101": ("TRACE", "1, 2, 3, 4, 5, 102"),
    "reassign-failover.controller-102": ("TRACE", "1, 2, 3, 4, 5, 101"),
    "unclean-by-config.controller-101": ("TRACE", "1, 2, 3, 102"),
    "zombie-controller.controller-101": ("INFO", "1, 2, 3, 102"),
}


def records(output: Path) -> list[dict[str, object]]:
    return list(pyarrow.dataset.dataset(output / "tables" / "records", partitioning=None).to_table().to_pylist())


@pytest.mark.parametrize("name", SCENARIOS)
def test_of_one_node_s_log_unclean_elections_are_found_and_the_other_nodes_are_missing(
    name: str, tmp_path: Path
) -> None:
    level, missing = SCENARIOS[name]
    result = audit_folder(copy_scenario(name, tmp_path / "logs"), tmp_path / "output")
    found = {"unclean-election": 1} if name.startswith("unclean") else {}
    assert (result.verdict, result.findings, result.quarantined) == ("findings" if found else "incomplete", found, 0)
    assert [gap.what for gap in result.incomplete] == [f"Kafka brokers {missing}"]
    (log,) = result.kafka_logs
    assert (log.level, log.lines, result.timezone) == (level, log.records + log.without_facts, "UTC")


@pytest.mark.parametrize("recording", DELETION)
def test_a_cluster_that_kept_its_promises_is_clean_in_every_version(recording: str, tmp_path: Path) -> None:
    result = audit_folder(copy_cluster(recording, tmp_path / "logs", DELETION[recording]), tmp_path / "output")
    assert (result.verdict, result.incomplete, result.quarantined, result.findings) == ("clean", (), 0, {})
    assert {log.level for log in result.kafka_logs} == {recording.rpartition("-")[2].upper()}


@pytest.mark.parametrize("recording", DELETION)
@pytest.mark.parametrize("batch_bytes", [None, 20_000])
def test_topics_that_were_created_anew_are_not_compared_with_those_before(
    recording: str, batch_bytes: int | None, tmp_path: Path
) -> None:
    result = audit_folder(copy_cluster(recording, tmp_path / "logs"), tmp_path / "output", batch_bytes)
    assert (result.verdict, result.findings, result.quarantined) == ("incomplete", {}, 0)
    assert sorted(gap.what for gap in result.incomplete) == ["orders-0 created anew", "orders-1 created anew"]


def test_the_states_in_zookeeper_are_the_last_that_the_lines_say(tmp_path: Path) -> None:
    """What ZooKeeper held after each step of the scenario: leader, leader epoch and ISR."""
    audit_folder(copy_scenario("kill-all-last-first.controller-101", tmp_path / "logs"), tmp_path / "output")
    states = [
        (row["partition_epoch"], row["leader"], row["leader_epoch"], row["isr"])
        for row in records(tmp_path / "output")
        if row["partition_epoch"] is not None
    ]
    assert sorted(set(map(str, states))) == sorted(
        map(
            str,
            [
                (0, 1, 0, [1, 2, 3]),
                (1, 2, 1, [2, 3]),
                (2, 3, 2, [3]),
                (3, -1, 3, [3]),
                (4, 3, 4, [3]),
                (5, 3, 4, [3, 1]),
                (6, 3, 4, [3, 1, 2]),
            ],
        )
    )


def test_records_say_who_sent_what_to_whom_and_who_applied_it(tmp_path: Path) -> None:
    audit_folder(copy_cluster("3.9.1-trace", tmp_path / "logs"), tmp_path / "output")
    found = Counter((row["kind"], row["to_state"], row["reason"]) for row in records(tmp_path / "output"))
    assert found["role", "leader", None]
    assert found["role", "follower", None]
    assert found["role", "cached", None]
    assert found["loaded", None, "LeaderAndIsr to 3"]
    assert found["loaded", None, "LeaderAndIsr received"]
    assert found["loaded", "deleted", "StopReplica to 3"]


def test_rules_that_need_what_kafka_does_not_write_are_named_and_do_not_make_it_incomplete(tmp_path: Path) -> None:
    recording = "3.9.1-info"
    result = audit_folder(copy_cluster(recording, tmp_path / "logs", DELETION[recording]), tmp_path / "output")
    assert result.verdict == "clean"
    assert {"chain-break", "sequence-gap", "legal-replica-transition"} <= result.not_applicable.keys()
    assert result.not_applicable == not_applicable({"INFO"})
    assert "legal-replica-transition" not in not_applicable({"TRACE"})
    demanded = read_result(tmp_path / "output", require_trace=True)
    assert demanded.verdict == "incomplete"
    assert len(demanded.incomplete) == 3


def test_of_logs_of_several_clusters_in_one_folder_it_says_that_they_overlap(tmp_path: Path) -> None:
    for name in SCENARIOS:
        copy_scenario(name, tmp_path / "logs" / name)
    result = audit_folder(tmp_path / "logs", tmp_path / "output")
    assert (result.verdict, result.findings) == ("findings", {"unclean-election": 1})
    assert [(gap.what, gap.why.split(":")[0][:25]) for gap in result.incomplete] == [
        ("kafka-broker-101", "its logs have different l"),
        ("kafka-broker-101", "its logs unclean-by-confi"),
        ("Kafka brokers 1, 3, 4, 5", "there are no logs of thei"),
    ]


def test_nothing_is_missing_of_the_second_node_of_a_file(tmp_path: Path) -> None:
    """A broker and the controller on it write one file; the numbers of their records are bytes of it."""
    audit_folder(copy_cluster(next(iter(DELETION)), tmp_path / "logs"), tmp_path / "output")
    rows = OutputFolder(tmp_path / "output").current_rows(LEDGERS_TABLE)
    assert len(rows) > 3
    assert {row["missing"] for row in rows} == {None}


def test_every_rule_has_a_level_of_kafkas_log_or_a_reason_why_it_does_not_apply() -> None:
    assert {text.kafka for text in EXPLANATIONS.values() if " " not in text.kafka} == {"INFO", "TRACE"}
    assert "" not in {text.kafka for text in EXPLANATIONS.values()}


def test_a_log_that_is_renamed_while_it_is_followed_is_the_same_log(tmp_path: Path) -> None:
    recording = "3.9.1-trace"
    whole = audit_folder(copy_cluster(recording, tmp_path / "whole", DELETION[recording]), tmp_path / "output-whole")
    copy_cluster(recording, tmp_path / "cut", DELETION[recording])
    for source in (tmp_path / "cut").iterdir():
        folder = tmp_path / "logs" / source.name.split(".")[0]
        folder.mkdir(parents=True)
        lines = source.read_bytes().splitlines(keepends=True)
        (folder / "state-change.log").write_bytes(b"".join(lines[: len(lines) // 2]))
    audit = FolderAudit(tmp_path / "logs", tmp_path / "output")
    audit.read()
    for source in (tmp_path / "cut").iterdir():
        active = tmp_path / "logs" / source.name.split(".")[0] / "state-change.log"
        rest = source.read_bytes()[active.stat().st_size :].splitlines(keepends=True)
        with active.open("ab") as file:
            file.writelines(rest[:10])
        active.rename(active.with_name("state-change.log.2026-11-22-23"))
        active.write_bytes(b"".join(rest[10:]))
    audit.read()
    result = read_result(tmp_path / "output")
    assert (result.verdict, result.incomplete) == ("clean", ())
    assert (result.records, len(result.kafka_logs)) == (whole.records, 6)


def test_logs_of_kafka_and_of_klamm_in_one_folder_are_two_clusters(tmp_path: Path) -> None:
    """Partitions of one name, nodes of one id and epochs of one number are not compared across them."""
    recording = "3.9.1-trace"
    copy_cluster(recording, tmp_path / "logs" / "kafka", DELETION[recording])
    election = StateChange(
        kind=Kind.PARTITION,
        controller_epoch=ControllerEpoch(1),
        topic="orders",
        partition=0,
        from_state="NewPartition",
        to_state="OnlinePartition",
        leader=BrokerId(9),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=(BrokerId(9),),
    )
    start = StateChange(kind=Kind.CONTROLLER, controller_epoch=ControllerEpoch(1), to_state="active", broker=9)
    lines = Stamper("controller-9", "1795388990000.1").stamp([start, election], 1795388990000)
    (tmp_path / "logs" / f"controller-9-1795388990000.1-{0:020}.jsonl").write_bytes(b"".join(n + b"\n" for n in lines))
    result = audit_folder(tmp_path / "logs", tmp_path / "output")
    assert (result.verdict, result.incomplete, result.findings, result.incarnations) == ("clean", (), {}, 4)
