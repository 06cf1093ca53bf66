"""The timeline of each partition: who led it with which ISR, from when until when, and what the cause was."""

from typing import Final

import numpy
import pyarrow
import pyarrow.compute

from audit.records.findings import HOLDS, WITHDRAWN
from audit.records.sorted_runs import SortedRun
from audit.records.vectors import ABSENT, Flags, Keys, Longs, keys, longs, mixed
from audit.rules.deleted_partitions import DELETIONS, deleted_at
from audit.rules.durations import deletions
from audit.rules.intervals import Intervals
from audit.rules.partition_windows import earlier_window, windows
from audit.rules.recreations import created_anew
from audit.rules.rule import BucketBatch
from audit.rules.subjects import Subjects
from audit.storage.table_schemas import TIMELINES


def revised_timelines(batch: BucketBatch) -> pyarrow.Table:
    """The rows that are new, differ, or hold no more since the batch, as TIMELINES."""
    if not len(created_anew(batch).new):
        return _revised(batch)
    intervals = earlier_window(batch).intervals
    until, every = _until(intervals, DELETIONS.schema.empty_table()), numpy.ones(len(intervals.key), bool)
    return pyarrow.concat_tables([_revised(batch), _rows(intervals, until, every, batch.subjects, WITHDRAWN)])


def _revised(batch: BucketBatch) -> pyarrow.Table:
    (before, now), deleted = windows(batch), deletions(batch)
    until = _until(now.intervals, deleted.now)
    content = _contents(now.intervals, until)
    earlier = _contents(before.intervals, _until(before.intervals, deleted.before))
    known = SortedRun(pyarrow.table({"key": before.intervals.key, "sub": before.intervals.sub}))
    place = known.find(now.intervals.key, now.intervals.sub)
    was = place.first < place.end
    same = numpy.zeros(len(content), bool)
    same[was] = content[was] == earlier[place.first[was]]
    return _rows(now.intervals, until, now.checked & ~same, batch.subjects, HOLDS)


def _rows(intervals: Intervals, until: Longs, chosen: Flags, subjects: Subjects, status: str) -> pyarrow.Table:
    """The chosen states as TIMELINES; `until` and `chosen` are aligned with the intervals."""
    which = numpy.flatnonzero(chosen)
    states = subjects.named(intervals.rows.take(which))
    taken_ms = intervals.taken_longs("at_ms")[which]
    elected = intervals.elected[which]
    columns = {
        **{name: states[name] for name in ("topic", "topic_id", "partition", "leader", "leader_epoch", "isr")},
        **{name: states[name] for name in ("replicas", "cause_event", "cause_id", "reason", "at_ms")},
        "partition_epoch": states["sub"],
        "isr_size": pyarrow.array(intervals.isr.lengths[which]),
        "min_insync_replicas": _numbers(intervals.min_isr[which]),
        "controller": states["node"],
        "controller_epoch": states["first_controller_epoch"],
        "from_ms": states["at_ms"],
        "until_ms": _numbers(until[which]),
        "elected": pyarrow.array(elected),
        "unclean": pyarrow.array(intervals.unclean[which]),
        "leaderless_from_ms": _numbers(_leaderless_from(intervals)[which]),
        "taken_ms": _numbers(numpy.where(elected, taken_ms, ABSENT)),
        "record": _references(states),
        "taken_record": _taken_references(intervals, which, elected & (taken_ms != ABSENT)),
        "status": pyarrow.array([status]).take(pyarrow.array(numpy.zeros(len(which), numpy.int64))),
    }
    return pyarrow.table([columns[name].cast(kind) for name, kind in _TYPES.items()], schema=TIMELINES)


def _until(intervals: Intervals, deletions: pyarrow.Table) -> Longs:
    """Find when the next state was written or the partition deleted, in ms since 1970; ABSENT: neither. Aligned."""
    until = deleted_at(deletions, intervals.key)
    until[:-1] = numpy.where(intervals.goes_on[:-1], intervals.at_ms[1:], until[:-1])
    return numpy.where(until == ABSENT, ABSENT, numpy.maximum(until, intervals.at_ms))


def _leaderless_from(intervals: Intervals) -> Longs:
    """Find when the states before an election began to have no leader; ABSENT for other rows. Aligned."""
    found = numpy.full(len(intervals.key), ABSENT)
    after = numpy.flatnonzero(intervals.elected[1:] & intervals.follows[1:] & intervals.leaderless[:-1]) + 1
    found[after] = intervals.at_ms[intervals.first_of_same(intervals.leaderless)[after - 1]]
    return found


def _contents(intervals: Intervals, until: Longs) -> Keys:
    """A hash of what each row says."""
    taken_ms = numpy.where(intervals.elected, intervals.taken_longs("at_ms"), ABSENT)
    taken_seq = numpy.where(intervals.elected, intervals.taken_longs("seq"), ABSENT)
    content = keys(intervals.rows["content"])
    for values in (
        *(intervals.at_ms, longs(intervals.rows["seq"]), longs(intervals.rows["first_controller_epoch"])),
        *(intervals.min_isr, until, _leaderless_from(intervals), taken_ms, taken_seq),
        intervals.elected + 2 * intervals.unclean,
    ):
        content = mixed(content + values.astype(numpy.uint64))
    return content


def _numbers(values: Longs) -> pyarrow.Array:
    return pyarrow.array(values, pyarrow.int64(), mask=values == ABSENT)


def _references(rows: pyarrow.Table) -> pyarrow.ChunkedArray:
    parts = (rows[name].cast(pyarrow.string()) for name in ("node", "incarnation", "seq"))
    return pyarrow.compute.binary_join_element_wise(*parts, "/")


def _taken_references(intervals: Intervals, which: Longs, present: Flags) -> pyarrow.ChunkedArray:
    if intervals.taken is None:
        return pyarrow.nulls(len(which), pyarrow.string())
    references = _references(intervals.taken.take(which))
    return pyarrow.compute.if_else(pyarrow.array(present), references, None)


_TYPES: Final = dict(zip(TIMELINES.names, TIMELINES.types, strict=True))
