"""What an audit found so far, read from its output folder without Spark."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow.dataset
from msgspec import Struct

MISSING_RECORDS: Final = "missing-records"


class AuditResult(Struct, frozen=True):
    """The sum over every run on the same output; `findings` counts by rule id.

    `expected` is the sum over all incarnations of last number + 1; fewer `records` are a finding of their own.
    """

    verdict: str
    records: int
    expected: int
    quarantined: int
    findings: dict[str, int]
    incarnations: int


class IncarnationProgress(Struct, frozen=True):
    """One incarnation as far as the audit has read it: its last number, and how many of its records there were."""

    node: str
    incarnation: str
    last_seq: int
    records: int


def read_result(output: Path) -> AuditResult:
    """The verdict on everything that was read so far; an audit of nothing is clean."""
    findings = Counter(row["rule"] for row in rows(output, "findings", ["rule"]))
    read = read_incarnations(output)
    records = sum(i.records for i in read)
    expected = sum(i.last_seq + 1 for i in read)
    if records != expected:
        findings[MISSING_RECORDS] += 1
    return AuditResult(
        verdict="findings" if findings else "clean",
        records=records,
        expected=expected,
        quarantined=sum(1 for _ in rows(output, "quarantine", ["offset"])),
        findings=dict(sorted(findings.items())),
        incarnations=len(read),
    )


def read_incarnations(output: Path) -> list[IncarnationProgress]:
    """The newest state of each incarnation, sorted by node and incarnation."""
    newest: dict[tuple[str, str], IncarnationProgress] = {}
    for row in rows(output, "incarnations"):
        now = IncarnationProgress(row["node"], row["incarnation"], row["last_seq"], row["records"])
        key = (now.node, now.incarnation)
        known = newest.get(key)
        if known is None or (now.last_seq, now.records) > (known.last_seq, known.records):
            newest[key] = now
    return [newest[key] for key in sorted(newest)]


def read_findings(output: Path, limit: int) -> list[dict[str, Any]]:
    """The first findings, in the order in which they were found."""
    return list(islice(rows(output, "findings"), limit))


def rows(output: Path, table: str, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Rows of one table of the output, batch by batch; none where the table was never written.

    Only batches that were written to their end count: Spark marks those.
    """
    for batch in sorted((output / table).glob("batch=*")):
        if not (batch / "_SUCCESS").exists():
            continue
        for part in pyarrow.dataset.dataset(batch, format="parquet").to_batches(columns=columns):
            yield from part.to_pylist()
