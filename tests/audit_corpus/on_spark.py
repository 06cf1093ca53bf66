"""The audit of a fault on Spark."""

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from audit.job import run_audit
from audit.options import AuditOptions
from audit.report.report import AuditResult
from tests.audit_corpus.fault import Fault
from tests.audit_corpus.logs import Logs


def audit_on_spark(fault: Fault, sound: Path, folder: Path, session: SparkSession | None = None) -> AuditResult:
    """The result of an audit of a copy of the logs with this fault, in this session or in one of its own."""
    logs = Logs(Path(shutil.copytree(sound, folder / "logs")))
    audit = AuditOptions(once=True, heads=fault.heads(logs))
    fault.apply(logs)
    result = run_audit([logs.folder], folder / "output", audit, session=session)
    if fault.later is not None:
        fault.later(logs)
        result = run_audit([logs.folder], folder / "output", audit, session=session)
    return result
