"""Findings as rows of their table."""

from collections.abc import Sequence

import msgspec
import pyarrow

from audit.records.findings import AuditFinding
from audit.storage.table_schemas import FINDINGS


def findings_table(findings: Sequence[AuditFinding]) -> pyarrow.Table:
    """As the audit writes them."""
    return pyarrow.Table.from_pylist([msgspec.to_builtins(finding) for finding in findings], FINDINGS)
