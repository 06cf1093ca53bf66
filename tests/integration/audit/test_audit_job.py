"""The audit as a real Spark stream over generated logs. One session serves all tests of this module."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from audit.job import run_audit, start_session
from audit.report import MISSING_RECORDS, AuditResult, read_findings, read_incarnations, rows
from state_log.writer import read_audited
from tests.state_change_histories import Cluster, Incarnation, Logs, draw, write_logs
from tests.unit.state_log.test_invariants import second_leader_by_an_agent

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, java_for_spark: None) -> Iterator[SparkSession]:
    session = start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def audit(spark: SparkSession, logs: Path, output: Path) -> AuditResult:
    return run_audit([logs], output, once=True, session=spark)


def size(logs: Logs) -> int:
    return sum(len(changes) for changes in logs.values())


def test_a_correct_history_is_clean_and_a_second_run_takes_only_what_came_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    cluster, logs, output = draw(11, steps=120, partitions=4), tmp_path / "logs", tmp_path / "output"
    paths = write_logs(cluster.logs, logs)
    whole, torn = paths[cluster.controller].read_bytes(), 25
    paths[cluster.controller].write_bytes(whole[:-torn])
    first = audit(spark, logs, output)
    assert (first.verdict, first.records, first.quarantined, first.findings) == ("clean", size(cluster.logs) - 1, 0, {})
    assert read_audited(paths[cluster.controller].parent)[paths[cluster.controller].name] < len(whole) - torn

    for _ in range(60):
        cluster.step()
    paths = write_logs(cluster.logs, logs)  # The same lines again with new ones after them, and new files.
    second = audit(spark, logs, output)
    assert (second.verdict, second.records, second.findings) == ("clean", size(cluster.logs), {})
    assert second.incarnations == sum(1 for changes in cluster.logs.values() if changes)
    assert read_audited(paths[cluster.controller].parent) == {
        path.name: path.stat().st_size for path in paths[cluster.controller].parent.glob("*.jsonl")
    }
    assert_timelines_tell_the_history(output, cluster)


def assert_timelines_tell_the_history(output: Path, cluster: Cluster) -> None:
    assert pyarrow.dataset.dataset(output / "findings", format="parquet").count_rows() == 0
    for partition in cluster.partitions:
        written = [row for row in rows(output, "timelines") if row["partition"] == partition.number]
        last = max((row for row in written if row["partition_epoch"] is not None), key=lambda r: r["partition_epoch"])
        assert partition.state is not None
        assert (last["leader"], tuple(last["isr"])) == (partition.state.leader, partition.state.isr)


def test_every_kind_of_damage_is_found_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    cluster, logs, output = draw(5, steps=150, partitions=3), tmp_path / "logs", tmp_path / "output"
    second_leader_by_an_agent(cluster)
    paths = write_logs(cluster.logs, logs)
    longest = sorted(cluster.logs, key=lambda i: len(cluster.logs[i]))
    lose_line(paths[longest[-1]], 3)
    write_garbage(paths[longest[-2]], 2)
    alter_stamp(cluster.logs, longest[-3], paths[longest[-3]])

    result = audit(spark, logs, output)

    assert result.verdict == "findings"
    assert result.findings == {
        "chain-break": 1,
        MISSING_RECORDS: 1,
        "one-leader-per-epoch": 1,
        "sequence-gap": 2,
    }
    assert result.quarantined == 1
    assert (result.expected, result.records) == (size(cluster.logs), size(cluster.logs) - 2)
    found = {row["rule"]: row for row in rows(output, "findings")}
    assert (found["one-leader-per-epoch"]["topic"], found["one-leader-per-epoch"]["partition"]) == ("orders", 0)
    assert "broker-9/1800000000000.1/0" in found["one-leader-per-epoch"]["records"]
    (shown,) = (row for row in read_findings(output, 10) if row["rule"] == "one-leader-per-epoch")
    assert "broker-9/1800000000000.1/0: Injected" in shown["causes"]
    quarantined = next(rows(output, "quarantine"))
    assert (quarantined["line"], quarantined["file"]) == ("not a record", str(paths[longest[-2]]))
    short = [i for i in read_incarnations(output) if i.records <= i.last_seq]
    assert [(i.node, i.incarnation) for i in short] == sorted(longest[-2:])


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
