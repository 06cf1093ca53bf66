"""The files of an audit: only a commit makes them count, and damage to them is named."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow
import pyarrow.parquet
import pytest

from audit.storage.commits import BUCKETS, BucketState, Commit
from audit.storage.committed_state import OutputError
from audit.storage.output_folder import OutputFolder
from audit.storage.state_files import StateFile
from audit.storage.state_versions import VERSION
from audit.storage.table_files import OTHER_DAYS, TableSize
from audit.storage.table_schemas import RECORDS_TABLE
from state_log.record import Kind, LoggedStateChange
from tests.audits.columnar_audits import table_of
from tests.audits.s3_server import new_bucket, s3_server

DAY_MS = 86_400_000


def record(at_ms: int, seq: int = 0) -> LoggedStateChange:
    return LoggedStateChange(kind=Kind.BROKER, v=2, seq=seq, node="n", incarnation="i", at_ms=at_ms)


def rows(count: int) -> pyarrow.Table:
    return pyarrow.table({"key": pyarrow.array(range(count), pyarrow.uint64()), "sub": range(count)})


def commit_runs(folder: OutputFolder, batch: int, count: int = 1) -> Commit:
    """A batch that has written a run and a state file."""
    partitions, cluster = StateFile(folder, 3, batch), StateFile(folder, BUCKETS, batch)
    state = {
        "3": BucketState({"states": (partitions.add_run(rows(count)),), "claims": (partitions.add_run(rows(2)),)}),
        str(BUCKETS): BucketState(file=cluster.add_bytes(b"state")),
    }
    partitions.write()
    cluster.write()
    commit = Commit(VERSION, batch, "", state, records=count)
    folder.commit(commit)
    return commit


def state_files(folder: OutputFolder) -> set[str]:
    return set(folder.files.sizes("state"))


def test_a_commit_is_read_back_and_the_last_one_counts(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    assert folder.last_commit() is None
    commits = [commit_runs(folder, batch) for batch in (0, 1, 2)]
    assert OutputFolder(tmp_path).last_commit() == commits[-1]


def test_the_state_of_the_last_two_commits_is_kept(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    for batch in range(4):
        commit_runs(folder, batch)
    assert state_files(folder) == {f"state/{bucket}/{batch:09d}.arrow" for batch in (2, 3) for bucket in (3, BUCKETS)}
    assert sorted(path.stem for path in (tmp_path / "commits").iterdir()) == ["2", "3"]


def test_what_a_batch_left_that_was_killed_is_overwritten_and_goes_with_its_commit(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    commit_runs(folder, 0)
    killed = StateFile(folder, 3, 1)
    killed.add_run(rows(9))
    killed.write()
    (tmp_path / "state" / "3" / "000000001.77.tmp").write_bytes(b"half")
    commit = commit_runs(folder, 1, count=5)
    (run,) = folder.runs(commit.buckets["3"].runs["states"])
    assert run.rows.num_rows == 5
    assert not any(name.endswith(".tmp") for name in state_files(folder))


def test_rows_go_to_the_day_of_their_time_and_impossible_times_to_one_of_their_own(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    times = [0, DAY_MS - 1, DAY_MS, 20_000 * DAY_MS, -1, (1 << 63) - 1, -(1 << 63) + 1]
    folder.write_rows(RECORDS_TABLE, table_of([record(at_ms, n) for n, at_ms in enumerate(times)]), 0, 0)
    folder.commit(Commit(VERSION, 0, "", {}))
    days = {f"day={file.day}" for file in folder.table_files(RECORDS_TABLE)}
    assert days == {"day=1970-01-01", "day=1970-01-02", "day=2024-10-04", f"day={OTHER_DAYS}"}
    assert sorted(row["seq"] for row in folder.rows(RECORDS_TABLE)) == list(range(len(times)))


def test_a_clock_that_jumps_does_not_make_a_file_for_each_record(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    folder.write_rows(RECORDS_TABLE, table_of([record(n * DAY_MS, n) for n in range(500)]), 0, 0)
    folder.commit(Commit(VERSION, 0, "", {}))
    assert len(folder.table_files(RECORDS_TABLE)) < 40
    assert len(list(folder.rows(RECORDS_TABLE))) == 500


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def garbage(path: Path) -> None:
    path.write_bytes(b"garbage")


def one_bit_flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = len(data) // 3
    if path.suffix == ".parquet":
        # Headers of pages have no checksum; what is counted in them is of no use without the data.
        column = pyarrow.parquet.ParquetFile(path).metadata.row_group(0).column(2)
        middle = column.data_page_offset + column.total_compressed_size - 1
    data[middle] ^= 1
    path.write_bytes(data)


PARTS = ["commits/0.json", "state/3/000000000.arrow", f"state/{BUCKETS}/000000000.arrow"]
DAMAGE = [Path.unlink, truncated, garbage, one_bit_flipped]


def audited(output: Path) -> OutputFolder:
    """An output with one batch, and what Spark leaves of it."""
    folder = OutputFolder(output)
    for name in ("offsets", "commits"):
        (output / "checkpoint" / name).mkdir(parents=True)
        (output / "checkpoint" / name / "0").touch()
    # More of it is pages, which have checksums, than what Parquet says of them at the end.
    records = [record(seq * 7919 % 80_000_003, seq) for seq in range(9_000)]
    folder.write_rows(RECORDS_TABLE, table_of(records), 0, 3)
    commit = commit_runs(folder, 0, count=3)
    written = {table: sum(days.values(), start=TableSize()) for table, days in folder.take_written().items()}
    folder.commit(msgspec.structs.replace(commit, tables=written))
    folder.check()
    return folder


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", PARTS)
def test_damage_to_the_state_is_an_error_that_names_the_file(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    folder = audited(tmp_path)
    damage(tmp_path / name)
    with pytest.raises(OutputError, match=re.escape(name)) as raised:
        folder.check()
    assert "\n" not in str(raised.value)
    assert "--output" in str(raised.value)


def read_all(folder: OutputFolder) -> None:
    folder.check()
    list(folder.rows(RECORDS_TABLE))


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_to_a_table_is_an_error_that_names_it(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    folder = audited(tmp_path)
    (file,) = folder.table_files(RECORDS_TABLE)
    damage(tmp_path / file.name)
    with pytest.raises(OutputError, match="tables/records") as raised:
        read_all(folder)
    assert "--output" in str(raised.value)


def test_an_output_without_its_checkpoint_is_refused(tmp_path: Path) -> None:
    folder = audited(tmp_path)
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(OutputError, match="checkpoint: does not have batch 0"):
        folder.check()


def test_a_new_output_and_one_whose_first_batch_was_killed_are_as_they_should_be(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    folder.check()
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "0").touch()
    folder.write_rows(RECORDS_TABLE, table_of([record(1)]), 0, 0)
    folder.check()
    commit_runs(folder, 0)
    folder.check()


def test_a_checkpoint_is_the_same_however_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = OutputFolder("out")
    below, elsewhere = str(tmp_path / "out" / "checkpoint"), str(tmp_path / "elsewhere")
    assert [folder.checkpoint(wanted) for wanted in ("", "out/checkpoint", "elsewhere/")] == [below, below, elsewhere]
    folder.commit(Commit(VERSION, 0, "", {}))
    assert [folder.checkpoint(wanted) for wanted in ("", "out/checkpoint", Path(below).as_uri())] == [below] * 3
    with pytest.raises(OutputError, match=f"its checkpoint is {below}, not {elsewhere}: leave --checkpoint out"):
        folder.checkpoint("elsewhere")
    folder.commit(Commit(VERSION, 1, "", {}, checkpoint=elsewhere))
    assert [folder.checkpoint(wanted) for wanted in ("", "elsewhere", f"{elsewhere}/")] == [elsewhere] * 3


def test_a_checkpoint_in_the_object_store_of_the_output_is_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        folder = OutputFolder(f"s3a://{new_bucket()}/audit")
        below = f"{folder.location}/checkpoint"
        with pytest.raises(OutputError, match="Spark's checkpoint has no place: pass --checkpoint"):
            folder.checkpoint()
        assert folder.checkpoint(f"{below}/") == below
        folder.commit(Commit(VERSION, 0, "", {}))
        assert [folder.checkpoint(wanted) for wanted in ("", below)] == [below] * 2
