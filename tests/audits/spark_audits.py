"""An audit by the job itself, in a Spark session that is there."""

from pathlib import Path

from pyspark.sql import SparkSession

from audit.job import run_audit
from audit.options import AuditOptions
from audit.report.report import AuditResult


def audit(spark: SparkSession, logs: Path, output: Path) -> AuditResult:
    """Read what is there of these logs, and was not read by an earlier audit with this output."""
    return run_audit([logs], output, AuditOptions(once=True), session=spark)
