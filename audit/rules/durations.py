"""Rules about how long and how often: no leader, too few replicas in sync, a leader or an ISR that never comes to rest.

What has ended is a finding of the batch that shows it; what still holds at the end of the logs is in the table `OPEN`,
and `audit.report.open_conditions` judges it.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation, changes
from audit.records.vectors import Flags, Longs, group_starts, keys
from audit.rules.deleted_partitions import DELETIONS, KnownDeletions, deletions_among
from audit.rules.leaderships_taken import TAKEN_READ
from audit.rules.limits import Limits
from audit.rules.partition_states import STATES_READ
from audit.rules.partition_windows import Window, earlier_window, windows
from audit.rules.recreations import compared
from audit.rules.rule import KEY, Awaited, BucketBatch, Explanation, Rule, once
from audit.rules.subjects import NAMED, Subjects, reference_at
from state_log.causes import utc_text

LEADERLESS: Final = "leaderless-too-long"
UNDER_MIN_ISR: Final = "under-min-isr-too-long"
LEADER_FLAPPING: Final = "leader-flapping"
ISR_FLAPPING: Final = "isr-flapping"
_NAMED_MAX: Final = 20
OPEN_UNNAMED: Final = pyarrow.schema(
    {
        **KEY,
        "rule": pyarrow.string(),
        "since_ms": pyarrow.int64(),
        "elapsed_ms": pyarrow.int64(),
        "at_ms": pyarrow.int64(),
        "record": pyarrow.string(),
    }
)
"""Conditions that still hold in the newest state of a partition: `sub` is the partition epoch since which, `record` the
state's reference, `elapsed_ms` the time up to the newest state, which is of `at_ms`.
"""
OPEN_SCHEMA: Final = pyarrow.schema([*OPEN_UNNAMED, *NAMED])


class _Condition(NamedTuple):
    """The states that have it (aligned with a window's intervals), and how long in ms, or how often, it may be."""

    rule: str
    flags: Flags
    most: int
    text: str


@once
def deletions(batch: BucketBatch) -> KnownDeletions:
    """The deletions of the partitions that the batch touches."""
    return deletions_among(batch, windows(batch).now.intervals.key)


def _durations(window: Window, limits: Limits, subjects: Subjects) -> Iterator[AuditFinding]:
    """Find all violations in a window."""
    of = window.intervals
    too_few = "had fewer replicas in sync than min.insync.replicas"
    lasting = (
        _Condition(LEADERLESS, of.leaderless, limits.leaderless_ms, "had no leader"),
        _Condition(UNDER_MIN_ISR, of.under_min_isr, limits.under_min_isr_ms, too_few),
    )
    repeated = (
        _Condition(LEADER_FLAPPING, of.leader_changes, limits.leader_changes, "the leader changed"),
        _Condition(ISR_FLAPPING, of.isr_shrinks, limits.isr_shrinks, "the ISR lost a member"),
    )
    for condition in lasting:
        yield from (subjects.finding(violation) for violation in _ended(window, condition))
    for condition in repeated:
        yield from (subjects.finding(violation) for violation in _series(window, condition, limits.calm_ms))


def _still_open(window: Window, subjects: Subjects) -> pyarrow.Table:
    """Find what holds in the newest states, as OPEN_SCHEMA."""
    of = window.intervals
    rows: list[dict[str, Any]] = []
    newest = _newest(window)
    for rule, flags in ((LEADERLESS, of.leaderless), (UNDER_MIN_ISR, of.under_min_isr)):
        firsts = of.first_of_same(flags)
        for row in numpy.flatnonzero(newest & flags).tolist():
            first = int(firsts[row])
            rows.append(
                {
                    "key": int(of.key[row]),
                    "sub": int(of.sub[first]),
                    "rule": rule,
                    "since_ms": int(of.at_ms[first]),
                    "elapsed_ms": max(0, int(of.at_ms[row] - of.at_ms[first])),
                    "at_ms": int(of.at_ms[row]),
                    "record": reference_at(of.rows, first),
                }
            )
    return subjects.named(pyarrow.Table.from_pylist(rows, OPEN_UNNAMED)) if rows else OPEN_SCHEMA.empty_table()


def _open(batch: BucketBatch) -> pyarrow.Table:
    before, window, gone = compared(batch.awaited(OPEN), batch), windows(batch).now, keys(deletions(batch).now["key"])
    newest = window.intervals.key[_newest(window)]
    kept = before.filter(pyarrow.array(~numpy.isin(keys(before["key"]), numpy.union1d(newest, gone))))
    now = _still_open(window, batch.subjects)
    return pyarrow.concat_tables([kept, now.filter(pyarrow.array(~numpy.isin(keys(now["key"]), gone)))])


OPEN: Final = Awaited("open", OPEN_SCHEMA, _open)


def _check(batch: BucketBatch) -> list[AuditFinding]:
    before, now = (_durations(window, batch.limits, batch.subjects) for window in windows(batch))
    return changes(before, now)


def _newest(window: Window) -> Flags:
    """The newest states of partitions, where they are checked; aligned with the window's intervals."""
    return numpy.asarray(~window.intervals.goes_on & window.checked, bool)


def _ended(window: Window, condition: _Condition) -> Iterator[RuleViolation]:
    rule, flags, limit_ms, text = condition
    of = window.intervals
    firsts = of.first_of_same(flags)
    ends = numpy.flatnonzero(~flags[1:] & flags[:-1] & of.follows[1:] & window.checked[:-1]) + 1
    lasted = numpy.maximum(0, of.at_ms[ends] - of.at_ms[firsts[ends - 1]])
    for end, ms in zip(ends[lasted > limit_ms].tolist(), lasted[lasted > limit_ms].tolist(), strict=True):
        first = int(firsts[end - 1])
        since = utc_text(int(of.at_ms[first]))
        message = f"it {text} for {ms / 1000:.0f} s, from {since} on: more than {limit_ms // 1000} s"
        records = reference_at(of.rows, first), reference_at(of.rows, end)
        subject = f"partition-epoch {of.sub[first]}"
        yield RuleViolation(rule, int(of.key[end]), subject, message, records, int(of.at_ms[end]))


def _series(window: Window, condition: _Condition, calm_ms: int) -> Iterator[RuleViolation]:
    rule, flags, most, text = condition
    of = window.intervals
    changed = numpy.flatnonzero(flags & window.checked)
    starts = group_starts(of.key[changed], _parts(of.time[changed], calm_ms))
    ends = numpy.append(starts[1:], len(changed))[: len(starts)]
    many = ends - starts > most
    for start, end in zip(starts[many].tolist(), ends[many].tolist(), strict=True):
        rows = changed[start:end]
        first, last = int(rows[0]), int(rows[-1])
        ms = int(of.time[last] - of.time[first])
        message = f"{text} {len(rows)} times within {ms / 1000:.0f} s, never {calm_ms // 1000} s apart"
        records = tuple(reference_at(of.rows, row) for row in rows[:_NAMED_MAX].tolist())
        subject = f"partition-epoch {of.sub[first]}"
        yield RuleViolation(rule, int(of.key[first]), subject, message, records, int(of.at_ms[last]))


def _parts(time: Longs, calm_ms: int) -> Longs:
    """Numbers that grow where two neighbouring times are further apart; aligned with `time`."""
    part = numpy.zeros(len(time), numpy.int64)
    part[1:] = numpy.cumsum(time[1:] - time[:-1] > calm_ms)
    return part


RULE: Final = Rule(
    explains={
        LEADERLESS: Explanation(
            "error",
            "No partition is without a leader for longer than the limit.",
            "which brokers of its ISR were live",
            kafka="INFO",
        ),
        UNDER_MIN_ISR: Explanation(
            "error",
            "No partition has fewer replicas in sync than `min.insync.replicas` for longer than the limit.",
            "the followers that fell out of the ISR: their brokers, disks and network",
            kafka="the log does not say what `min.insync.replicas` is",
        ),
        LEADER_FLAPPING: Explanation(
            "error",
            "The leader of a partition does not change again and again, but for elections that somebody asked for.",
            "what brokers the leaders were, and whether these crash or lose their sessions",
            kafka="INFO",
        ),
        ISR_FLAPPING: Explanation(
            "error",
            "The ISR of a partition does not lose members again and again while its leader stays.",
            "the followers that come and go: their load, and `replica.lag.time.max.ms`",
            kafka="TRACE",
        ),
    },
    reads=(*STATES_READ, *TAKEN_READ),
    check=_check,
    keeps=(DELETIONS,),
    awaits=(OPEN,),
    withdraw=lambda batch: changes(_durations(earlier_window(batch), batch.limits, batch.subjects), ()),
)
