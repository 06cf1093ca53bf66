"""Which states of a partition are checked again when new ones arrive: those from one calm time to the next.

Rules about time count states together: those without a leader, those in which the leader changes again and again. What
is on the other side of a calm time (`Intervals.calm`) is not counted with them. So a batch reads as many states as the
rules need, not all that a partition ever had, and what it finds does not depend on where the batch began.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy
import pyarrow

from audit.records.sorted_runs import NOTHING, Run, expand, gather, joined
from audit.records.vectors import ABSENT, Flags, Keys, Longs, group_starts, keys, longs
from audit.rules.applied_states import TAKEN, reduce_taken
from audit.rules.intervals import Intervals
from audit.rules.partition_states import WRITTEN, Groups

_FIRST_REACH, _GROWTH = 3, 8
_HIGHEST = numpy.int64(numpy.iinfo(numpy.int64).max)


class Window(NamedTuple):
    """States with those beside them; only those of `checked` rows are judged, the others are what they border on."""

    intervals: Intervals
    checked: Flags


class Windows(NamedTuple):
    before: Window
    now: Window


class Added(NamedTuple):
    """What a batch adds: `WRITTEN`, `TAKEN`, and the partitions of whose last state it says the end."""

    states: pyarrow.Table
    taken: pyarrow.Table
    ended: Keys


class _Touched(NamedTuple):
    """Partitions with something new, from the lowest to the highest partition epoch."""

    key: Keys
    low: Longs
    high: Longs
    within_epoch: Flags
    """Whether that is of a whole leader epoch: then windows end where these do."""

    def at(self, rows: Longs) -> "_Touched":
        return _Touched(self.key[rows], self.low[rows], self.high[rows], self.within_epoch[rows])


def windows(states: Sequence[Run], taken: Sequence[Run], new: Added, calm_ms: int) -> Windows:
    """What there was to check about the touched partitions before, and what there is now."""
    touched = _touched(new.states, _changed(taken, new.taken), new.ended)
    low, high = numpy.full(len(touched.key), NOTHING), numpy.full(len(touched.key), _HIGHEST)
    edge_low, edge_high = low.copy(), high.copy()
    active, reach = numpy.arange(len(touched.key)), _FIRST_REACH
    while True:
        part = touched.at(active)
        low[active], high[active] = _reached(states, part, reach)
        known = _range(states, part.key, low[active], high[active])
        before = _window(known, taken, None)
        first, last = _edges(before, part, calm_ms)
        edge_low[active], edge_high[active] = first, last
        unbounded = (first == NOTHING) & (low[active] != NOTHING) | (last == _HIGHEST) & (high[active] != _HIGHEST)
        if not unbounded.any():
            break
        active, reach = active[unbounded], reach * _GROWTH
    if len(active) < len(touched.key):
        known = _range(states, touched.key, low, high)
        before = _window(known, taken, None)
    now = _window(pyarrow.concat_tables([known, new.states]), taken, new.taken)
    return Windows(*(Window(found, _within(found, touched.key, edge_low, edge_high)) for found in (before, now)))


def whole(states: pyarrow.Table, taken: pyarrow.Table) -> Window:
    """All of these states."""
    found = Intervals(Groups(states), taken)
    return Window(found, numpy.ones(len(found.key), bool))


def _changed(runs: Sequence[Run], new: pyarrow.Table) -> pyarrow.Table:
    """The new leaderships that are not known yet, or not so."""
    known = reduce_taken(gather(runs, keys(new["key"]), longs(new["sub"]), TAKEN.empty_table()))
    now = reduce_taken(pyarrow.concat_tables([known, new]).unify_dictionaries())
    place = Run(known).find(keys(now["key"]), longs(now["sub"]))
    differs = place.first == place.end
    if known.num_rows:
        was = known.take(numpy.minimum(place.first, known.num_rows - 1))
        for name in ("at_ms", "seq", "min_insync_replicas"):
            differs |= longs(was[name]) != longs(now[name])
    return now.filter(pyarrow.array(differs))


def _touched(states: pyarrow.Table, taken: pyarrow.Table, ended: Keys) -> _Touched:
    key = numpy.concatenate((keys(states["key"]), keys(taken["key"]), ended))
    last = numpy.full(len(ended), _HIGHEST - 1)
    sub = numpy.concatenate((longs(states["sub"]), longs(taken["partition_epoch"]), last))
    of_epoch = numpy.zeros(len(key), bool)
    of_epoch[len(states) : len(states) + len(taken)] = True
    chosen = sub != ABSENT
    key, sub, of_epoch = key[chosen], sub[chosen], of_epoch[chosen]
    order = numpy.lexsort((sub, key))
    key, sub, of_epoch = key[order], sub[order], of_epoch[order]
    starts = group_starts(key)
    if not len(starts):
        return _Touched(key, sub, sub, of_epoch)
    ends = numpy.append(starts[1:], len(key)) - 1
    return _Touched(key[starts], sub[starts], sub[ends], numpy.logical_or.reduceat(of_epoch, starts))


def _reached(runs: Sequence[Run], touched: _Touched, reach: int) -> tuple[Longs, Longs]:
    """From which partition epoch to which all states are known when each run gives so many on either side."""
    low, high = numpy.full(len(touched.key), NOTHING), numpy.full(len(touched.key), _HIGHEST)
    for run in runs:
        bottom, top = run.find(touched.key, touched.low), run.find(touched.key, touched.high)
        more = bottom.first - bottom.start > reach
        low[more] = numpy.maximum(low[more], run.sub[bottom.first[more] - reach])
        more = top.stop - top.end > reach
        high[more] = numpy.minimum(high[more], run.sub[top.end[more] + reach - 1])
    return low, high


def _range(runs: Sequence[Run], key: Keys, low: Longs, high: Longs) -> pyarrow.Table:
    """All states of each key from one partition epoch to another."""
    ends = numpy.minimum(high, _HIGHEST - 1)
    found = [run.rows.take(expand(run.find(key, low).first, run.find(key, ends).end)) for run in runs]
    return joined(found, WRITTEN.empty_table())


def _window(states: pyarrow.Table, runs: Sequence[Run], new: pyarrow.Table | None) -> Intervals:
    groups = Groups(states)
    order = numpy.lexsort((groups.leader_epoch, groups.key))
    starts = group_starts(groups.key[order], groups.leader_epoch[order])
    key, epoch = groups.key[order][starts], groups.leader_epoch[order][starts]
    taken = gather(runs, key, epoch, TAKEN.empty_table())
    if new is not None:
        taken = pyarrow.concat_tables([taken, new])
    return Intervals(groups, reduce_taken(taken.unify_dictionaries()))


def _edges(found: Intervals, touched: _Touched, calm_ms: int) -> tuple[Longs, Longs]:
    """The first and the last partition epoch to be checked; `NOTHING` and `_HIGHEST` where no calm time is known."""
    first, last = numpy.full(len(touched.key), NOTHING), numpy.full(len(touched.key), _HIGHEST)
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
    if not len(found.key):
        return numpy.zeros(0, bool)
    place = numpy.searchsorted(key, found.key)
    return numpy.asarray((found.sub >= low[place]) & (found.sub <= high[place]), bool)
