"""The timelines of partitions for the report: sums over all of them, and the worst ones state by state."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy
import pyarrow
import pyarrow.compute

from audit.records.vectors import Longs
from audit.report.html.content import PARTITIONS_MAX, POINTS_MAX, STATES_MAX, Curve, PartitionTimeline

PartitionName = tuple[str, str | None, int]
"""Topic, topic id, partition."""
TopicName = tuple[str, str | None]
"""Topic, topic id."""
_NEVER: Final = (1 << 63) - 1
_NAME: Final = ("topic", "topic_id", "partition")


class Timelines:
    """The rows of the table `timelines` that hold, by partition and epoch.

    `until_ms`: the end of the logs. `gone_ms`: when the deletion of topics began; that their partitions then lose
    leader and replicas is no fault.
    """

    def __init__(self, rows: pyarrow.Table, until_ms: int, gone_ms: Mapping[TopicName, int] | None = None) -> None:
        rows = rows.sort_by([*((name, "ascending") for name in _NAME), ("partition_epoch", "ascending")])
        self.rows = rows
        self.group = self._groups()
        self.keys = rows.select(_NAME).take(self._firsts()).to_pylist()
        self.start = _longs(rows["from_ms"], until_ms)
        gone = self._gone(gone_ms or {})
        self.end = numpy.maximum(numpy.minimum(_longs(rows["until_ms"], until_ms), gone), self.start)
        self.is_there = self.start < gone
        self.leaderless = _longs(rows["leader"], -1) < 0
        isr, replicas = (_longs(pyarrow.compute.list_value_length(rows[name]), 0) for name in ("isr", "replicas"))
        self.replicas = numpy.maximum(replicas, isr)
        self.under_replicated = isr < self.replicas

    def _groups(self) -> Longs:
        """The number of the partition of each row; aligned with the rows."""
        if not self.rows.num_rows:
            return numpy.empty(0, numpy.int64)
        changed = numpy.zeros(self.rows.num_rows, bool)
        for name in _NAME:
            column = pyarrow.compute.rank(self.rows[name].combine_chunks(), tiebreaker="min").to_numpy()
            changed[1:] |= column[1:] != column[:-1]
        return numpy.cumsum(changed)

    def _firsts(self) -> Longs:
        """The first row of each partition, ascending."""
        return numpy.flatnonzero(numpy.diff(self.group, prepend=-1))

    def _gone(self, gone_ms: Mapping[TopicName, int]) -> Longs:
        """Find when the deletion of each row's topic began; aligned with the rows."""
        of_partitions = [gone_ms.get((key["topic"], key["topic_id"]), _NEVER) for key in self.keys]
        return numpy.array(of_partitions, numpy.int64)[self.group]

    def curve(self) -> Curve:
        """Counts over time, at most POINTS_MAX of them: the highest of each interval."""
        times, counts = [], []
        for which in (self.leaderless, self.under_replicated):
            at = numpy.concatenate((self.start[which], self.end[which]))
            step = numpy.concatenate((numpy.ones(which.sum(), numpy.int64), -numpy.ones(which.sum(), numpy.int64)))
            times.append(at)
            counts.append(step)
        if not len(self.start):
            return Curve([], [], [])
        at = numpy.unique(numpy.concatenate((self.start[:1], *times)))
        leaderless, under = (_running(at, t, c) for t, c in zip(times, counts, strict=True))
        if len(at) <= POINTS_MAX:
            return Curve(at.tolist(), leaderless.tolist(), under.tolist())
        firsts = numpy.linspace(0, len(at), POINTS_MAX, endpoint=False).astype(numpy.int64)
        return Curve(
            at[firsts].tolist(),
            numpy.maximum.reduceat(leaderless, firsts).tolist(),
            numpy.maximum.reduceat(under, firsts).tolist(),
        )

    def worst(self, findings: Mapping[PartitionName, int]) -> tuple[list[PartitionTimeline], int]:
        """The partitions with most findings, then the longest without a leader, then with most changes; and how many
        partitions there are.
        """
        if not self.rows.num_rows:
            return [], 0
        firsts = self._firsts()
        ends = numpy.append(firsts[1:], len(self.group))
        without = numpy.where(self.leaderless, self.end - self.start, 0)
        leaderless_ms = numpy.add.reduceat(without, firsts)
        changes = numpy.add.reduceat(self.is_there, firsts, dtype=numpy.int64)
        names = _names(self.keys)
        found = numpy.array([findings.get(tuple(key.values()), 0) for key in self.keys])
        order = numpy.lexsort((-changes, -leaderless_ms, -found))[:PARTITIONS_MAX].tolist()
        return [
            PartitionTimeline(
                names[n], int(found[n]), int(leaderless_ms[n]), int(changes[n]), self._states(firsts[n], ends[n])
            )
            for n in order
        ], len(firsts)

    def _states(self, first: int, end: int) -> list[tuple[int, int, int, int, list[int], int, bool]]:
        first = max(first, end - STATES_MAX)
        rows = self.rows.slice(first, end - first).select(["leader", "leader_epoch", "isr", "unclean"]).to_pylist()
        return [
            (
                int(self.start[n]),
                int(self.end[n]),
                row["leader"],
                row["leader_epoch"],
                row["isr"] or [],
                int(self.replicas[n]),
                bool(row["unclean"]),
            )
            for n, row in enumerate(rows, first)
            if self.is_there[n]
        ]


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The `topic-partition` of each, with the topic id where a topic was created again under its name."""
    plain = [f"{row['topic']}-{row['partition']}" for row in rows]
    often = Counter(plain)
    pairs = zip(plain, rows, strict=True)
    return [f"{name} ({row['topic_id']})" if often[name] > 1 else name for name, row in pairs]


def _running(at: Longs, times: Longs, steps: Longs) -> Longs:
    """The sum of the steps up to each time."""
    order = numpy.argsort(times, kind="stable")
    sums = numpy.concatenate(([0], numpy.cumsum(steps[order])))
    return numpy.asarray(sums[numpy.searchsorted(times[order], at, "right")], numpy.int64)


def _longs(column: pyarrow.ChunkedArray, missing: int) -> Longs:
    filled = pyarrow.compute.fill_null(column.cast(pyarrow.int64()), missing)
    return numpy.asarray(filled.to_numpy(), numpy.int64)
