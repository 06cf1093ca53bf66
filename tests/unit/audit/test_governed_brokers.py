"""Logs of Apache Kafka's brokers and of klamm's controllers that govern them: one cluster, compared across both."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from audit.report.open_conditions import EPOCH_NEVER_GIVEN
from audit.report.report import AuditResult, read_findings, read_result
from audit.rules.applied_states import AGENT_DISAGREES
from audit.storage.given_heads import add_given
from audit.storage.output_folder import OutputFolder
from state_log.chain import CHAIN_BREAK
from state_log.heads_file import GivenHead
from state_log.histories import ONE_LEADER_PER_EPOCH
from state_log.invariants import ONE_CONTROLLER_PER_EPOCH
from state_log.record import line_digest
from tests.audits.log_audits import FolderAudit, audit_folder
from tests.kafka.logs import copy_governed, write_log

CONTROLLER = "controller-1002"
BY_1002 = b"controller 1002"
TRACE = b"] TRACE ["
ORDERS_0, ORDERS_0_OF_3 = rb"leader=1, leaderEpoch=0, isr=\[1, 3, 2\]", b"leader=3, leaderEpoch=0, isr=[1, 3, 2]"


def edit_brokers(folder: Path, edit: Callable[[bytes], bytes], brokers: str = "*") -> None:
    for path in folder.glob(f"broker-{brokers}.state-change.log"):
        write_log(path, edit(path.read_bytes()))


def replaced(pattern: bytes, to: bytes, count: int = 0) -> Callable[[bytes], bytes]:
    def edit(content: bytes) -> bytes:
        changed, times = re.subn(pattern, to, content, count=count)
        assert times
        return changed

    return edit


def without_trace(content: bytes) -> bytes:
    return b"".join(line for line in content.splitlines(keepends=True) if TRACE not in line)


def controller_log(folder: Path) -> Path:
    (path,) = folder.glob("*.jsonl")
    return path


def audited(folder: Path, tmp_path: Path) -> AuditResult:
    """One bucket takes half the time of four; those have the tests with batches."""
    FolderAudit(folder, tmp_path / "output", buckets=1).read()
    return read_result(tmp_path / "output")


def missing(result: AuditResult) -> list[str]:
    return [gap.what for gap in result.incomplete]


@pytest.mark.parametrize("batch_bytes", [None, 5_000])
def test_the_logs_of_a_governed_cluster_are_clean_together(batch_bytes: int | None, tmp_path: Path) -> None:
    folder = copy_governed(tmp_path / "logs")
    result = audit_folder(folder, tmp_path / "output", batch_bytes)
    assert (result.verdict, result.incomplete, result.findings, result.quarantined) == ("clean", (), {}, 0)
    assert (result.incarnations, len(result.kafka_logs)) == (4, 3)
    assert EPOCH_NEVER_GIVEN not in result.not_applicable
    assert {"leadership-never-taken", "log-cut"} <= result.not_applicable.keys()


def test_at_info_they_are_clean_and_what_nobody_wrote_is_not_known(tmp_path: Path) -> None:
    folder = copy_governed(tmp_path / "logs")
    edit_brokers(folder, without_trace)
    result = audited(folder, tmp_path)
    assert (result.verdict, result.findings) == ("clean", {})
    assert EPOCH_NEVER_GIVEN in result.not_applicable


@pytest.mark.parametrize("change", [lambda lines: lines, lambda lines: lines[:-1]])
def test_the_end_of_the_controllers_log_is_held_against_its_head(
    change: Callable[[list[bytes]], list[bytes]], tmp_path: Path
) -> None:
    folder = copy_governed(tmp_path / "logs")
    path = controller_log(folder)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(change(lines)))
    audited(folder, tmp_path)
    head = GivenHead(CONTROLLER, "1795428293260.2421", len(lines) - 1, line_digest(lines[-1].rstrip(b"\n")))
    add_given(OutputFolder(tmp_path / "output"), [head], lag_ms=0)
    result = read_result(tmp_path / "output")
    cut = change(lines) != lines
    assert (result.verdict, result.findings) == (("findings", {"log-cut": 1}) if cut else ("clean", {}))
    assert result.ends == ""


def of_both(output: Path) -> list[tuple[str, str]]:
    """Rule and partition of the findings that take both kinds of logs."""
    found = [f for f in read_findings(output, 20) if f["subject"].endswith(" of brokers")]
    return sorted((f["rule"], f"{f['topic']}-{f['partition']}") for f in found)


def test_a_state_that_all_brokers_show_and_the_controller_did_not_write_is_found(tmp_path: Path) -> None:
    folder = copy_governed(tmp_path / "logs")
    edit_brokers(folder, replaced(ORDERS_0, ORDERS_0_OF_3))
    assert audited(folder, tmp_path).verdict == "findings"
    assert (AGENT_DISAGREES, "orders-0") in of_both(tmp_path / "output")
    assert (ONE_LEADER_PER_EPOCH, "orders-0") in of_both(tmp_path / "output")


def test_a_leader_that_followers_name_at_info_and_the_controller_did_not_elect_is_found(tmp_path: Path) -> None:
    folder = copy_governed(tmp_path / "logs")
    edit_brokers(folder, without_trace)
    edit_brokers(folder, replaced(rb"(Follower orders-2 starts at leader epoch 1 .*leader is) 3", rb"\1 1"), "1")
    edit_brokers(folder, lambda content: re.sub(rb"[^\n]*Leader orders-2 with[^\n]*\n", b"", content), "3")
    assert audited(folder, tmp_path).verdict == "findings"
    assert of_both(tmp_path / "output") == [(ONE_LEADER_PER_EPOCH, "orders-2")]


def test_a_changed_state_in_one_line_of_a_broker_is_found(tmp_path: Path) -> None:
    folder = copy_governed(tmp_path / "logs")
    edit_brokers(
        folder, replaced(rb"(Received LeaderAndIsr .*orders', partitionIndex=5, .*leader=)3", rb"\g<1>2", 1), "2"
    )
    result = audited(folder, tmp_path)
    assert result.verdict == "findings"
    (found,) = (
        found
        for found in read_findings(tmp_path / "output", 20)
        if found["rule"] == AGENT_DISAGREES and found["records"][0].startswith(CONTROLLER)
    )
    assert (found["topic"], found["partition"]) == ("orders", 5)
    assert [record.partition("/")[0] for record in found["records"]] == [CONTROLLER, "kafka-broker-2"]


def test_a_state_that_no_controller_wrote_is_found(tmp_path: Path) -> None:
    folder = copy_governed(tmp_path / "logs")
    edit_brokers(
        folder, replaced(rb"partitionEpoch=1, replicas=\[3, 2, 1\]", b"partitionEpoch=7, replicas=[3, 2, 1]"), "[13]"
    )
    result = audited(folder, tmp_path)
    assert result.findings[EPOCH_NEVER_GIVEN] == 1


def test_a_changed_line_of_the_controller_is_found(tmp_path: Path) -> None:
    folder = copy_governed(tmp_path / "logs")
    path = controller_log(folder)
    path.write_bytes(replaced(rb'"leader":1,"leader_epoch":0', b'"leader":3,"leader_epoch":0', 1)(path.read_bytes()))
    result = audited(folder, tmp_path)
    assert {CHAIN_BREAK, AGENT_DISAGREES} <= result.findings.keys()


def test_a_broker_without_a_log_is_missing(tmp_path: Path) -> None:
    folder = copy_governed(tmp_path / "logs")
    (folder / "broker-2.state-change.log").unlink()
    result = audited(folder, tmp_path)
    assert (result.verdict, missing(result)) == ("incomplete", ["broker-2"])


def test_a_controller_that_brokers_name_and_whose_log_is_not_there_is_missing(tmp_path: Path) -> None:
    folder = copy_governed(tmp_path / "logs")
    sums_up = (
        b"Add 0 partitions and deleted 0 partitions from metadata cache in response to UpdateMetadata request sent by "
        b"controller 1001 epoch 2 with correlation id 1 (state.change.logger)\n"
    )
    line = b"[2026-11-23 10:20:00,000] INFO [Broker id=1] " + sums_up
    edit_brokers(folder, lambda content: content + line, "1")
    result = audited(folder, tmp_path)
    assert (result.verdict, missing(result)) == ("incomplete", ["Kafka brokers 1001"])


def test_a_controller_epoch_is_of_one_controller_in_both_kinds_of_logs(tmp_path: Path) -> None:
    folder = copy_governed(tmp_path / "logs")
    edit_brokers(
        folder,
        replaced(BY_1002 + rb" epoch 1 with correlation id 5", b"controller 3 epoch 1 with correlation id 5"),
        "1",
    )
    result = audited(folder, tmp_path)
    assert result.findings[ONE_CONTROLLER_PER_EPOCH] == 2
    assert "controller-1002 became active in controller epoch 1, in which Kafka's brokers name controller 3" in {
        found["message"] for found in read_findings(tmp_path / "output", 20)
    }


def test_brokers_of_another_controller_are_another_cluster(tmp_path: Path) -> None:
    folder = copy_governed(tmp_path / "logs")
    edit_brokers(folder, replaced(BY_1002, b"controller 1009"))
    edit_brokers(folder, replaced(ORDERS_0, ORDERS_0_OF_3))
    result = audited(folder, tmp_path)
    assert missing(result) == ["broker-1", "broker-2", "broker-3", "Kafka brokers 1009"]
    assert of_both(tmp_path / "output") == []


def test_a_line_that_names_an_impossible_node_stops_nothing(tmp_path: Path) -> None:
    folder = copy_governed(tmp_path / "logs")
    path = controller_log(folder)
    other = b'"node":"controller-x","incarnation":"1795428293260.2422","at_ms":1795428294929,"kind":"controller",'
    with path.open("ab") as file:
        file.write(b'{"v":2,"seq":0,"prev":"%s",%s"controller_epoch":1,"to_state":"active"}\n' % (b"0" * 64, other))
    assert audited(folder, tmp_path).findings == {ONE_CONTROLLER_PER_EPOCH: 1}


@pytest.mark.parametrize("batch_bytes", [None, 12_000])
def test_a_topic_of_the_same_name_from_before_klamm_is_not_compared(batch_bytes: int | None, tmp_path: Path) -> None:
    """Brokers name it with states at partition epochs that klamm's topic has too."""
    folder = copy_governed(tmp_path / "logs")
    form = (
        b"[2026-11-23 09:5%d:00,000] TRACE [Broker id=1] Cached leader info UpdateMetadataPartitionState("
        b"topicName='orders', partitionIndex=0, controllerEpoch=0, leader=2, leaderEpoch=%d, isr=[2], zkVersion=%d, "
        b"replicas=[2], offlineReplicas=[]) for partition orders-0 in response to UpdateMetadata request sent by "
        b"controller 3 epoch 0 with correlation id 1 (state.change.logger)\n"
    )
    before = b"".join(form % (epoch, epoch, epoch) for epoch in (0, 1, 2))
    edit_brokers(folder, lambda content: before + content, "1")
    result = audit_folder(folder, tmp_path / "output", batch_bytes)
    assert (result.verdict, result.findings, missing(result)) == ("incomplete", {}, ["orders-0 created anew"])
