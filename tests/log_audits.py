"""An audit of folders of logs in this process: the job's batches without Spark."""

from pathlib import Path

from audit.batch import BUCKETS, check_rows, commit_batch
from audit.limits import Limits
from audit.log_files import LogFiles, Position, advance, ends, ranges
from audit.output_folder import VERSION, Commit, OutputFolder
from audit.report import AuditResult, read_result
from audit.source import read_ranges


def audit_folder(logs: Path, output: Path, batch_bytes: int | None = None, limits: Limits | None = None) -> AuditResult:
    """Read all logs in batches of about so many bytes; returns the result. `output` is a new folder."""
    folder, files = OutputFolder(output), LogFiles([logs])
    positions: dict[str, Position] = {}
    output.mkdir()
    number = 0
    while (reached := advance(positions, ends(files.logs(), positions), batch_bytes)) != positions:
        batches = read_ranges(ranges(files.logs(), positions, reached), BUCKETS)
        rows = [row for batch in batches for row in batch.to_pylist()]
        before = folder.last_commit() or Commit(VERSION, -1, "", {}, limits=limits or Limits())
        results = list(check_rows(folder, before.buckets, number, rows, before.limits))
        commit_batch(folder, before, number, results)
        positions, number = reached, number + 1
    return read_result(output)
