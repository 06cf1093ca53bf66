"""What an audit found so far, read from its output folder without Spark."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow.dataset
from msgspec import Struct

from state_log.causes import call_of, calls_by_event, origin_text
from state_log.record import LoggedStateChange

MISSING_RECORDS: Final = "missing-records"
_OF_CAUSES: Final = (
    *("v", "node", "incarnation", "seq", "at_ms", "kind"),
    *("cause", "controller_epoch", "request_id", "principal", "peer"),
)
"""What it takes to find out what led to a record."""


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
    """The first findings, in the order in which they were found; `causes` says what led to each of their records."""
    findings = list(islice(rows(output, "findings"), limit))
    origins = _origins(output, findings)
    for finding in findings:
        finding["causes"] = [f"{name}: {origins[name]}" for name in finding["records"] if name in origins]
    return findings


def _origins(output: Path, findings: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Of the records that these findings name: the request or event that each goes back to, as a text."""
    wanted = {name for finding in findings for name in finding["records"]}
    topics = sorted({finding["topic"] for finding in findings if finding["topic"] is not None})
    if not topics:
        return {}
    timelines = rows(output, "timelines", _OF_CAUSES, pyarrow.dataset.field("topic").isin(topics))
    named: list[LoggedStateChange] = []
    asked: list[LoggedStateChange] = []
    for row in timelines:
        record = msgspec.convert(_without_nulls(row), LoggedStateChange)
        if record.reference in wanted:
            named.append(record)
        if record.principal is not None:
            asked.append(record)
    calls = calls_by_event(asked)
    texts = ((record.reference, origin_text(record, call_of(record, calls))) for record in named)
    return {reference: text for reference, text in texts if text is not None}


def _without_nulls(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_nulls(value) if isinstance(value, dict) else value
        for name, value in row.items()
        if value is not None
    }


def rows(
    output: Path, table: str, columns: Sequence[str] | None = None, where: pyarrow.dataset.Expression | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of one table of the output, batch by batch; none where the table was never written.

    Only batches that were written to their end count: Spark marks those. Columns that a batch of an earlier version
    does not have are left out of its rows.
    """
    for batch in sorted((output / table).glob("batch=*")):
        if not (batch / "_SUCCESS").exists():
            continue
        dataset = pyarrow.dataset.dataset(batch, format="parquet")
        present = None if columns is None else [name for name in columns if name in dataset.schema.names]
        for part in dataset.to_batches(columns=present, filter=where):
            yield from part.to_pylist()
