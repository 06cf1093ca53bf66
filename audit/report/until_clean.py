"""When an audit that follows the logs may stop: once what was there at its start is read and the verdict is clean."""

from collections.abc import Sequence
from pathlib import Path

from audit.reading.log_files import LogFiles, advance, ends
from audit.report.backlog import positions_of
from audit.report.report import CLEAN, AuditResult
from audit.storage.file_store import Location
from audit.storage.output_folder import OutputFolder


class UntilClean:
    """Remembers the ends of the logs; `reached` compares them with what a result rests on."""

    def __init__(self, log_dirs: Sequence[Path], output: Location) -> None:
        self._folder = OutputFolder(output)
        self._target = advance({}, ends(LogFiles(log_dirs).logs(), {}), None)

    def reached(self, result: AuditResult) -> bool:
        """Whether everything was read, and nothing is wrong or missing."""
        commit = self._folder.last_commit()
        if result.verdict != CLEAN or commit is None:
            return False
        read = positions_of(commit)
        return all(log in read and read[log] >= end for log, end in self._target.items())
