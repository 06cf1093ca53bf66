"""The offsets that a broker records with a role: its high watermark is within its log."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow

from audit.records.findings import AuditFinding, RuleViolation
from audit.records.vectors import ABSENT, is_one_of, keys, longs
from audit.rules.rule import REFERENCE, BucketBatch, Explanation, Rule
from audit.rules.subjects import reference
from state_log.record import Kind

HIGH_WATERMARK_WITHIN_LOG: Final = "high-watermark-within-log"


def _check(batch: BucketBatch) -> list[AuditFinding]:
    rows = batch.rows
    end, high_watermark = longs(rows["log_end_offset"]), longs(rows["high_watermark"])
    above = (end != ABSENT) & (high_watermark > end) & (keys(rows["key"]) != 0)
    above &= is_one_of(rows["kind"], [Kind.ROLE.value])
    part = rows.select(RULE.reads).filter(pyarrow.array(above))
    return [batch.subjects.finding(_violation(row)) for row in part.to_pylist()]


def _violation(row: Mapping[str, Any]) -> RuleViolation:
    name = reference(row)
    message = f"the high watermark {row['high_watermark']} is above the log end offset {row['log_end_offset']}"
    return RuleViolation(HIGH_WATERMARK_WITHIN_LOG, row["key"], f"record {name}", message, (name,), row["at_ms"])


RULE: Final = Rule(
    explains={
        HIGH_WATERMARK_WITHIN_LOG: Explanation(
            "critical",
            "The high watermark that a broker records with a role is not above the end of its log.",
            "the broker's log: committed records are not in it, so the disk lost them, or a checkpoint is wrong",
            kafka="the log does not say offsets",
        )
    },
    reads=("key", "kind", "high_watermark", "log_end_offset", *REFERENCE),
    check=_check,
)
