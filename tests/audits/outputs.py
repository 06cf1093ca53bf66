"""Output folders of audits: what they hold, and what Spark would have left beside it."""

from pathlib import Path

from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import QUARANTINE_TABLE, RECORDS_TABLE, TABLES


def rows_that_hold(output: Path) -> dict[str, list[str]]:
    """By table, in an order that does not depend on how they were written."""
    folder = OutputFolder(output)
    found = {name: sorted(map(str, folder.current_rows(name))) for name, table in TABLES.items() if table.is_revised}
    return found | {name: sorted(map(str, folder.rows(name))) for name in (RECORDS_TABLE, QUARANTINE_TABLE)}


def leave_checkpoint(output: Path) -> None:
    """The files by which Spark knows its batches."""
    commit = OutputFolder(output).last_commit()
    assert commit is not None
    for name in ("offsets", "commits"):
        path = output / "checkpoint" / name / str(commit.spark_batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
