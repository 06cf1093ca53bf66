"""What still holds at the end of the logs: no leader, too few replicas in sync, a reassignment or deletion under way.

How long so far is known in two ways: by the newest record of a controller, from which follows a finding when it is too
long; and by the clock of whoever asks, which alone advances while nothing is logged. That is no finding and changes no
verdict: the logs may only have been read late. It is there to alert on.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from audit.batches.cluster_state import ClusterState
from audit.records.findings import AuditFinding
from audit.rules.durations import LEADERLESS, OPEN, UNDER_MIN_ISR
from audit.rules.limits import Limits
from audit.rules.unfinished_work import DELETION_STALLED, REASSIGNING, REASSIGNMENT_STALLED, open_deletions
from audit.storage.commits import Commit
from audit.storage.output_folder import OutputFolder
from state_log.causes import utc_text

_TEXTS: Final = {
    LEADERLESS: "it has had no leader",
    UNDER_MIN_ISR: "it has had fewer replicas in sync than min.insync.replicas",
    REASSIGNMENT_STALLED: "its reassignment has been under way",
    DELETION_STALLED: "its deletion has been under way",
}


class LastingCondition(Struct, frozen=True):
    """Holds what `rule` is about, and that has not ended: since when, and how long by the newest record, and until
    now.
    """

    rule: str
    subject: str
    record: str
    topic: str
    topic_id: str | None
    partition: int | None
    since_ms: int
    by_records_ms: int
    until_now_ms: int


def limit_of(rule: str, limits: Limits) -> int:
    """The time that a condition may last, in ms."""
    return {
        LEADERLESS: limits.leaderless_ms,
        UNDER_MIN_ISR: limits.under_min_isr_ms,
        REASSIGNMENT_STALLED: limits.reassignment_ms,
        DELETION_STALLED: limits.deletion_ms,
    }[rule]


def lasting_conditions(
    folder: OutputFolder, commit: Commit | None, state: ClusterState, now_ms: int
) -> list[LastingCondition]:
    """The conditions that last longer than their limit by either clock, the longest first. Raises OutputError."""
    if commit is None:
        return []
    newest = max((ms for node, ms in state.last_at_ms.items() if node.startswith("controller-")), default=0)
    found = [_condition(row, newest, now_ms) for row in _open_rows(folder, commit, state)]
    late = [c for c in found if max(c.by_records_ms, c.until_now_ms) > limit_of(c.rule, commit.limits)]
    return sorted(late, key=lambda c: (-c.until_now_ms, c.rule, c.subject))


def lasting_findings(folder: OutputFolder, commit: Commit | None, state: ClusterState) -> list[AuditFinding]:
    """The findings about conditions that have lasted too long by the records alone."""
    if commit is None:
        return []
    return [
        AuditFinding(
            c.rule,
            c.subject,
            f"{_TEXTS[c.rule]} for {c.by_records_ms / 1000:.0f} s, since {utc_text(c.since_ms)}, and still at the end "
            f"of the logs: more than {limit_of(c.rule, commit.limits) // 1000} s",
            (c.record,),
            topic=c.topic,
            topic_id=c.topic_id,
            partition=c.partition,
            at_ms=c.since_ms,
        )
        for c in lasting_conditions(folder, commit, state, 0)
    ]


def _open_rows(folder: OutputFolder, commit: Commit, state: ClusterState) -> Iterator[Mapping[str, Any]]:
    for bucket in commit.buckets.values():
        for table in (OPEN, REASSIGNING):
            for run in folder.runs(bucket.runs.get(table.name, ())):
                yield from run.rows.to_pylist()
    yield from open_deletions(state.deletions)


def _condition(row: Mapping[str, Any], newest_ms: int, now_ms: int) -> LastingCondition:
    name = row["topic"] if row["partition"] is None else f"{row['topic']}-{row['partition']}"
    name = name if row["topic_id"] is None else f"{name} ({row['topic_id']})"
    is_state = row["rule"] in {LEADERLESS, UNDER_MIN_ISR}
    return LastingCondition(
        rule=row["rule"],
        subject=f"{name} partition-epoch {row['sub']}" if is_state else f"{name} record {row['record']}",
        record=row["record"],
        topic=row["topic"],
        topic_id=row["topic_id"],
        partition=row["partition"],
        since_ms=row["since_ms"],
        by_records_ms=row["elapsed_ms"] + max(0, newest_ms - row["at_ms"]),
        until_now_ms=max(0, now_ms - row["since_ms"]),
    )
