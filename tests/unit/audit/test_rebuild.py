"""The state of partitions made anew from the tables: the audit goes on as if nothing had been."""

import multiprocessing
import os
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from audit.batches.rebuild import rebuild
from audit.report.report import read_result
from audit.storage.commits import Commit
from audit.storage.output_folder import OutputError, OutputFolder
from audit.storage.table_schemas import QUARANTINE_TABLE, RECORDS_TABLE, TABLES
from tests.audit_corpus.clean_logs import simulated_logs
from tests.log_audits import FolderAudit
from tests.state_change_histories import draw, write_logs

BATCH_BYTES = 80_000
SEEDS = (2, 4, 5)
MINUTES = "3"


def current(folder: OutputFolder) -> dict[str, list[str]]:
    """All rows that hold. Those of rows that are written once in any order."""
    found = {name: sorted(map(str, folder.current_rows(name))) for name, table in TABLES.items() if table.is_revised}
    return found | {name: sorted(map(str, folder.rows(name))) for name in (RECORDS_TABLE, QUARANTINE_TABLE)}


def assert_same(output: Path, undisturbed: Path) -> None:
    ours, theirs = (current(OutputFolder(path)) for path in (output, undisturbed))
    for table, rows in theirs.items():
        assert ours[table] == rows, table
    assert read_result(output) == read_result(undisturbed)


def commit_of(output: Path) -> Commit:
    commit = OutputFolder(output).last_commit()
    assert commit is not None
    return commit


def checkpoint(output: Path) -> None:
    """What Spark leaves of the batches."""
    for name in ("offsets", "commits"):
        path = output / "checkpoint" / name / str(commit_of(output).spark_batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize("seed", SEEDS)
def test_an_audit_that_is_rebuilt_in_its_midst_has_the_rows_of_one_that_is_not(seed: int, tmp_path: Path) -> None:
    logs = simulated_logs(tmp_path / "logs", seed, "--minutes", MINUTES)
    undisturbed, output = tmp_path / "undisturbed", tmp_path / "output"
    FolderAudit(logs, undisturbed).read(BATCH_BYTES)
    audit = FolderAudit(logs, output)
    total = commit_of(undisturbed).batch
    for part, buckets in ((total // 3, 5), (total // 3, 40)):
        audit.read(BATCH_BYTES, part)
        checkpoint(output)
        known = current(OutputFolder(output))
        rebuilt = rebuild(OutputFolder(output), buckets)
        assert rebuilt.changed == {}
        assert rebuilt.records
        assert current(OutputFolder(output)) == known
    audit.read(BATCH_BYTES)
    assert commit_of(output).bucket_count == 40
    assert commit_of(output).spark_batch == total
    assert_same(output, undisturbed)
