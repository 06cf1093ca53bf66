"""Decisions are replayed while an audit reads its batches: the same findings, however the logs are divided."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from audit.batches.batch import BatchSettings, replay_earlier
from audit.batches.decisions import DECIDED_OTHERWISE, ReplayStage, record_of_rows
from audit.batches.rebuild import rebuild
from audit.records.columns import to_columns
from audit.report.rejudge import rejudge
from audit.report.report import read_findings, read_result
from audit.rules.limits import Limits
from audit.storage.commits import BUCKETS
from audit.storage.output_folder import OutputFolder
from launcher.decision_replays import StreamedReplay
from state_log.reader import read_state_changes
from tests.audits.log_audits import FolderAudit
from tests.audits.outputs import leave_checkpoint
from tests.controllers.decision_logs import DecisionLog
from tests.unit.controller.replay.test_decision_replay import cancelled, disk_failed, failed, loaded, moved, unclean


def wrong() -> DecisionLog:
    """Two of its decisions are wrong."""
    log = failed().changed(4, leader=3)
    log.event("AlterPartitionReceived").isr("asked by broker 3", (3, 5, 9, (3, 2, 9)))
    return log.event("BrokerChange").broker(1, "live", 9).replica(1, "OfflineReplica>OnlineReplica")


def found_in(output: Path) -> dict[str, str]:
    rows: Iterable[Mapping[str, Any]] = read_findings(output, 1000)
    return {row["records"][0]: row["message"] for row in rows if row["rule"] == DECIDED_OTHERWISE}


def expected(log: DecisionLog) -> set[str]:
    return {each.record for each in log.replayed().others}


@settings(max_examples=8, deadline=None)
@given(sizes=st.lists(st.integers(200, 3000), min_size=1, max_size=6), restarts=st.booleans())
def test_findings_do_not_depend_on_how_the_log_is_divided_or_on_restarts(sizes: list[int], restarts: bool) -> None:
    log = wrong()
    with TemporaryDirectory() as temporary:
        logs, output = Path(temporary, "logs"), Path(temporary, "output")
        logs.mkdir()
        log.write(logs)
        stage = ReplayStage(StreamedReplay)
        audit = FolderAudit(logs, output, replay=stage)
        for size in sizes:
            audit.read(size, batches=1)
            if restarts:
                # What was replayed is in memory only.
                stage._batch = -2
        audit.read()
        assert found_in(output).keys() == expected(log)
        result = read_result(output)
        assert result.findings[DECIDED_OTHERWISE] == 2
        assert result.decisions == log.replayed().decisions.total()


def test_an_event_of_which_more_is_read_later_explains_itself(tmp_path: Path) -> None:
    """That the disk of a live leader failed is said by the last record of the event."""
    log = disk_failed()
    path = log.write(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))
    output = tmp_path / "output"
    audit = FolderAudit(tmp_path, output, replay=ReplayStage(StreamedReplay))
    audit.read()
    assert found_in(output).keys() == {log.records[2].reference}
    path.write_bytes(b"".join(lines))
    audit.read()
    assert found_in(output) == {}


def test_what_was_read_before_the_stage_was_asked_for_is_replayed_with_the_next_batch(tmp_path: Path) -> None:
    log = wrong()
    path = log.write(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    output = tmp_path / "output"
    audit = FolderAudit(tmp_path, output)
    audit.read()
    assert found_in(output) == {}
    audit._replay = ReplayStage(StreamedReplay)
    path.write_bytes(b"".join(lines))
    audit.read()
    assert found_in(output).keys() == expected(log)


def test_what_was_read_before_is_replayed_though_nothing_follows(tmp_path: Path) -> None:
    log = wrong()
    log.write(tmp_path)
    output, folder = tmp_path / "output", OutputFolder(tmp_path / "output")
    assert not replay_earlier(folder, asked())
    FolderAudit(tmp_path, output).read()
    before = folder.last_commit()
    assert replay_earlier(folder, asked())
    assert found_in(output).keys() == expected(log)
    commit, result = folder.last_commit(), read_result(output)
    assert before is not None
    assert commit is not None
    assert commit.spark_batch == before.spark_batch
    assert (result.records, result.decisions) == (before.records, log.replayed().decisions.total())
    assert not replay_earlier(folder, asked())


def test_records_that_were_read_without_the_stage_are_replayed_when_it_is_asked_for_again(tmp_path: Path) -> None:
    log = wrong()
    path = log.write(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    output = tmp_path / "output"
    path.write_bytes(b"".join(lines[:2]))
    audit = FolderAudit(tmp_path, output, replay=ReplayStage(StreamedReplay))
    audit.read()
    audit._replay = None
    path.write_bytes(b"".join(lines))
    audit.read()
    assert (found_in(output), read_result(output).decisions) == ({}, None)
    assert replay_earlier(OutputFolder(output), asked())
    assert found_in(output).keys() == expected(log)


def asked() -> BatchSettings:
    return BatchSettings(1, BUCKETS, "", Limits(), None, replay=ReplayStage(StreamedReplay))


def test_a_rebuild_leaves_what_was_replayed(tmp_path: Path) -> None:
    wrong().write(tmp_path)
    output = tmp_path / "output"
    FolderAudit(tmp_path, output, replay=ReplayStage(StreamedReplay)).read()
    leave_checkpoint(output)
    known = found_in(output)
    assert len(known) == 2
    assert rejudge(OutputFolder(output)).is_same
    rebuild(OutputFolder(output))
    assert found_in(output) == known


def test_what_is_missing_makes_the_audit_incomplete(tmp_path: Path) -> None:
    log = loaded().event("BrokerChange").broker(2, "dead").isr("replica offline", (1, 5, 9, (1,)), 2)
    log.write(tmp_path)
    FolderAudit(tmp_path, tmp_path / "output", replay=ReplayStage(StreamedReplay)).read()
    gaps = [gap.why for gap in read_result(tmp_path / "output").incomplete if gap.what == "decisions"]
    assert gaps == [
        f"1 were not replayed, as no log says the state before it, of partition epoch 8 (first "
        f"{log.records[-1].reference})"
    ]


def test_a_record_is_the_same_after_it_was_rows_of_a_table(tmp_path: Path) -> None:
    for number, make in enumerate((moved, cancelled, unclean, disk_failed)):
        folder = tmp_path / str(number)
        folder.mkdir()
        make().write(folder)
        for record in read_state_changes([folder]):
            rows = to_columns([record]).to_pylist()
            again = record_of_rows(rows)
            assert DecisionLog.comparable(again) == DecisionLog.comparable(record)
