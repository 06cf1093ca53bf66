"""What a batch has sealed: it counts, is not read at a start, and its hash is compared when a late record needs it."""

import os
import shutil
from pathlib import Path

import pytest

from audit.batches.rebuild import rebuild
from audit.report.report import read_result
from audit.storage import committed_state
from audit.storage.commits import StoredFile
from audit.storage.committed_state import OutputError, sealed_files
from audit.storage.output_folder import OutputFolder
from tests.audits.log_audits import FolderAudit
from tests.audits.outputs import leave_checkpoint, rows_that_hold
from tests.audits.state_change_histories import draw, write_logs
from tests.unit.state_log.test_invariants import leader_epoch_leap, second_leader_by_an_agent

OPEN_ROWS, BATCH_BYTES = 30, 20_000


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, cluster = tmp_path_factory.mktemp("logs"), draw(21, steps=400, partitions=3)
    second_leader_by_an_agent(cluster)
    leader_epoch_leap(cluster)
    write_logs(cluster.logs, folder, ms_between_epochs=10)
    return folder


@pytest.fixture(scope="module")
def undisturbed(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of an audit that seals nothing."""
    output: Path = tmp_path_factory.mktemp("undisturbed")
    FolderAudit(logs, output, buckets=2).read(BATCH_BYTES)
    assert sealed(output) == []
    assert len(read_result(output).findings) > 1
    return output


@pytest.fixture(scope="module")
def late(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An audit that has read all logs but those of one broker, of which most is sealed: its output and the rest."""
    some, rest, output = (tmp_path_factory.mktemp(name) for name in ("some", "rest", "output"))
    for folder in logs.iterdir():
        shutil.copytree(folder, (rest if folder.name == "broker-2" else some) / folder.name)
    FolderAudit(some, output, buckets=2, open_rows=OPEN_ROWS).read(BATCH_BYTES)
    assert len(sealed(output)) > 8
    leave_checkpoint(output)
    return output, rest


def sealed(output: Path) -> list[StoredFile]:
    commit = OutputFolder(output).last_commit()
    assert commit is not None
    return [stored for state in commit.buckets.values() for stored in sealed_files(state)]


def copy_of(late: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(late[0], tmp_path / "output"))


def test_tables_are_those_of_an_audit_that_seals_nothing(logs: Path, undisturbed: Path, tmp_path: Path) -> None:
    FolderAudit(logs, tmp_path, buckets=2, open_rows=OPEN_ROWS).read(BATCH_BYTES)
    assert sealed(tmp_path)
    assert rows_that_hold(tmp_path) == rows_that_hold(undisturbed)
    assert read_result(tmp_path) == read_result(undisturbed)


def test_a_log_that_arrives_after_its_epochs_were_sealed_is_compared_as_in_time(
    late: tuple[Path, Path], undisturbed: Path, tmp_path: Path
) -> None:
    output = copy_of(late, tmp_path)
    FolderAudit(late[1], output).read(BATCH_BYTES)
    found, expected = rows_that_hold(output), rows_that_hold(undisturbed)
    assert found == expected
    assert read_result(output).findings == read_result(undisturbed).findings


def test_a_start_reads_what_is_open_and_looks_whether_the_rest_is_there(
    late: tuple[Path, Path], tmp_path: Path
) -> None:
    output = copy_of(late, tmp_path)
    stored = sealed(output)[0]
    path = output / stored.file
    path.write_bytes(b"\xff" * path.stat().st_size)
    OutputFolder(output).check_kept()
    OutputFolder(output).check()
    os.truncate(path, 10)
    with pytest.raises(OutputError, match=rf"{stored.file}: is missing or cut short; .*rebuild"):
        OutputFolder(output).check()


def test_a_damaged_sealed_file_ends_the_batch_that_needs_it(
    late: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committed_state, "_READ", set())
    output = copy_of(late, tmp_path)
    for stored in sealed(output):
        path = output / stored.file
        path.write_bytes(b"\xff" * path.stat().st_size)
    before = OutputFolder(output).last_commit()
    with pytest.raises(OutputError, match=r"-sealed.arrow: was changed after it was written"):
        FolderAudit(late[1], output).read(BATCH_BYTES)
    assert OutputFolder(output).last_commit() == before


def test_a_rebuild_seals_again_what_is_old(late: tuple[Path, Path], undisturbed: Path, tmp_path: Path) -> None:
    output = copy_of(late, tmp_path)
    before = rows_that_hold(output)
    assert set(rebuild(OutputFolder(output), 3).changed.values()) <= {0}
    assert sealed(output)
    OutputFolder(output).check()
    assert rows_that_hold(output) == before
    FolderAudit(late[1], output).read(BATCH_BYTES)
    assert rows_that_hold(output) == rows_that_hold(undisturbed)


def test_sealed_files_stay_and_others_go_when_no_commit_needs_them(late: tuple[Path, Path]) -> None:
    output, _ = late
    present = {path.relative_to(output).as_posix() for path in (output / "state").rglob("*.arrow")}
    assert {stored.file for stored in sealed(output)} <= present
    folder = OutputFolder(output)
    kept = sorted(int(path.stem) for path in (output / "commits").iterdir())
    needed = {stored.file for number in kept for stored in folder._state_of(number)}
    assert present == needed
