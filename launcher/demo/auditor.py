"""The audit of a demonstration, as a process beside it: it follows the logs, and concludes when it is told to.

Run as `python -m launcher.demo.auditor FOLDER`. `request.json` in the folder says what to audit. When the file `finish`
appears there, beside the heads of the logs, the process reads what is left, audits the copy with the injected record,
writes `outcome.json` and ends. It ends as well when the process that started it is gone.
"""

import os
import sys
from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import SparkSession

from audit.job import run_audit
from audit.options import AuditOptions
from audit.report.html.page import write_report
from audit.spark.session import start_session
from cluster.model.errors import ClusterError
from deploy.local.java import find_java, spark_environment, user_shim_folder
from launcher.demo.audit import (
    AUDIT_FOLDER,
    FINISH_FILE,
    HEADS_FILE,
    OUTCOME_FILE,
    REPORT_FILE,
    REQUEST_FILE,
    AuditOutcome,
    AuditRequest,
    write_whole,
)
from state_log.heads_file import read_heads_file

_NICENESS: Final = 10
"""The cluster, whose failovers are measured, comes first."""
_TRIGGER_SECONDS: Final = 5.0


def main(folder: Path) -> None:
    """Audit as the request in this folder says, and write the outcome."""
    os.nice(_NICENESS)
    parent = os.getppid()
    request = msgspec.json.decode((folder / REQUEST_FILE).read_bytes(), type=AuditRequest)
    outcome = AuditOutcome()
    try:
        java = find_java()
        os.environ.update(spark_environment(java, user_shim_folder(java)))
        session = start_session(folder)
        try:
            _audit(request, folder, session, parent, outcome)
        finally:
            session.stop()
    except ClusterError as error:
        outcome.failure = str(error)
    write_whole(folder / OUTCOME_FILE, outcome)


def _audit(request: AuditRequest, folder: Path, session: SparkSession, parent: int, outcome: AuditOutcome) -> None:
    """Follow the logs until the end, then audit the copies; `outcome` has what is known so far if this fails."""
    finish = folder / FINISH_FILE

    def is_over() -> bool:
        return finish.exists() or os.getppid() != parent

    logs, output = [Path(name) for name in request.logs], folder / AUDIT_FOLDER
    run_audit(logs, output, AuditOptions(trigger_seconds=_TRIGGER_SECONDS), stop=is_over, session=session)
    if os.getppid() != parent:
        return
    heads = read_heads_file(folder / HEADS_FILE)
    as_written = run_audit(logs, output, AuditOptions(once=True, heads=heads), session=session)
    outcome.verdict, outcome.records, outcome.findings = as_written.verdict, as_written.records, as_written.findings
    outcome.gaps = [f"{gap.what}: {gap.why}" for gap in as_written.incomplete]
    outcome.open_ends = as_written.open_ends
    outcome.html = str(write_report(output, folder / REPORT_FILE))
    copies = [Path(name) for name in request.copies]
    outcome.found = run_audit(
        copies, folder / f"{AUDIT_FOLDER}-of-second-leader", AuditOptions(once=True), session=session
    ).findings


if __name__ == "__main__":
    main(Path(sys.argv[1]))
