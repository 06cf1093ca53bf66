"""The requests of epochs that never began, and of events that never were, in what an audit has read."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow
import pyarrow.dataset

from audit.report.controller_epochs import epoch_findings
from audit.report.report import cluster_state
from audit.rules.controller_epochs import EPOCH_NEVER_BEGAN, EVENT_NEVER_WAS
from audit.storage.output_folder import OutputFolder
from audit.storage.table_files import TableFile
from audit.storage.table_schemas import RECORDS_TABLE
from tests.audit_corpus.logs import BROKER, SOUND_LOGS, Logs, Record
from tests.audits.log_audits import FolderAudit


class CountingFolder(OutputFolder):
    """Counts how often each file of a table is read."""

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.reads: list[str] = []

    def read_file(
        self,
        file: TableFile,
        columns: Sequence[str] | None = None,
        where: pyarrow.dataset.Expression | None = None,
    ) -> pyarrow.Table:
        self.reads.append(file.name)
        return super().read_file(file, columns, where)


def follow_unknown(records: list[Record]) -> None:
    """Requests that a broker carried out are of two epochs that there were not, and of events that there were not."""
    followed = [record["cause"] for record in records if "controller" in record.get("cause", {})]
    for number, cause in enumerate(followed[-20:]):
        cause.update({"controller_epoch": 7 + number % 2} if number < 12 else {"id": 9_990 + number % 2})


def test_all_requests_that_never_were_are_found_in_one_pass_and_their_first_records_named(tmp_path: Path) -> None:
    logs = Logs(Path(shutil.copytree(SOUND_LOGS, tmp_path / "logs")))
    logs.write_wrongly(BROKER, follow_unknown)
    FolderAudit(logs.folder, tmp_path / "output", buckets=2).read()
    folder = CountingFolder(tmp_path / "output")
    commit = folder.last_commit()
    found = list(epoch_findings(folder, commit, cluster_state(folder, commit), set()))
    assert sorted((f.rule, len(f.records)) for f in found) == [
        (EPOCH_NEVER_BEGAN, 6),
        (EPOCH_NEVER_BEGAN, 6),
        (EVENT_NEVER_WAS, 8),
    ]
    assert sorted(folder.reads) == sorted(file.name for file in folder.table_files(RECORDS_TABLE))


def test_no_records_are_read_where_all_requests_are_known(tmp_path: Path) -> None:
    FolderAudit(SOUND_LOGS, tmp_path / "output", buckets=1).read()
    folder = CountingFolder(tmp_path / "output")
    commit = folder.last_commit()
    assert list(epoch_findings(folder, commit, cluster_state(folder, commit), set())) == []
    assert folder.reads == []
