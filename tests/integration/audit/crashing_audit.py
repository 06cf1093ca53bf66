"""Runs an audit that is killed at a point of its first batch after the last one: `crashing_audit.py POINT LOGS OUTPUT`.

Points: `source` (a task has read half of a file), `state` (a task has written one file of the state), `table` (a task
has written one file of a table), `tables` (a batch has written all, and not committed), `commit` (it has, but Spark's
checkpoint does not know), `never`. All processes of the audit end by SIGKILL, those of Spark included. `worker`: of
these only the Python process of the first task does, and `workers`: those of all tasks.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

import audit.batches.batch
import audit.job
from audit.job import run_audit
from audit.options import AuditOptions
from audit.reading.source import StateChangeReader, StateChangeSource
from audit.storage.commits import Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.state_files import StateFile

BATCH_BYTES = 30_000
OPEN_ROWS = 40
"""Few enough that old rows are sealed in most batches."""


def die() -> None:
    """End all processes of the session at once. Spark's workers have a process group of their own."""
    session = [int(path.name) for path in Path("/proc").glob("[0-9]*") if _session(int(path.name)) == os.getsid(0)]
    for process in sorted(session, key=lambda number: number == os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _session(process: int) -> int:
    try:
        return os.getsid(process)
    except ProcessLookupError:
        return -1


class DyingReader(StateChangeReader):
    """Dies behind the first of its rows."""

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        rows = super().read(partition)
        yield next(rows)
        die()


class DyingSource(StateChangeSource):
    """Spark takes this class to its tasks by value, for it is of this script."""

    def streamReader(self, schema: StructType) -> StateChangeReader:  # noqa: N802
        reader = super().streamReader(schema)
        reader.__class__ = DyingReader
        return reader


def dying_checker(of: type, method: str) -> Callable[..., Any]:
    """The function of the tasks, which dies after one call of this method."""
    checker = audit.batches.batch._checker

    def of_batch(*arguments: Any) -> Any:
        check = checker(*arguments)

        def dying_check(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
            original = getattr(of, method)

            def call_and_die(self: object, *given: Any) -> None:
                original(self, *given)
                die()

            setattr(of, method, call_and_die)
            yield from check(batches)

        return dying_check

    return of_batch


def killed_checker(logs: Path, *, always: bool) -> Callable[..., Any]:
    """The function of the tasks, whose process is killed once it has rows; that of the first alone unless `always`."""
    checker, mark = audit.batches.batch._checker, logs.with_name(f"{os.getpid()}.killed")

    def of_batch(*arguments: Any) -> Any:
        check = checker(*arguments)

        def killed_check(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
            if always or not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield from check(batches)

        return killed_check

    return of_batch


def main(point: str, logs: Path, output: Path) -> None:
    commit_batch = OutputFolder.commit

    def commit_and_die(self: OutputFolder, commit: Commit) -> None:
        if point == "commit":
            commit_batch(self, commit)
        die()

    match point:
        case "source":
            audit.job.StateChangeSource = DyingSource  # type: ignore[misc]
        case "state":
            audit.batches.batch._checker = dying_checker(StateFile, "write")
        case "table":
            audit.batches.batch._checker = dying_checker(OutputFolder, "write_rows")
        case "worker" | "workers":
            audit.batches.batch._checker = killed_checker(logs, always=point == "workers")
        case "tables" | "commit":
            OutputFolder.commit = commit_and_die  # type: ignore[method-assign]
    options = AuditOptions(once=True, batch_bytes=BATCH_BYTES, open_rows=OPEN_ROWS)
    run_audit([logs], output, options, say=lambda text: print(text, file=sys.stderr))


if __name__ == "__main__":
    main(sys.argv[1], *map(Path, sys.argv[2:]))
