"""Leaders from outside of the ISR, and how many records their election has lost.

A replica's high watermark when it first takes a role in the new leader epoch or a later one, and all that replicas
recorded before, is from before the election: those records were committed. What of them is beyond the new leader's log
end is lost. Where offsets are missing, as in logs of older versions, the loss is unknown, and the finding says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation, changes
from audit.records.orders import sorted_order
from audit.records.sealed_runs import Sealing
from audit.records.sorted_runs import gather_all
from audit.records.vectors import (
    ABSENT,
    Flags,
    Keys,
    Longs,
    are_in_order,
    group_starts,
    is_one_of,
    keys,
    longs,
    order_in_groups,
    ranks,
)
from audit.rules.intervals import Intervals
from audit.rules.leaderships_taken import TAKEN, TAKEN_READ
from audit.rules.partition_states import STATES_READ, WRITTEN
from audit.rules.partition_windows import Window, earlier_window, whole, windows
from audit.rules.recreations import comparable, earlier
from audit.rules.rule import KEY, REFERENCE, BucketBatch, Explanation, Kept, Rule
from audit.rules.subjects import Subjects, reference, reference_at
from state_log.invariants import CAUSES_OF_DAMAGE, DAMAGED, TRUNCATED_BELOW_HIGH_WATERMARK
from state_log.record import Kind

UNCLEAN_ELECTION: Final = "unclean-election"
RECORDS_LOST: Final = "unclean-election-lost-records"
_OF_OFFSETS: Final = {name: pyarrow.int64() for name in ("high_watermark", "log_end_offset", "to_offset")}
_OFFSETS: Final = pyarrow.schema({**KEY, "broker": pyarrow.int32(), **_OF_OFFSETS, **REFERENCE})
_PARTITIONS: Final = pyarrow.schema(KEY)
_NO_OFFSET: Final = 1 << 62


def offsets_of(rows: pyarrow.Table) -> pyarrow.Table:
    """Read what these records say of offsets, reduced."""
    damaged = is_one_of(rows["cause_event"], sorted(CAUSES_OF_DAMAGE)) | is_one_of(rows["reason"], sorted(DAMAGED))
    roles = is_one_of(rows["kind"], [Kind.ROLE.value])
    truncations = is_one_of(rows["kind"], [Kind.TRUNCATION.value]) & ~damaged
    high_watermark, end = longs(rows["high_watermark"]), longs(rows["to_offset"])
    chosen = (roles | truncations) & (high_watermark != ABSENT) & (longs(rows["leader_epoch"]) != ABSENT)
    chosen &= (longs(rows["broker"]) != ABSENT) & (keys(rows["key"]) != 0)
    leads = roles & is_one_of(rows["to_state"], ["leader"])
    below = truncations & (end != ABSENT) & (end < high_watermark)
    needed = ("key", "leader_epoch", "broker", "high_watermark", "log_end_offset", *REFERENCE)
    part = rows.select(needed).filter(pyarrow.array(chosen))
    columns = [
        part["key"],
        part["leader_epoch"].cast(pyarrow.int64()),
        *(part[name] for name in ("broker", "high_watermark")),
        _where(longs(part["log_end_offset"]), leads[chosen]),
        _where(end[chosen], below[chosen]),
        *(part[name] for name in REFERENCE),
    ]
    return reduce_offsets(pyarrow.table(columns, schema=_OFFSETS))


def reduce_offsets(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key, leader epoch, broker; make one row of each, and one of each truncation below the high watermark."""
    rows = rows.unify_dictionaries()
    key, sub, broker = keys(rows["key"]), longs(rows["sub"]), longs(rows["broker"])
    cut = longs(rows["to_offset"])
    single = numpy.where(cut == ABSENT, 0, 1 + longs(rows["seq"]))
    if are_in_order(key, sub, broker, cut, single):
        return rows
    order = sorted_order((single, cut, broker, sub, key))
    starts = group_starts(key[order], sub[order], broker[order], cut[order], single[order])
    order = order_in_groups(order, starts, lambda chosen: _highest_first(rows, chosen))
    ends = longs(rows["log_end_offset"])[order]
    least = numpy.minimum.reduceat(numpy.where(ends == ABSENT, _NO_OFFSET, ends), starts)
    values = pyarrow.array(least, pyarrow.int64(), mask=least == _NO_OFFSET)
    return rows.take(order[starts]).set_column(4, "log_end_offset", values)


OFFSETS: Final = Kept("offsets", _OFFSETS, lambda batch: offsets_of(comparable(batch)), reduce_offsets, Sealing())
"""The greatest high watermark that a broker recorded in a leader epoch (`sub`), and in which record. `log_end_offset`:
the least with which it took the lead (null: it did not). `to_offset`: null, or that of a truncation below the high
watermark, which has a row of its own.
"""


def _highest_first(rows: pyarrow.Table, chosen: Longs) -> tuple[Longs, ...]:
    """Sort columns of the chosen rows, the least significant first."""
    part = rows.select(["seq", "incarnation", "high_watermark"]).take(chosen)
    return longs(part["seq"]), ranks(part["incarnation"]), -longs(part["high_watermark"])


def reduce_unclean(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key; keep one row of each."""
    return _partitions(numpy.unique(keys(rows["key"])))


def _unclean_of(batch: BucketBatch) -> pyarrow.Table:
    intervals, checked = windows(batch).now
    return _partitions(numpy.unique(intervals.key[intervals.unclean & checked]))


UNCLEAN: Final = Kept("unclean", _PARTITIONS, _unclean_of, reduce_unclean)
"""The partitions that have had unclean elections; `sub` is 0."""


def _check(batch: BucketBatch) -> list[AuditFinding]:
    """Find what a batch changes about unclean elections, and about truncations that these explain.

    A truncation below the high watermark that nothing explains is found by the rule on single records; here it is taken
    back, or stands again, as elections become known.
    """
    touched = numpy.unique(keys(comparable(batch)["key"]))
    known_unclean = gather_all(batch.runs(UNCLEAN), touched, _PARTITIONS.empty_table())
    key = numpy.union1d(keys(batch.added(UNCLEAN)["key"]), keys(known_unclean["key"]))
    if not len(key):
        return []
    tables = (WRITTEN, TAKEN, OFFSETS)
    known = [gather_all(batch.runs(table), key, table.schema.empty_table()) for table in tables]
    added = [rows.filter(pyarrow.array(numpy.isin(keys(rows["key"]), key))) for rows in map(batch.added, tables)]
    both = [pyarrow.concat_tables(rows) for rows in zip(known, added, strict=True)]
    (states, taken, offsets), now = ([t.reduce(r) for t, r in zip(tables, rows, strict=True)] for rows in (known, both))
    before = _findings(whole(states, taken), offsets, batch.subjects)
    # The rule on single records has found the new truncations already.
    fresh = _truncations(added[2], batch.subjects)
    return changes(chain(fresh, before), _findings(whole(now[0], now[1]), now[2], batch.subjects))


def _withdraw(batch: BucketBatch) -> list[AuditFinding]:
    """Elections between states that are not compared are none, so they explain no truncation."""
    offsets = earlier(batch, OFFSETS)
    return changes(_findings(earlier_window(batch), offsets, batch.subjects), _truncations(offsets, batch.subjects))


def _findings(window: Window, offsets: pyarrow.Table, subjects: Subjects) -> Iterator[AuditFinding]:
    """The unclean elections in a window, and the truncations below the high watermark that none of them explains.

    `offsets`: as OFFSETS, reduced, of the window's partitions.
    """
    of, rows = window.intervals, offsets.to_pylist()
    by_key: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_key.setdefault(row["key"], []).append(row)
    epochs: dict[int, list[int]] = {}
    for row in numpy.flatnonzero(of.unclean).tolist():
        key = int(of.key[row])
        before = epochs.setdefault(key, [])
        yield subjects.finding(_election(of, row, by_key.get(key, ()), before[-1] if before else None))
        before.append(int(of.leader_epoch[row]))
    cuts = [
        row
        for row in rows
        if row["to_offset"] is not None and not _explained(row, epochs.get(row["key"], ()), by_key[row["key"]])
    ]
    yield from _truncations(pyarrow.Table.from_pylist(cuts, _OFFSETS), subjects)


def _election(of: Intervals, row: int, offsets: Sequence[Mapping[str, Any]], earlier: int | None) -> RuleViolation:
    """The finding about the election in a row. `offsets`: those of the partition.

    `earlier`: the leader epoch of the unclean election before.
    """
    leader, epoch = int(of.leader[row]), int(of.leader_epoch[row])
    isr = of.rows["isr"][row - 1].as_py()
    known = list(_known_before(offsets, epoch, earlier))
    ends = [o["log_end_offset"] for o in offsets if (o["sub"], o["broker"]) == (epoch, leader)]
    ends = [end for end in ends if end is not None]
    evidence = [reference_at(of.rows, row - 1), reference_at(of.rows, row)]
    text = f"broker {leader} was elected in leader epoch {epoch} from outside of the ISR {isr}"
    rule = UNCLEAN_ELECTION
    highest = max(known, key=lambda o: (o["high_watermark"], -o["broker"]), default=None)
    missing = sorted(set(isr) - {o["broker"] for o in known if o["sub"] >= epoch})
    if not ends:
        text += "; how many records were lost is unknown: it recorded no log end offset"
    elif highest is not None and highest["high_watermark"] > ends[0]:
        rule = RECORDS_LOST
        lost = highest["high_watermark"] - ends[0]
        least = "at least " if missing else ""
        text += (
            f"; {least}{lost} records were lost, from offset {ends[0]} up to the high watermark "
            f"{highest['high_watermark']} of broker {highest['broker']}"
        )
        evidence.append(reference(highest))
    elif missing:
        text += f"; how many records were lost is unknown: brokers {missing} have recorded no role since"
    else:
        text += "; no record below the high watermark was lost"
    return RuleViolation(rule, int(of.key[row]), f"leader-epoch {epoch}", text, tuple(evidence), int(of.at_ms[row]))


def _known_before(offsets: Sequence[Mapping[str, Any]], epoch: int, earlier: int | None) -> Iterator[Mapping[str, Any]]:
    """The rows of each broker whose high watermark is from before this leader epoch, and from after the earlier one."""
    by_broker: dict[int, list[Mapping[str, Any]]] = {}
    for row in offsets:
        by_broker.setdefault(row["broker"], []).append(row)
    for rows in by_broker.values():
        last = min((row["sub"] for row in rows if row["sub"] >= epoch), default=epoch)
        first = None if earlier is None else min((row["sub"] for row in rows if row["sub"] >= earlier), default=None)
        yield from (row for row in rows if row["sub"] <= last and (first is None or row["sub"] > first))


def _explained(cut: Mapping[str, Any], unclean: Sequence[int], offsets: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a truncation is the first that its broker did after an unclean election."""
    own = [row["sub"] for row in offsets if row["broker"] == cut["broker"]]
    return any(epoch <= cut["sub"] and not any(epoch <= sub < cut["sub"] for sub in own) for epoch in unclean)


def _truncations(rows: pyarrow.Table, subjects: Subjects) -> Iterator[AuditFinding]:
    """The findings about those of these rows that are truncations below the high watermark."""
    for row in rows.filter(pyarrow.array(longs(rows["to_offset"]) != ABSENT)).to_pylist():
        message = f"the log was truncated to {row['to_offset']}, below its high watermark {row['high_watermark']}"
        name = reference(row)
        violation = RuleViolation(
            TRUNCATED_BELOW_HIGH_WATERMARK, row["key"], f"record {name}", message, (name,), row["at_ms"]
        )
        yield subjects.finding(violation)


def _partitions(key: Keys) -> pyarrow.Table:
    return pyarrow.table([key, numpy.zeros(len(key), numpy.int64)], schema=_PARTITIONS)


def _where(values: Longs, chosen: Flags) -> pyarrow.Array:
    """The chosen values as a column, the others null; `chosen` is aligned with `values`."""
    return pyarrow.array(values, pyarrow.int64(), mask=~chosen | (values == ABSENT))


RULE: Final = Rule(
    explains={
        RECORDS_LOST: Explanation(
            "critical",
            "No unclean election loses records: the new leader's log reaches up to the high watermark before it.",
            "the records between the offsets: producers that got an answer for them have to send them again",
            kafka="INFO",
        ),
        UNCLEAN_ELECTION: Explanation(
            "error",
            "No leader is elected from outside of the ISR; how many records that lost is none, or unknown.",
            "who allowed it (`unclean.leader.election.enable`, `klamm elect unclean`), and the logs of the ISR before",
            kafka="INFO",
        ),
    },
    reads=(*STATES_READ, *TAKEN_READ, *_OF_OFFSETS),
    check=_check,
    keeps=(OFFSETS, UNCLEAN),
    withdraw=_withdraw,
)
