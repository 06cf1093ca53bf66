"""The states of a partition that are checked again when new ones arrive: those from one calm time to the next.

Rules about time count states together: those without a leader, those in which the leader changes again and again. What
is on the other side of a calm time (`Intervals.calm`) is not counted with them. So a batch reads as many states as the
rules need, not all that a partition ever had, and what it finds does not depend on where the batch began.
"""

from typing import NamedTuple

import numpy
import pyarrow

from audit.records.orders import sorted_order
from audit.records.sorted_runs import HIGHEST, NOTHING, Runs, SortedRun, expand, gather, joined
from audit.records.vectors import ABSENT, Flags, Keys, Longs, group_starts, keys, longs, unique_pairs
from audit.rules.deleted_partitions import DELETIONS
from audit.rules.intervals import Intervals
from audit.rules.leaderships_taken import TAKEN, reduce_taken
from audit.rules.partition_states import WRITTEN, Groups
from audit.rules.recreations import compared, earlier
from audit.rules.rule import BucketBatch, once

_FIRST_REACH, _GROWTH = 3, 8


class Window(NamedTuple):
    """States of some partitions with those beside them.

    `checked`: the rows of `intervals` about which there may be findings, aligned with these; the others are the states
    next to them.
    """

    intervals: Intervals
    checked: Flags


class Windows(NamedTuple):
    """Holds what there was to check about the partitions that a batch touches, and what there is with it.

    Both have the same partitions and check the same range of partition epochs of each, so that what is found in `now`
    and not in `before` is new. The rows of the two are not aligned: `now` has the new states between the others.
    """

    before: Window
    now: Window


class _Touched(NamedTuple):
    """Partitions with something new, sorted by `key`, each once; all columns are aligned.

    `low`, `high`: the lowest and the highest partition epoch with something new. `within_epoch`: whether it is about a
    whole leader epoch; then a window does not end within one.
    """

    key: Keys
    low: Longs
    high: Longs
    within_epoch: Flags

    def at(self, rows: Longs) -> "_Touched":
        """Take those in these rows."""
        return _Touched(self.key[rows], self.low[rows], self.high[rows], self.within_epoch[rows])


@once
def windows(batch: BucketBatch) -> Windows:
    """The windows around the states, leaderships and deletions that a batch adds."""
    states, new, calm_ms = batch.runs(WRITTEN), batch.added(WRITTEN), batch.limits.calm_ms
    taken, new_taken = batch.runs(TAKEN), batch.added(TAKEN)
    touched = _touched(new, _changed(taken, new_taken), keys(compared(batch.added(DELETIONS), batch)["key"]))
    low, high = numpy.full(len(touched.key), NOTHING), numpy.full(len(touched.key), HIGHEST)
    edge_low, edge_high = low.copy(), high.copy()
    active, reach = numpy.arange(len(touched.key)), _FIRST_REACH
    floors = states.floors(touched.key)
    # What is sealed is only read where something is new within it, or nothing above it is calm.
    sealed = touched.low <= floors
    while True:
        part = touched.at(active)
        low[active], high[active] = _reached(states, part, reach, sealed[active])
        known = _range(states, part.key, low[active], high[active])
        before = _window(known, taken, None)
        first, last = _edges(before, part, calm_ms)
        edge_low[active], edge_high[active] = first, last
        unbounded = (first == NOTHING) & (low[active] != NOTHING) | (last == HIGHEST) & (high[active] != HIGHEST)
        if not unbounded.any():
            break
        sealed[active] |= unbounded & (low[active] == floors[active])
        active, reach = active[unbounded], reach * _GROWTH
    if len(active) < len(touched.key):
        known = _range(states, touched.key, low, high)
        before = _window(known, taken, None)
    now = _window(pyarrow.concat_tables([known, new]), taken, new_taken)
    return Windows(*(Window(found, _within(found, touched.key, edge_low, edge_high)) for found in (before, now)))


def whole(states: pyarrow.Table, taken: pyarrow.Table) -> Window:
    """Make a window of all these states, each checked. `states`: as WRITTEN; `taken`: as TAKEN, reduced."""
    found = Intervals(Groups(states), taken)
    return Window(found, numpy.ones(len(found.key), bool))


@once
def earlier_window(batch: BucketBatch) -> Window:
    """Make the window of the partitions that are not compared any more, as they were before."""
    return whole(earlier(batch, WRITTEN), earlier(batch, TAKEN))


def _changed(runs: Runs, new: pyarrow.Table) -> pyarrow.Table:
    """The new leaderships that are not known yet, or differ from what is known."""
    known = reduce_taken(gather(runs, keys(new["key"]), longs(new["sub"]), TAKEN.schema.empty_table()))
    now = reduce_taken(pyarrow.concat_tables([known, new]).unify_dictionaries())
    place = SortedRun(known).find(keys(now["key"]), longs(now["sub"]))
    differs = place.first == place.end
    if known.num_rows:
        was = known.take(numpy.minimum(place.first, known.num_rows - 1))
        for name in ("at_ms", "seq", "min_insync_replicas"):
            differs |= longs(was[name]) != longs(now[name])
    return now.filter(pyarrow.array(differs))


def _touched(states: pyarrow.Table, taken: pyarrow.Table, ended: Keys) -> _Touched:
    """Find the touched states. `ended`: partitions whose last state has ended, in any order."""
    key = numpy.concatenate((keys(states["key"]), keys(taken["key"]), ended))
    last = numpy.full(len(ended), HIGHEST - 1)
    sub = numpy.concatenate((longs(states["sub"]), longs(taken["partition_epoch"]), last))
    of_epoch = numpy.zeros(len(key), bool)
    of_epoch[len(states) : len(states) + len(taken)] = True
    chosen = sub != ABSENT
    key, sub, of_epoch = key[chosen], sub[chosen], of_epoch[chosen]
    order = sorted_order((sub, key))
    key, sub, of_epoch = key[order], sub[order], of_epoch[order]
    starts = group_starts(key)
    if not len(starts):
        return _Touched(key, sub, sub, of_epoch)
    ends = numpy.append(starts[1:], len(key)) - 1
    return _Touched(key[starts], sub[starts], sub[ends], numpy.logical_or.reduceat(of_epoch, starts))


def _reached(runs: Runs, touched: _Touched, reach: int, sealed: Flags) -> tuple[Longs, Longs]:
    """The partition epochs between which all states are known when each run gives `reach` states on either side.

    The lowest and the highest, aligned with the touched; NOTHING and `HIGHEST` where the runs have no more. `sealed`:
    where what is sealed is read too; elsewhere the floor is the lowest. It is aligned as well.
    """
    low, high = numpy.full(len(touched.key), NOTHING), numpy.full(len(touched.key), HIGHEST)
    low = numpy.where(sealed, low, runs.floors(touched.key))
    for run in runs.between(touched.key, touched.low, touched.high, reach + 1, sealed):
        bottom, top = run.find(touched.key, touched.low), run.find(touched.key, touched.high)
        more = bottom.first - bottom.start > reach
        low[more] = numpy.maximum(low[more], run.sub[bottom.first[more] - reach])
        more = top.stop - top.end > reach
        high[more] = numpy.minimum(high[more], run.sub[top.end[more] + reach - 1])
    return low, high


def _range(runs: Runs, key: Keys, low: Longs, high: Longs) -> pyarrow.Table:
    """Read all states of each key from `low` to `high`, both included; these are aligned with `key`."""
    ends = numpy.minimum(high, HIGHEST - 1)
    chosen = runs.between(key, low, ends)
    found = [run.rows.take(expand(run.find(key, low).first, run.find(key, ends).end)) for run in chosen]
    return joined(found, WRITTEN.schema.empty_table())


def _window(states: pyarrow.Table, runs: Runs, new: pyarrow.Table | None) -> Intervals:
    """These states, with the leaderships of their leader epochs in the runs and the new ones."""
    groups = Groups(states)
    taken = gather(runs, *unique_pairs(groups.key, groups.leader_epoch), TAKEN.schema.empty_table())
    if new is not None:
        taken = pyarrow.concat_tables([taken, new])
    return Intervals(groups, reduce_taken(taken.unify_dictionaries()))


def _edges(found: Intervals, touched: _Touched, calm_ms: int) -> tuple[Longs, Longs]:
    """The first and the last partition epoch to be checked, aligned with the touched.

    NOTHING and `HIGHEST` where no calm time is known.
    """
    first, last = numpy.full(len(touched.key), NOTHING), numpy.full(len(touched.key), HIGHEST)
    if not len(found.key):
        return first, last
    place = numpy.searchsorted(touched.key, found.key)
    calm = found.calm(calm_ms)
    same_epoch = numpy.zeros(len(found.key), bool)
    same_epoch[1:] = found.leader_epoch[1:] == found.leader_epoch[:-1]
    calm &= ~(same_epoch & touched.within_epoch[place])
    below = calm & (found.sub < touched.low[place])
    numpy.maximum.at(first, place[below], found.sub[below])
    above = numpy.zeros(len(found.key), bool)
    above[:-1] = calm[1:] & (found.sub[:-1] > touched.high[place[:-1]])
    numpy.minimum.at(last, place[above], found.sub[above])
    return first, last


def _within(found: Intervals, key: Keys, low: Longs, high: Longs) -> Flags:
    """The rows between the edges of their partitions; `low` and `high` are aligned with `key`, which is sorted."""
    if not len(found.key):
        return numpy.zeros(0, bool)
    place = numpy.searchsorted(key, found.key)
    return numpy.asarray((found.sub >= low[place]) & (found.sub <= high[place]), bool)
