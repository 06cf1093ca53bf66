"""Tables stay few files, whatever happens while they are merged: rows are those of an audit that never did."""

import shutil
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.batches.batch import commit_batch
from audit.records.findings import FOUND, WITHDRAWN, AuditFinding
from audit.storage.commits import BucketResult, BucketState, Commit
from audit.storage.committed_state import OutputError
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import VERSION
from audit.storage.table_files import TableFile, latest_rows
from audit.storage.table_schemas import BATCH, FINDINGS_TABLE, RECORDS_TABLE
from audit.tables.compaction import compact_all, delete_files, delete_old, delete_strays, mergeable
from state_log.record import Kind, LoggedStateChange
from tests.audits.columnar_audits import table_of
from tests.audits.findings_tables import findings_table

DAY_MS = 86_400_000


def record(at_ms: int, seq: int) -> LoggedStateChange:
    return LoggedStateChange(kind=Kind.BROKER, v=2, seq=seq, node="n", incarnation="i", at_ms=at_ms)


def finding(random: Random) -> AuditFinding:
    """One of few subjects, so that later ones take the places of earlier ones, also on other days."""
    status = random.choice([FOUND, FOUND, WITHDRAWN])
    at_ms = random.randrange(3) * DAY_MS
    return AuditFinding("rule", f"subject {random.randrange(6)}", f"{random.random()}", (), status, at_ms=at_ms)


def run_batch(folder: OutputFolder, number: int, seed: int, keep_days: int | None = None) -> None:
    """What an audit does in a batch, without judging."""
    before = folder.last_commit() or Commit(VERSION, -1, "", {})
    results = []
    for bucket in range(3):
        random = Random(f"{seed} {number} {bucket}")
        records = [record(random.randrange(3) * DAY_MS, n) for n in range(random.randrange(4))]
        if records:
            rows = table_of(records).drop_columns(["key"])
            folder.write_rows(RECORDS_TABLE, rows, number, bucket)
        # The same subject is always judged in the same bucket.
        found = [f for f in (finding(random) for _ in range(4)) if int(f.subject[-1]) % 3 == bucket]
        if found:
            folder.write_rows(FINDINGS_TABLE, findings_table(found), number, bucket)
        results.append(BucketResult(bucket, BucketState(), tables=folder.take_written()))
    begun = Path(folder.location) / "checkpoint" / "offsets" / str(number)
    begun.parent.mkdir(parents=True, exist_ok=True)
    begun.touch()
    commit_batch(folder, before, results, keep_days)


def all_rows(folder: OutputFolder) -> dict[str, Any]:
    return {
        RECORDS_TABLE: sorted(map(str, folder.rows(RECORDS_TABLE))),
        FINDINGS_TABLE: folder.current_rows(FINDINGS_TABLE),
    }


@pytest.fixture
def merging_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.tables.compaction.FILES_MAX", 3)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_merged_tables_have_the_rows_of_tables_that_were_not(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plain, merging = (OutputFolder(tmp_path_factory.mktemp(name)) for name in ("plain", "merging"))
    for number in range(8):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("audit.tables.compaction.MERGES_MAX", 0)
            run_batch(plain, number, seed)
            patch.undo()
            patch.setattr("audit.tables.compaction.FILES_MAX", 3)
            run_batch(merging, number, seed)
        merging.check()
        assert all_rows(merging) == all_rows(plain)
    assert len(merging.table_files(RECORDS_TABLE)) < len(plain.table_files(RECORDS_TABLE))


class Killed(BaseException):
    """Stands for SIGKILL: nothing that happens afterwards has an effect."""


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """The step-th change to the file system does not happen, nor does anything after it. Returns the steps so far."""
    steps = 0

    def counted(change: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps > step:
                raise Killed
            return change(*arguments, **named)

        return wrapper

    for name in ("replace", "unlink", "rmdir"):
        monkeypatch.setattr(Path, name, counted(getattr(Path, name)))
    return lambda: steps


def test_a_batch_that_is_killed_at_any_step_of_a_compaction_leaves_the_rows_as_they_should_be(
    merging_early: None, tmp_path: Path
) -> None:
    batches, seed, reached = 7, 5, 0
    undisturbed = OutputFolder(tmp_path / "undisturbed")
    for number in range(batches):
        run_batch(undisturbed, number, seed, keep_days=10_000_000)
    begun = OutputFolder(tmp_path / "begun")
    for number in range(batches - 1):
        run_batch(begun, number, seed)
    for step in range(1_000):
        folder = OutputFolder(tmp_path / str(step))
        shutil.copytree(begun.location, folder.location)
        with pytest.MonkeyPatch.context() as patch:
            steps = killed_at(step, patch)
            try:
                run_batch(folder, batches - 1, seed)
            except Killed:
                reached = step
        folder = restarted(folder.location)
        if (commit := folder.last_commit()) is not None and commit.batch < batches - 1:
            run_batch(folder, batches - 1, seed)
        folder.check()
        assert all_rows(folder) == all_rows(undisturbed)
        assert folder.last_commit() == undisturbed.last_commit()
        if steps() <= step:
            break
    assert reached > 10, "a batch has many steps, the last of which deletes files"


def restarted(top: str) -> OutputFolder:
    folder = OutputFolder(top)
    folder.check()
    delete_strays(folder)
    return folder


def test_what_a_first_batch_left_that_was_killed_does_not_count_beside_fewer_buckets(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    findings = findings_table([finding(Random(1))])
    for bucket in (1, 7):
        folder.write_rows(FINDINGS_TABLE, findings, 0, bucket)
    folder.take_written()
    delete_strays(folder)
    folder.write_rows(FINDINGS_TABLE, findings, 0, 1)
    result = BucketResult(1, BucketState(), tables=folder.take_written())
    commit_batch(folder, Commit(VERSION, -1, "", {}), [result])
    folder.check_tables()
    assert len(list(folder.rows(FINDINGS_TABLE))) == 1


def test_compacting_everything_leaves_a_file_for_each_day(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    for number in range(5):
        run_batch(folder, number, seed=1)
    before = all_rows(folder)
    done = compact_all(folder, committed(folder))
    assert all_rows(folder) == before, "nothing counts before it is committed"
    folder.commit(done.commit)
    delete_files(folder, done.unneeded)
    folder.check()
    assert all_rows(folder) == before
    for table in (RECORDS_TABLE, FINDINGS_TABLE):
        days = [file.day for file in folder.table_files(table)]
        assert len(days) == len(set(days))
    run_batch(folder, 5, seed=1)
    folder.check()


def committed(folder: OutputFolder) -> Commit:
    commit = folder.last_commit()
    assert commit is not None
    return commit


def test_days_that_are_too_old_are_deleted_and_what_comes_late_for_them_stays_until_the_next_time(
    tmp_path: Path,
) -> None:
    folder = OutputFolder(tmp_path)
    for number in range(3):
        run_batch(folder, number, seed=2)
    findings = folder.current_rows(FINDINGS_TABLE)
    done = delete_old(folder, committed(folder), 1, date(1970, 1, 3))
    folder.commit(done.commit)
    delete_files(folder, done.unneeded)
    folder.check()
    assert {row["at_ms"] for row in folder.rows(RECORDS_TABLE)} == {DAY_MS, 2 * DAY_MS}
    assert not any((tmp_path / "tables" / RECORDS_TABLE / "day=1970-01-01").glob("*"))
    assert folder.current_rows(FINDINGS_TABLE) == findings
    for number in range(3, 6):
        run_batch(folder, number, seed=2)
        folder.check()
    assert 0 in {row["at_ms"] for row in folder.rows(RECORDS_TABLE)}


def damage(tmp_path: Path, name: str) -> Iterator[Path]:
    yield from (tmp_path / "tables").glob(f"*/day=*/{name}")


@pytest.mark.parametrize("copied", [True, False])
def test_a_merged_file_that_is_missing_or_too_many_is_named(tmp_path: Path, merging_early: None, copied: bool) -> None:
    folder = OutputFolder(tmp_path)
    for number in range(8):
        run_batch(folder, number, seed=3)
    merged = next(damage(tmp_path, "*-*-*.parquet"))
    if copied:
        number = f"{committed(folder).compactions:09d}"
        merged.with_name(f"000000000-000000000-{number}.parquet").write_bytes(merged.read_bytes())
    else:
        merged.unlink()
    with pytest.raises(OutputError, match=f"tables/{merged.parent.parent.name}") as raised:
        folder.check()
    assert "--output" in str(raised.value)


def test_one_audit_at_a_time_writes_to_a_folder(tmp_path: Path) -> None:
    first, second = OutputFolder(tmp_path), OutputFolder(tmp_path)
    with first.locked(), pytest.raises(OutputError, match="another audit is writing to it"), second.locked():
        pass
    with second.locked():
        pass


def test_the_row_of_the_highest_batch_holds_wherever_it_stands() -> None:
    rows = pyarrow.table({"name": ["a", "b", "a", None, None], "value": [1, 2, 3, 4, 5], BATCH: [7, 1, 6, 2, 2]})
    assert latest_rows(rows, ["name"])["value"].to_pylist() == [1, 2, 5]


def files(*sizes: int) -> list[TableFile]:
    return [TableFile(f"tables/t/day=d/{n:09d}-000.parquet", size, n, n, 0) for n, size in enumerate(sizes)]


def test_what_is_much_larger_or_large_enough_is_not_merged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.tables.compaction.BYTES_MAX", 1000)
    assert [file.first for file in mergeable(files(900, 10, 10, 10))] == [1, 2, 3]
    assert [file.first for file in mergeable(files(900, 300, 100, 50))] == [1, 2, 3]
    assert [file.first for file in mergeable(files(40, 30, 20, 10))] == [0, 1, 2, 3]
    assert [file.first for file in mergeable(files(10, 10, 995), every=True)] == [0, 1]
