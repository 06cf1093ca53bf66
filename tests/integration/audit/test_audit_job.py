"""The audit as a real Spark stream over generated logs. One session serves all tests of this module."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from audit.batches.rebuild import rebuild
from audit.job import run_audit
from audit.options import AuditOptions
from audit.report.report import read_findings, read_quarantine, read_result
from audit.storage.commits import Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import RECORDS_TABLE
from state_log.heads_file import GivenHead
from state_log.record import LoggedStateChange, by_partition, decode_line, line_digest
from state_log.writer import read_audited
from tests.audits.outputs import rows_that_hold
from tests.audits.spark_audits import audit
from tests.audits.state_change_histories import Cluster, Incarnation, Logs, draw, stamped, write_logs
from tests.integration.audit.test_hadoop_files import TORN, write_logs_of_both
from tests.unit.state_log.test_invariants import leader_epoch_leap, second_leader_by_an_agent

pytestmark = pytest.mark.real


def size(logs: Logs) -> int:
    return sum(len(changes) for changes in logs.values())


def test_a_correct_history_is_clean_and_a_second_run_takes_only_what_came_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    cluster, logs, output = draw(11, steps=120, partitions=4, unclean=False), tmp_path / "logs", tmp_path / "output"
    paths = write_logs(cluster.logs, logs)
    agent = max(cluster.agents.values(), key=lambda incarnation: len(cluster.logs[incarnation]))
    whole, torn = paths[agent].read_bytes(), 25
    paths[agent].write_bytes(whole[:-torn])
    first = audit(spark, logs, output)
    assert (first.verdict, first.records, first.quarantined, first.findings) == ("clean", size(cluster.logs) - 1, 0, {})
    assert read_audited(paths[agent].parent)[paths[agent].name] < len(whole) - torn

    for _ in range(60):
        cluster.step()
    paths = write_logs(cluster.logs, logs)  # The same lines again with new ones after them, and new files.
    second = audit(spark, logs, output)
    assert (second.verdict, second.records, second.findings) == ("clean", size(cluster.logs), {})
    assert second.incarnations == sum(1 for changes in cluster.logs.values() if changes)
    assert read_audited(paths[cluster.controller].parent) == {
        path.name: path.stat().st_size for path in paths[cluster.controller].parent.glob("*.jsonl")
    }
    assert_each_record_is_in_the_table_once(output, cluster)


def assert_each_record_is_in_the_table_once(output: Path, cluster: Cluster) -> None:
    expected = [part for stream in stamped(cluster.logs) for record in stream for part in parts_of(record)]
    written = list(OutputFolder(output).rows(RECORDS_TABLE))
    names = ("node", "incarnation", "seq", "partition", "kind", "leader", "partition_epoch")
    assert sorted([str([row[name] for name in names]) for row in written]) == sorted(
        str([part.node, part.incarnation, part.seq, part.partition, part.kind.value, part.leader, part.partition_epoch])
        for part in expected
    )


def parts_of(record: LoggedStateChange) -> list[LoggedStateChange]:
    return [part for _, part in by_partition(record)] or [record]


def test_a_run_that_is_to_publish_does_so_though_it_finds_nothing_new(spark: SparkSession, tmp_path: Path) -> None:
    cluster, logs, output = draw(11, steps=20, partitions=2, unclean=False), tmp_path / "logs", tmp_path / "output"
    write_logs(cluster.logs, logs)
    result = audit(spark, logs, output)
    assert run_audit([logs], output, AuditOptions(once=True, delta=True), session=spark) == result
    published = DeltaTable(output / "tables" / RECORDS_TABLE).to_pyarrow_table()
    assert published.num_rows == len(list(OutputFolder(output).rows(RECORDS_TABLE))) >= size(cluster.logs)


def test_every_kind_of_damage_is_found_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    cluster, logs, output = draw(5, steps=150, partitions=3, unclean=False), tmp_path / "logs", tmp_path / "output"
    second_leader_by_an_agent(cluster)
    paths = write_logs(cluster.logs, logs)
    longest = sorted(cluster.logs, key=lambda i: len(cluster.logs[i]))
    lose_line(paths[longest[-1]], 3)
    write_garbage(paths[longest[-2]], 2)
    alter_stamp(cluster.logs, longest[-3], paths[longest[-3]])

    result = audit(spark, logs, output)

    assert result.verdict == "findings"
    damage = {"chain-break": 1, "clock-went-back": 1, "one-leader-per-epoch": 1, "sequence-gap": 2}
    assert result.findings == damage
    assert result.quarantined == 1
    assert str(paths[longest[-2]]) in {gap.what for gap in result.incomplete}
    assert (result.expected, result.records) == (size(cluster.logs), size(cluster.logs) - 2)
    found = {row["rule"]: row for row in read_findings(output, 10)}
    assert (found["one-leader-per-epoch"]["topic"], found["one-leader-per-epoch"]["partition"]) == ("orders", 0)
    assert "broker-9/1800000000000.1/0" in found["one-leader-per-epoch"]["records"]
    assert "broker-9/1800000000000.1/0: Injected" in found["one-leader-per-epoch"]["causes"]
    (quarantined,) = read_quarantine(output, 10)
    assert (quarantined["line"], quarantined["file"]) == ("not a record", str(paths[longest[-2]]))


def lose_line(path: Path, number: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:number] + lines[number + 1 :]))


def write_garbage(path: Path, number: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:number], b"not a record\n", *lines[number + 1 :]]))


def alter_stamp(logs: Logs, incarnation: Incarnation, path: Path) -> None:
    """A clock far in the future is no reason to drop a record, but an altered line breaks the chain."""
    lines = path.read_bytes().splitlines()
    lines[1] = lines[1].replace(b'"at_ms":1700000000000', b'"at_ms":9900000000000')
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    assert json.loads(lines[1])["at_ms"] == 9_900_000_000_000
    assert len(lines) == len(logs[incarnation]) > 2


def test_a_log_that_ends_before_a_head_was_cut_unless_it_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    cluster, logs, output = draw(12, steps=60, partitions=2, unclean=False), tmp_path / "logs", tmp_path / "output"
    paths = write_logs(cluster.logs, logs)
    path = paths[cluster.controller]
    lines = path.read_bytes().splitlines(keepends=True)
    last = decode_line(lines[-1].rstrip(b"\n"))
    assert isinstance(last, LoggedStateChange)
    head = GivenHead(last.node, last.incarnation, last.seq, line_digest(lines[-1].rstrip(b"\n")))
    path.write_bytes(b"".join(lines[:-1]))
    cut = run_audit([logs], output, AuditOptions(once=True, heads=[head]), session=spark)
    assert cut.findings["log-cut"] == 1
    # Whoever reads the report later sees the same, and what was only late withdraws it.
    assert read_result(output).findings == cut.findings
    path.write_bytes(b"".join(lines))
    assert "log-cut" not in audit(spark, logs, output).findings


def last_commit(output: Path) -> Commit:
    commit = OutputFolder(output).last_commit()
    assert commit is not None
    return commit


def test_an_audit_goes_on_behind_a_rebuild_and_repeats_a_batch_that_the_checkpoint_lacks(
    spark: SparkSession, tmp_path: Path
) -> None:
    cluster, logs, output = draw(11, steps=80, partitions=4), tmp_path / "logs", tmp_path / "output"
    second_leader_by_an_agent(cluster)
    write_logs(cluster.logs, logs)
    audit(spark, logs, output)
    before = last_commit(output)
    # As if the machine had gone down between the commit and that of Spark's.
    for name in (f"{before.batch}", f".{before.batch}.crc"):
        (output / "checkpoint" / "commits" / name).unlink()
    rebuild(OutputFolder(output), 7)

    for _ in range(40):
        cluster.step()
    leader_epoch_leap(cluster)
    write_logs(cluster.logs, logs)
    result = audit(spark, logs, output)
    commit = last_commit(output)
    assert (commit.bucket_count, commit.rebuilds, commit.spark_batch) == (7, 1, before.batch + 1)
    assert result.records == sum(map(len, cluster.logs.values()))

    undisturbed = tmp_path / "undisturbed"
    assert audit(spark, logs, undisturbed) == result
    assert rows_that_hold(output) == rows_that_hold(undisturbed)


def test_files_of_a_url_are_read_once_each_and_checked_like_local_ones(spark: SparkSession, tmp_path: Path) -> None:
    """In several batches, and again with one more."""
    logs, output = tmp_path / "logs", tmp_path / "output"
    write_more = write_logs_of_both(logs)
    before = run_audit([logs.as_uri()], output, AuditOptions(once=True), session=spark)
    assert (before.verdict, before.incarnations) == ("clean", 4)
    write_more()
    after = run_audit([logs.as_uri()], output, AuditOptions(once=True), session=spark)
    assert (after.verdict, after.records) == ("incomplete", before.records + 5)
    assert [gap.why for gap in after.incomplete] == [TORN]
