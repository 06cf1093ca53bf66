"""The state of partitions made anew from the tables: the audit goes on as if nothing had been."""

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path

import pyarrow
import pytest

from audit.batches.rebuild import changed_rows, rebuild
from audit.records.findings import FOUND, WITHDRAWN, AuditFinding
from audit.report.report import read_result
from audit.rules import state_sequences
from audit.rules.rule import BucketBatch
from audit.rules.table import RULES
from audit.storage.commits import Commit
from audit.storage.committed_state import OutputError
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import BATCH, FINDINGS, FINDINGS_TABLE, TIMELINES_TABLE
from audit.tables.compaction import delete_files, delete_old, delete_strays
from tests.audit_corpus.clean_logs import simulated_logs
from tests.audit_corpus.logs import SOUND_LOGS
from tests.audits.log_audits import FolderAudit
from tests.audits.outputs import leave_checkpoint, rows_that_hold
from tests.audits.state_change_histories import Cluster, draw, write_logs
from tests.unit.state_log.test_invariants import (
    leader_epoch_leap,
    leader_outside_isr,
    second_leader_by_an_agent,
    two_states_of_one_version,
)

BATCH_BYTES = 32_000


def commit_of(output: Path) -> Commit:
    commit = OutputFolder(output).last_commit()
    assert commit is not None
    return commit


def assert_same(output: Path, undisturbed: Path) -> None:
    ours, theirs = rows_that_hold(output), rows_that_hold(undisturbed)
    for table, rows in theirs.items():
        assert ours[table] == rows, table
    assert read_result(output) == read_result(undisturbed)


def rebuild_in_the_midst(logs: Path, top: Path) -> None:
    """Two audits of these logs, of which one is rebuilt twice, with fewer buckets and with more."""
    batch_bytes = sum(path.stat().st_size for path in logs.rglob("*.jsonl")) // 8
    undisturbed, output = top / "undisturbed", top / "output"
    FolderAudit(logs, undisturbed, buckets=1).read(batch_bytes)
    audit, last = FolderAudit(logs, output), commit_of(undisturbed).batch
    assert last > 2
    for buckets in (3, 6):
        audit.read(batch_bytes, last // 3)
        leave_checkpoint(output)
        known = rows_that_hold(output)
        rebuilt = rebuild(OutputFolder(output), buckets)
        assert (rebuilt.buckets, rebuilt.changed) == (buckets, {})
        assert rows_that_hold(output) == known
        OutputFolder(output).check()
    audit.read(batch_bytes)
    commit = commit_of(output)
    assert (commit.bucket_count, commit.rebuilds, commit.spark_batch) == (6, 2, last)
    assert_same(output, undisturbed)


def test_an_audit_of_recorded_logs_goes_on_behind_a_rebuild(tmp_path: Path) -> None:
    rebuild_in_the_midst(SOUND_LOGS, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("seed", [4, 5])
def test_an_audit_of_a_simulated_cluster_goes_on_behind_a_rebuild(seed: int, tmp_path: Path) -> None:
    logs = simulated_logs(tmp_path / "logs", seed, "--minutes", "3")
    rebuild_in_the_midst(logs, tmp_path)


def faulty(seed: int, *faults: Callable[[Cluster], str]) -> Cluster:
    cluster = draw(seed, steps=150, partitions=5)
    for fault in faults:
        fault(cluster)
    return cluster


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in (0, 2))])
def test_an_audit_with_findings_goes_on_behind_a_rebuild(seed: int, tmp_path: Path) -> None:
    faults = second_leader_by_an_agent, leader_epoch_leap, leader_outside_isr, two_states_of_one_version
    write_logs(faulty(seed, *faults).logs, tmp_path / "logs")
    rebuild_in_the_midst(tmp_path / "logs", tmp_path)
    assert len(read_result(tmp_path / "output").findings) > 3


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders `logs` and `output`, of an audit with findings that has read a part of the logs."""
    top: Path = tmp_path_factory.mktemp("audited")
    cluster = faulty(20, second_leader_by_an_agent, leader_epoch_leap)
    for _ in range(100):
        cluster.step()
    write_logs(cluster.logs, top / "logs")
    audit = FolderAudit(top / "logs", top / "output")
    audit.read(BATCH_BYTES, 3)
    # Both faults are in what was read: the rest of the logs is for the tests that read on.
    assert read_result(top / "output").findings.keys() >= {"one-leader-per-epoch", "leader-epoch-by-one"}
    leave_checkpoint(top / "output")
    return top


@pytest.fixture
def output(audited: Path, tmp_path: Path) -> Path:
    """One of it that may be changed."""
    return Path(shutil.copytree(audited / "output", tmp_path / "output"))


def test_rows_that_other_rules_see_otherwise_are_written_and_withdrawn(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = OutputFolder(output).current_rows(FINDINGS_TABLE)
    gone = [row for row in before if row["rule"] == "leader-epoch-by-one"]
    other = [row for row in before if row not in gone]
    assert gone
    assert other
    check = state_sequences.RULE.check
    leave_out(monkeypatch, lambda batch: [f for f in check(batch) if f.rule != "leader-epoch-by-one"])
    assert rebuild(OutputFolder(output)).changed == {FINDINGS_TABLE: len(gone)}
    folder = OutputFolder(output)
    assert folder.current_rows(FINDINGS_TABLE) == other
    written = [row for row in folder.rows(FINDINGS_TABLE) if row["batch"] == commit_of(output).batch]
    assert sorted((row["subject"], row["status"]) for row in written) == sorted((r["subject"], WITHDRAWN) for r in gone)
    # By the rules of before it is found again.
    monkeypatch.undo()
    rebuild(OutputFolder(output))
    assert OutputFolder(output).current_rows(FINDINGS_TABLE) == before


def test_damaged_state_of_partitions_is_made_anew(output: Path) -> None:
    known, folder = rows_that_hold(output), OutputFolder(output)
    first = min(bucket for bucket, state in commit_of(output).partitions.items() if any(state.runs.values()))
    shutil.rmtree(output / "state" / first)
    with pytest.raises(OutputError, match=f"state/{first}/.*run 'klamm audit rebuild --output {output}'"):
        folder.check()
    assert rebuild(folder).changed == {}
    folder.check()
    assert rows_that_hold(output) == known


class DyingFolder(OutputFolder):
    """Ends its process by SIGKILL when all is written that a commit makes count."""

    def commit(self, commit: Commit) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def leave_out(patch: pytest.MonkeyPatch, check: Callable[[BucketBatch], Iterable[AuditFinding]]) -> None:
    """Check the sequences of states in this way instead."""
    rule = state_sequences.RULE._replace(check=check)
    patch.setattr("audit.batches.bucket.RULES", [rule if each is state_sequences.RULE else each for each in RULES])


def rebuild_and_die(output: Path) -> None:
    """By rules that find less."""
    with pytest.MonkeyPatch.context() as patch:
        leave_out(patch, lambda _: [])
        rebuild(DyingFolder(output), 7)


def kill_rebuild(output: Path) -> None:
    """Rebuild in a process that is killed before the commit; tables and state are written."""
    leave_checkpoint(output)
    process = multiprocessing.get_context("spawn").Process(target=rebuild_and_die, args=(output,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    left = f"{commit_of(output).batch + 1:09d}"
    assert any(path.name.startswith(left) for path in (output / "tables").rglob("*.parquet"))
    assert list((output / "state").glob(f"[56]/{left}.arrow"))


def test_of_a_rebuild_that_was_killed_nothing_counts_and_another_rebuild_or_an_audit_goes_on(
    audited: Path, tmp_path: Path
) -> None:
    output, again, undisturbed = (tmp_path / name for name in ("output", "again", "undisturbed"))
    FolderAudit(audited / "logs", undisturbed, buckets=1).read(BATCH_BYTES)
    audit = FolderAudit(audited / "logs", output)
    audit.read(BATCH_BYTES, 3)
    known = rows_that_hold(output)
    kill_rebuild(output)
    OutputFolder(output).check()
    assert rows_that_hold(output) == known
    shutil.copytree(output, again)
    assert rebuild(OutputFolder(again), 5).changed == {}
    assert rows_that_hold(again) == known
    OutputFolder(again).check()
    delete_strays(OutputFolder(output))
    audit.read(BATCH_BYTES)
    assert_same(output, undisturbed)
    assert not list((output / "state").glob("[56]/*"))


def test_a_batch_that_was_killed_does_not_count_by_the_commit_of_a_rebuild(output: Path) -> None:
    known, folder = rows_that_hold(output), OutputFolder(output)
    row = {"rule": "r", "subject": "s", "message": "m", "records": [], "status": FOUND, "at_ms": 5}
    folder.write_rows(FINDINGS_TABLE, pyarrow.Table.from_pylist([row], FINDINGS), commit_of(output).batch + 1, 900)
    rebuild(OutputFolder(output))
    assert rows_that_hold(output) == known
    OutputFolder(output).check()


def test_without_the_records_of_deleted_days_nothing_is_rebuilt(output: Path) -> None:
    folder, commit = OutputFolder(output), commit_of(output)
    kept = delete_old(folder, commit, 1, date(2100, 1, 1))
    folder.commit(kept.commit)
    delete_files(folder, kept.unneeded)
    with pytest.raises(OutputError, match="--keep-days has deleted the records before 2099-12-31") as said:
        rebuild(folder)
    assert "--output" in str(said.value)
    assert commit_of(output) == kept.commit


def test_without_an_audit_there_is_nothing_to_rebuild(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nothing was audited yet"):
        rebuild(OutputFolder(tmp_path))


def test_rows_are_compared_with_their_lists_and_nulls(output: Path) -> None:
    rows = OutputFolder(output).current_table(TIMELINES_TABLE)
    assert BATCH not in rows.column_names
    assert changed_rows(TIMELINES_TABLE, rows, rows.slice(0, 0)).num_rows == rows.num_rows
    first = rows.to_pylist()[0]
    other = pyarrow.Table.from_pylist([{**first, "isr": [*first["isr"], 77]}], rows.schema)
    changed = changed_rows(TIMELINES_TABLE, rows, pyarrow.concat_tables([other, rows.slice(2)]))
    assert changed.to_pylist()[0]["isr"][-1] == 77
    assert [row["status"] for row in changed.to_pylist()] == [first["status"], WITHDRAWN]
