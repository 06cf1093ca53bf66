"""The Delta tables have the rows that hold, each once, whatever happened between two publications."""

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from audit.storage.committed_state import OutputError
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import FINDINGS_TABLE, RECORDS_TABLE, TABLES
from audit.tables.compaction import Compaction, commit_and_delete, compact_all, delete_strays, publisher
from launcher.__main__ import app
from tests.unit.audit.test_compaction import run_batch


def published(folder: OutputFolder, table: str) -> list[dict[str, Any]]:
    """The rows by another reader than the one that wrote them."""
    delta = DeltaTable(folder.path(f"tables/{table}"))
    with duckdb.connect() as connection:
        connection.register("published", delta.to_pyarrow_dataset())
        found = connection.sql("SELECT * EXCLUDE (day) FROM published").to_arrow_table().to_pylist()
    return sorted(found, key=str)


def holding(folder: OutputFolder, table: str) -> list[dict[str, Any]]:
    rows = folder.current_rows(table) if table == FINDINGS_TABLE else folder.rows(table)
    return sorted(rows, key=str)


def publish(folder: OutputFolder) -> None:
    commit = folder.last_commit()
    assert commit is not None
    publisher()(folder, commit)


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32), batches=st.integers(2, 6))
def test_other_readers_see_each_row_that_holds_once(
    seed: int, batches: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = OutputFolder(tmp_path_factory.mktemp("output"))
    run_batch(folder, 0, seed)
    publish(folder)
    for number in range(1, batches):
        run_batch(folder, number, seed)
        commit = folder.last_commit()
        assert commit is not None
        for table in commit.tables:
            assert published(folder, table) == holding(folder, table)


def test_a_publication_that_changes_nothing_writes_no_version(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    run_batch(folder, 0, seed=1)
    publish(folder)
    versions = [DeltaTable(folder.path(f"tables/{table}")).version() for table in (FINDINGS_TABLE, RECORDS_TABLE)]
    publish(folder)
    assert versions == [0, 0]
    assert DeltaTable(folder.path(f"tables/{FINDINGS_TABLE}")).version() == 0


def test_a_table_without_rows_is_there(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    run_batch(folder, 0, seed=1)
    publish(folder)
    assert all(published(folder, table) == holding(folder, table) for table in TABLES)
    folder.check_tables()


def test_merged_files_take_the_places_of_those_before(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    run_batch(folder, 0, seed=3)
    publish(folder)
    for number in range(1, 5):
        run_batch(folder, number, seed=3)
    commit = folder.last_commit()
    assert commit is not None
    before = holding(folder, RECORDS_TABLE)
    commit_and_delete(folder, Compaction(*compact_all(folder, commit)))
    assert published(folder, RECORDS_TABLE) == holding(folder, RECORDS_TABLE)
    assert sorted(map(str, before)) == sorted(map(str, published(folder, RECORDS_TABLE)))


def test_what_a_crash_left_unpublished_is_made_up_for_before_files_are_deleted(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    run_batch(folder, 0, seed=4)
    publish(folder)
    for number in range(1, 4):
        run_batch(folder, number, seed=4)
    commit = folder.last_commit()
    assert commit is not None
    merged = compact_all(folder, commit)
    folder.commit(merged.commit)  # Killed here: neither published nor deleted.
    delete_strays(folder)
    for table in (FINDINGS_TABLE, RECORDS_TABLE):
        assert published(folder, table) == holding(folder, table)


def test_a_reader_of_the_version_before_finds_its_files(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    run_batch(folder, 0, seed=5)
    publish(folder)
    opened = DeltaTable(folder.path(f"tables/{FINDINGS_TABLE}"))
    rows = opened.to_pyarrow_table().num_rows
    run_batch(folder, 1, seed=5)
    assert opened.to_pyarrow_table().num_rows == rows
    run_batch(folder, 2, seed=5)
    present = {str(path.relative_to(tmp_path / "tables" / FINDINGS_TABLE)) for path in tmp_path.rglob("_current/*/*")}
    assert len(present) <= 6


def test_a_log_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    run_batch(folder, 0, seed=6)
    publish(folder)
    log = tmp_path / "tables" / FINDINGS_TABLE / "_delta_log"
    next(log.glob("*.json")).write_text("nonsense")
    with pytest.raises(OutputError, match="_delta_log: the Delta log cannot be written"):
        run_batch(folder, 1, seed=6)
    shutil.rmtree(log)
    publish(folder)
    assert published(folder, FINDINGS_TABLE) == holding(folder, FINDINGS_TABLE)


def test_the_command_publishes_and_says_what_changed(tmp_path: Path) -> None:
    runner = CliRunner()
    run_batch(OutputFolder(tmp_path), 0, seed=7)
    first = runner.invoke(app, ["audit", "delta", "--output", str(tmp_path)])
    assert first.exit_code == 0
    assert "findings: " in first.stderr
    assert "are those of batch 0" in first.stderr
    assert "added" not in runner.invoke(app, ["audit", "delta", "--output", str(tmp_path)]).stderr
    assert runner.invoke(app, ["audit", "delta", "--output", str(tmp_path / "elsewhere")]).exit_code == 2
