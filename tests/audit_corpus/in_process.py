"""The audit of a fault in this process: the job's batches without Spark."""

import shutil
from pathlib import Path

from audit.report.report import AuditResult, read_result
from audit.storage.given_heads import add_given
from audit.storage.output_folder import OutputFolder
from tests.audit_corpus.fault import Fault
from tests.audit_corpus.logs import Logs
from tests.audits.log_audits import FolderAudit


def audit_fault(fault: Fault, sound: Path, folder: Path) -> AuditResult:
    """The result of an audit of a copy of the logs with this fault."""
    logs = Logs(Path(shutil.copytree(sound, folder / "logs")))
    heads = fault.heads(logs)
    fault.apply(logs)
    add_given(OutputFolder(folder / "output"), heads, lag_ms=0)
    # One bucket takes half the time of four; that partitions are divided changes nothing is for other tests.
    audit = FolderAudit(logs.folder, folder / "output", buckets=1)
    audit.read()
    if fault.later is not None:
        fault.later(logs)
        audit.read()
    return read_result(folder / "output")
