"""An audit of folders of logs in this process: the job's batches without Spark."""

from math import inf
from pathlib import Path

from audit.batches.batch import check_rows, commit_batch
from audit.batches.cluster_state import ends_read
from audit.batches.decisions import ReplayStage
from audit.reading.changed_files import ReadFiles, is_fault, new_faults, to_offsets
from audit.reading.log_files import LogFiles, Position, advance, ends, ranges
from audit.reading.source import UTC, faults_row, read_ranges
from audit.records.sealed_runs import OPEN_ROWS
from audit.report.report import AuditResult, read_result
from audit.rules.limits import Limits
from audit.storage.commits import BUCKETS, Commit
from audit.storage.committed_state import OutputError
from audit.storage.file_store import Location
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import VERSION


def audit_folder(
    logs: Path, output: Location, batch_bytes: int | None = None, zone: str = UTC, limits: Limits | None = None
) -> AuditResult:
    """Read all logs in batches of about so many bytes; returns the result. `output` is a new folder."""
    audit = FolderAudit(logs, output, zone, limits)
    audit.read(batch_bytes)
    return read_result(output)


class FolderAudit:
    """An audit that goes on where it stopped."""

    def __init__(
        self,
        logs: Path,
        output: Location,
        zone: str = UTC,
        limits: Limits | None = None,
        *,
        buckets: int = BUCKETS,
        open_rows: int = OPEN_ROWS,
        replay: ReplayStage | None = None,
    ) -> None:
        """`limits`, `buckets`, `open_rows`: of the first batch."""
        self._replay = replay
        limits = limits or Limits()
        self._first = Commit(VERSION, -1, "", {}, limits=limits, bucket_count=buckets, open_rows=open_rows)
        self._folder, self._files, self._zone = OutputFolder(output), LogFiles([logs]), zone
        self._read_files = ReadFiles(0)
        self._positions: dict[str, Position] = {}

    def restart(self) -> None:
        """Continue as another process would: with what is in the output and in the offsets."""
        self._read_files = ReadFiles(self._folder.modified_ns(), ends_read(self._folder))

    def read(self, batch_bytes: int | None = None, batches: float = inf) -> None:
        """Read what is there, or so many batches of it, and look at all files that were read."""
        while batches and (reached := self._next(batch_bytes)) != self._positions:
            batches -= 1
            wanted = ranges(self._files.logs(), self._positions, reached)
            before = self._folder.last_commit() or self._first
            rows_read = list(read_ranges(wanted, before.bucket_count, self._zone))
            faults = new_faults(self._positions, reached)
            rows_read += [faults_row(before.bucket_count, faults)] if faults else []
            rows = [row for batch in rows_read for row in batch.to_pylist()]
            results = list(check_rows(self._folder, before, rows))
            for result in results:
                if result.error:
                    raise OutputError(result.error)
            commit_batch(self._folder, before, results, replay=self._replay)
            self._positions = reached

    def _next(self, batch_bytes: int | None) -> dict[str, Position]:
        logs = self._files.logs()
        read = {log: position for log, position in self._positions.items() if not is_fault(log)}
        faults = to_offsets(self._read_files.faults(logs, self._files.ignored, read, everything=True))
        return faults | advance(self._positions, ends(logs, self._positions), batch_bytes)
