"""Clocks of two nodes that differ, by pairs of records of which one is known to have come first.

A broker records a role after the controller whose event it names has recorded the state, and asks for another ISR after
it took the role. Where the times say otherwise, one of the clocks is wrong by at least the difference. The reader's own
clock plays no part. Two controllers are not compared: one may load a state before the other, which wrote it, has the
answer.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy
import pyarrow
from msgspec import Struct

from audit.records.findings import AuditFinding
from audit.records.vectors import ABSENT, Longs, group_starts, is_one_of, longs, ranked
from audit.rules.controller_epochs import NO_CONTROLLER
from audit.rules.durations import LEADERLESS, UNDER_MIN_ISR
from audit.rules.partition_windows import Window
from audit.rules.subjects import reference
from audit.rules.unfinished_work import DELETION_STALLED, REASSIGNMENT_STALLED

CLOCK_DIFFERS: Final = "clock-differs"
_SUBJECT: Final = "node "
_DURATIONS: Final = frozenset({LEADERLESS, UNDER_MIN_ISR, REASSIGNMENT_STALLED, DELETION_STALLED, NO_CONTROLLER})
_ALTER_PARTITION: Final = ("AlterPartition", "AlterPartitionReceived")


class ClockDifference(Struct, frozen=True, order=True):
    """Two processes (node/incarnation): `ahead` wrote the first of two records, which has the later time by `ms`.

    `behind` wrote the second. `records`: first and second.
    """

    behind: str
    ahead: str
    ms: int
    records: tuple[str, str]


def clock_differences(window: Window, limit_ms: int) -> list[ClockDifference]:
    """The greatest difference above the limit between each two processes in a window."""
    of = window.intervals
    if of.taken is None:
        return []
    taken_ms, epoch = of.taken_longs("at_ms"), of.taken_longs("partition_epoch")
    is_known = of.is_taken & window.checked & (epoch != ABSENT)
    asked_by = of.taken_longs("cause_controller_epoch") == longs(of.rows["first_controller_epoch"])
    gives = is_known & (epoch == of.sub) & asked_by
    asked = is_known & (of.sub > epoch) & is_one_of(of.rows["cause_event"], _ALTER_PARTITION)
    return greatest(
        [
            *_differences(of.rows, of.taken, numpy.where(gives, of.at_ms - taken_ms, 0), limit_ms),
            *_differences(of.taken, of.rows, numpy.where(asked, taken_ms - of.at_ms, 0), limit_ms),
        ]
    )


def greatest(differences: Iterable[ClockDifference]) -> list[ClockDifference]:
    """The greatest difference between each two processes."""
    found: dict[tuple[str, str], ClockDifference] = {}
    for difference in differences:
        name = difference.behind, difference.ahead
        found[name] = min(difference, found.get(name, difference), key=_order)
    return [found[name] for name in sorted(found)]


def _order(difference: ClockDifference) -> tuple[int, int, int]:
    """A sort key: the greatest first, then that of the earliest records, whatever the order of arrival."""
    first, second = (int(record.rpartition("/")[2]) for record in difference.records)
    return -difference.ms, second, first


def clock_findings(differences: Iterable[ClockDifference], jumping: AbstractSet[str]) -> Iterator[AuditFinding]:
    """Yield one finding for each node whose clock is wrong: the one that differs from most others, until none differ.

    `jumping`: processes (node/incarnation) whose clock was set back: they are found by that.
    """
    left = [d for d in differences if jumping.isdisjoint((d.behind, d.ahead)) and _node(d.behind) != _node(d.ahead)]
    while left:
        counts = Counter(node for d in {(_node(d.behind), _node(d.ahead)) for d in left} for node in d)
        # Of two nodes that differ from each other alone, the broker: a controller's clock has more to compare with.
        wrong = min(counts, key=lambda node: (-counts[node], node))
        own = [d for d in left if wrong in {_node(d.behind), _node(d.ahead)}]
        worst = max(own, key=lambda d: (d.ms, d))
        is_behind = _node(worst.behind) == wrong
        other = _node(worst.ahead if is_behind else worst.behind)
        side = "behind" if is_behind else "ahead of"
        message = f"the clock of {wrong} is {worst.ms / 1000:.1f} s or more {side} that of {other}"
        others = len({_node(d.behind) for d in own} | {_node(d.ahead) for d in own}) - 2
        more = f", and differs from {others} more" if others else ""
        yield AuditFinding(CLOCK_DIFFERS, f"{_SUBJECT}{wrong}", message + more, worst.records)
        left = [d for d in left if d not in own]


def node_of(finding: AuditFinding) -> str:
    """The node whose clock is wrong."""
    return finding.subject.removeprefix(_SUBJECT)


def is_measured_by(finding: Mapping[str, Any], nodes: AbstractSet[str]) -> bool:
    """Whether a finding is about a duration, and the clock of one of these nodes took part in measuring it."""
    if finding["rule"] not in _DURATIONS:
        return False
    # What still lasts was measured up to the newest record of any controller.
    lasts = len(finding["records"]) == 1 and any(node.startswith("controller-") for node in nodes)
    return lasts or not nodes.isdisjoint(map(_node, finding["records"]))


def _node(process: str) -> str:
    return process.partition("/")[0]


def _differences(
    first: pyarrow.Table, second: pyarrow.Table, differences: Longs, limit_ms: int
) -> Iterator[ClockDifference]:
    """The greatest difference above the limit between each two processes.

    `first` and `second`: the records of which the first came before, aligned with `differences` in ms.
    """
    which = numpy.flatnonzero(differences > limit_ms)
    if not len(which):
        return
    ms = differences[which]
    ahead, behind = first.take(which), second.take(which)
    names = [ranked(table[name])[0] for table in (behind, ahead) for name in ("node", "incarnation")]
    order = numpy.lexsort((longs(ahead["seq"]), longs(behind["seq"]), -ms, *names))
    starts = group_starts(*(name[order] for name in names))
    for row in order[starts].tolist():
        a, b = (table.slice(row, 1).to_pylist()[0] for table in (ahead, behind))
        yield ClockDifference(_process(b), _process(a), int(ms[row]), (reference(a), reference(b)))


def _process(row: dict[str, Any]) -> str:
    return f"{row['node']}/{row['incarnation']}"
