"""Committed records stay: a leader elected from the ISR has them, and the high watermark of a leader does not fall.

A broker records its high watermark when it takes a role, as it was just before. What is below it was in the log of
every member of the ISR, so a leader from the ISR has it. In one run of a broker only the first role in a leader epoch
shows what was committed before that epoch; after a restart, what it shows may have been committed since.
Source: Kafka Partition, KIP-101; agent rules P4, P10.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy
import pyarrow

from audit.reading.kafka.rows import without_kafka
from audit.records.findings import AuditFinding, RuleViolation, changes
from audit.records.orders import sorted_order
from audit.records.sorted_runs import SortedRun, gather, gather_all
from audit.records.vectors import (
    ABSENT,
    Keys,
    are_in_order,
    group_starts,
    is_one_of,
    keys,
    longs,
    mixed,
    text_hashes,
    unique_pairs,
)
from audit.rules.leaderships_taken import TAKEN, TAKEN_READ
from audit.rules.partition_states import STATES_READ, WRITTEN
from audit.rules.partition_windows import Window, earlier_window, whole
from audit.rules.recreations import comparable, compared, earlier
from audit.rules.rule import KEY, REFERENCE, BucketBatch, Explanation, Kept, Rule, once
from audit.rules.subjects import Subjects, reference
from state_log.decision_rules import TAKEN_ROLES
from state_log.invariants import ELECTED_HAS_COMMITTED
from state_log.record import Kind

HIGH_WATERMARK_NEVER_FALLS: Final = "high-watermark-never-falls"
_OFFLINE: Final = "offline"
_COMMITTED: Final = pyarrow.schema(
    {
        **KEY,
        "broker": pyarrow.int32(),
        "leads": pyarrow.bool_(),
        "high_watermark": pyarrow.int64(),
        "log_end_offset": pyarrow.int64(),
        **REFERENCE,
    }
)
_SHOWN: Final = pyarrow.schema({**KEY, "high_watermark": pyarrow.int64(), "leader_epoch": pyarrow.int64()})
_PARTITIONS: Final = pyarrow.schema(KEY)
COMMITTED_READ: Final = (
    "key",
    "kind",
    "to_state",
    "broker",
    "leader_epoch",
    "high_watermark",
    "log_end_offset",
    *REFERENCE,
)
"""The columns of records that roles with offsets are made of."""


def _roles(rows: pyarrow.Table) -> pyarrow.Table:
    """The roles that these records of klamm's brokers say were taken, with what was in the log then."""
    chosen = is_one_of(rows["kind"], [Kind.ROLE.value]) & is_one_of(rows["to_state"], TAKEN_ROLES)
    for name in ("high_watermark", "log_end_offset", "leader_epoch", "broker"):
        chosen &= longs(rows[name]) != ABSENT
    chosen &= keys(rows["key"]) != 0
    # A file of Apache Kafka's continues when its broker starts again.
    return without_kafka(rows.select(COMMITTED_READ).filter(pyarrow.array(chosen)))


@once
def _roles_of(batch: BucketBatch) -> pyarrow.Table:
    return _roles(batch.rows)


def _committed_of(batch: BucketBatch) -> pyarrow.Table:
    """The roles that the records of a batch show, reduced."""
    part = compared(_roles_of(batch), batch)
    columns = [
        part["key"],
        part["leader_epoch"].cast(pyarrow.int64()),
        part["broker"],
        pyarrow.array(is_one_of(part["to_state"], [TAKEN_ROLES[0]])),
        *(part[name] for name in ("high_watermark", "log_end_offset", *REFERENCE)),
    ]
    return reduce_committed(pyarrow.table(columns, schema=_COMMITTED))


def reduce_committed(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key, leader epoch and run of a broker; keep the first role of each."""
    rows = rows.unify_dictionaries()
    key, sub, run = keys(rows["key"]), longs(rows["sub"]), _runs(rows)
    order = sorted_order((longs(rows["seq"]), run, sub, key))
    return rows.take(order[group_starts(key[order], sub[order], run[order])])


COMMITTED: Final = Kept("committed", _COMMITTED, _committed_of, reduce_committed)
"""The first role that a run of a broker took in a leader epoch (`sub`)."""


def _short_of(batch: BucketBatch) -> pyarrow.Table:
    """The partitions in which, with this batch, the log of a leader ends below what was committed before its epoch."""
    new = batch.added(COMMITTED)
    pairs = unique_pairs(keys(new["key"]), longs(new["sub"]))
    known = gather(batch.runs(COMMITTED), *pairs, _COMMITTED.empty_table())
    rows = reduce_committed(pyarrow.concat_tables([known, new]))
    key, sub = keys(rows["key"]), longs(rows["sub"])
    starts = group_starts(key, sub)
    if not len(starts):
        return _partitions(key)
    leads = numpy.asarray(rows["leads"].combine_chunks().to_numpy(zero_copy_only=False), bool)
    least = numpy.minimum.reduceat(numpy.where(leads, longs(rows["log_end_offset"]), _NO_OFFSET), starts)
    greatest = numpy.maximum.reduceat(longs(rows["high_watermark"]), starts)
    above = starts[greatest > least]
    # After a restart it often is, by what was committed since: only a closer look tells.
    by_key = _by_partition(_of_partitions(batch, numpy.unique(key[above])))
    short = [k for k, e in zip(key[above].tolist(), sub[above].tolist(), strict=True) if by_key[k].lost(e)]
    return _partitions(numpy.unique(numpy.array(short, numpy.uint64)))


def _of_partitions(batch: BucketBatch, key: Keys) -> pyarrow.Table:
    """Gather all roles in these partitions, reduced."""
    known, new = gather_all(batch.runs(COMMITTED), key, _COMMITTED.empty_table()), batch.added(COMMITTED)
    added = new.filter(pyarrow.array(numpy.isin(keys(new["key"]), key)))
    return reduce_committed(pyarrow.concat_tables([known, added]))


class _Roles:
    """The roles in a partition: those of each leader epoch, and the first epoch of each run of a broker."""

    def __init__(self) -> None:
        self._by_epoch: dict[int, list[Mapping[str, Any]]] = {}
        self._first: dict[tuple[str, str], int] = {}

    def add(self, role: Mapping[str, Any]) -> None:
        """Add a row of COMMITTED."""
        run, epoch = (role["node"], role["incarnation"]), role["sub"]
        self._by_epoch.setdefault(epoch, []).append(role)
        self._first[run] = min(epoch, self._first.get(run, epoch))

    def lost(self, epoch: int, leader: int | None = None) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        """The role with which somebody, or `leader`, took the lead in an epoch, and one with a high watermark above its
        log end; None if there are no such two.

        A run that had a role in an earlier leader epoch has nothing of this epoch yet when it takes its first one.
        """
        roles = self._by_epoch.get(epoch, ())
        taken = [role for role in roles if role["leads"] and leader in {None, role["broker"]}]
        shown = [role for role in roles if self._first[role["node"], role["incarnation"]] < epoch]
        if not taken or not shown:
            return None
        own = min(taken, key=lambda role: (role["log_end_offset"], role["incarnation"]))
        highest = max(shown, key=lambda role: (role["high_watermark"], -role["broker"]))
        return (own, highest) if highest["high_watermark"] > own["log_end_offset"] else None


def _by_partition(rows: pyarrow.Table) -> defaultdict[int, _Roles]:
    found: defaultdict[int, _Roles] = defaultdict(_Roles)
    for row in rows.to_pylist():
        found[row["key"]].add(row)
    return found


def _partitions(key: Keys) -> pyarrow.Table:
    return pyarrow.table([key, numpy.zeros(len(key), numpy.int64)], schema=_PARTITIONS)


def reduce_short(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key; keep one row of each."""
    return _partitions(numpy.unique(keys(rows["key"])))


SHORT: Final = Kept("short", _PARTITIONS, _short_of, reduce_short)
"""The partitions that have to be looked at more closely; `sub` is 0."""


def _shown_of(batch: BucketBatch) -> pyarrow.Table:
    """Read with which high watermark brokers took the lead in a batch, and where they took another role, or lost the
    directory of the log; reduced.
    """
    roles, stopped = _roles_of(batch), _offline(batch.rows)
    leads = is_one_of(roles["to_state"], [TAKEN_ROLES[0]])
    # A follower takes over a new leader's high watermark, which may be behind its own.
    high_watermark = numpy.where(leads, longs(roles["high_watermark"]), -1)
    columns = [_runs(roles), longs(roles["seq"]), high_watermark, longs(roles["leader_epoch"])]
    # A log that is opened again has an earlier high watermark, as after a restart.
    nothing = numpy.full(stopped.num_rows, -1)
    without = [_runs(stopped), longs(stopped["seq"]), nothing, nothing]
    both = [numpy.concatenate(parts) for parts in zip(columns, without, strict=True)]
    return reduce_shown(pyarrow.table(both, schema=_SHOWN))


def _offline(rows: pyarrow.Table) -> pyarrow.Table:
    """Find the records of replicas that were taken offline, of which the topic is known."""
    chosen = is_one_of(rows["kind"], [Kind.ROLE.value]) & is_one_of(rows["to_state"], [_OFFLINE])
    return rows.select(("key", *REFERENCE)).filter(pyarrow.array(chosen & (keys(rows["key"]) != 0)))


def _runs(rows: pyarrow.Table) -> Keys:
    """A hash of the partition of each row and the run of its broker, aligned with the rows."""
    if not rows.num_rows:
        return numpy.empty(0, numpy.uint64)
    return mixed(keys(rows["key"]) ^ mixed(text_hashes(rows["node"]) ^ mixed(text_hashes(rows["incarnation"]))))


def reduce_shown(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key and number of the record; keep one row of each."""
    key, seq = keys(rows["key"]), longs(rows["sub"])
    if are_in_order(key, seq):
        return rows
    order = sorted_order((longs(rows["leader_epoch"]), longs(rows["high_watermark"]), seq, key))
    return rows.take(pyarrow.array(order[group_starts(key[order], seq[order])]))


SHOWN: Final = Kept("shown", _SHOWN, _shown_of, reduce_shown)
"""The high watermark with which a run began to lead a partition (`key`: both) in a record (`sub`: its number), and the
leader epoch; -1: it took another role, or was offline.
"""


def _check(batch: BucketBatch) -> list[AuditFinding]:
    return [*_falls(batch), *_short_leaders(batch)]


def _falls(batch: BucketBatch) -> Iterator[AuditFinding]:
    """The roles whose high watermark is below the one with which the broker began to lead, though its log has more.

    Compared are roles of neighbouring leader epochs. A replica whose disk failed mostly loses the lead in an epoch of
    its own, and opens its log with an earlier high watermark; brokers of earlier releases record that it was offline
    without a topic id.
    """
    rows = _roles_of(batch)
    key, seq, now = _runs(rows), longs(rows["seq"]), longs(rows["high_watermark"])
    latest, before, led = (numpy.full(len(key), -1) for _ in range(3))
    for run in (*batch.runs(SHOWN).every(), SortedRun(batch.added(SHOWN))):
        bounds = run.find(key, seq)
        known = numpy.flatnonzero(bounds.first > bounds.start)
        place = bounds.first[known] - 1
        newer = run.sub[place] > latest[known]
        latest[known[newer]] = run.sub[place[newer]]
        before[known[newer]] = longs(run.rows["high_watermark"])[place[newer]]
        led[known[newer]] = longs(run.rows["leader_epoch"])[place[newer]]
    # A negative one is another rule's.
    falls = (now >= 0) & (now < before) & (before <= longs(rows["log_end_offset"]))
    fell = numpy.flatnonzero(falls & (longs(rows["leader_epoch"]) <= led + 1))
    for row, was, at in zip(rows.take(pyarrow.array(fell)).to_pylist(), before[fell], latest[fell], strict=True):
        name = reference(row)
        fall = f"from {was} to {row['high_watermark']}"
        message = f"the high watermark of broker {row['broker']} fell {fall} while it was the leader"
        records = reference({**row, "seq": int(at)}), name
        violation = RuleViolation(
            HIGH_WATERMARK_NEVER_FALLS, row["key"], f"record {name}", message, records, row["at_ms"]
        )
        yield batch.subjects.finding(violation)


def _short_leaders(batch: BucketBatch) -> list[AuditFinding]:
    """Find what a batch changes about leaders from the ISR whose logs lack committed records."""
    touched = numpy.unique(keys(comparable(batch)["key"]))
    known_short = gather_all(batch.runs(SHORT), touched, _PARTITIONS.empty_table())
    key = numpy.union1d(keys(batch.added(SHORT)["key"]), keys(known_short["key"]))
    if not len(key):
        return []
    tables = (WRITTEN, TAKEN, COMMITTED)
    known = [gather_all(batch.runs(table), key, table.schema.empty_table()) for table in tables]
    added = [rows.filter(pyarrow.array(numpy.isin(keys(rows["key"]), key))) for rows in map(batch.added, tables)]
    both = [pyarrow.concat_tables(rows) for rows in zip(known, added, strict=True)]
    before, now = (
        _lacking(whole(states, taken), roles, batch.subjects)
        for states, taken, roles in (
            [table.reduce(rows) for table, rows in zip(tables, of, strict=True)] for of in (known, both)
        )
    )
    return changes(before, now)


def _lacking(window: Window, committed: pyarrow.Table, subjects: Subjects) -> Iterator[AuditFinding]:
    """The clean elections of leaders whose logs end below a high watermark. `committed`: as COMMITTED, reduced."""
    of, by_key = window.intervals, _by_partition(committed)
    for election in numpy.flatnonzero(of.elected & of.by_one & of.earlier_isr.contain(of.leader)).tolist():
        key, epoch, leader = int(of.key[election]), int(of.leader_epoch[election]), int(of.leader[election])
        found = by_key[key].lost(epoch, leader)
        if found is None:
            continue
        own, highest = found
        message = (
            f"leader {leader} of leader epoch {epoch} was elected from the ISR, and its log lacks "
            f"{highest['high_watermark'] - own['log_end_offset']} committed records: it ends at "
            f"{own['log_end_offset']}, below the high watermark {highest['high_watermark']} of broker "
            f"{highest['broker']}"
        )
        records = reference(highest), reference(own)
        yield subjects.finding(
            RuleViolation(ELECTED_HAS_COMMITTED, key, f"leader-epoch {epoch}", message, records, own["at_ms"])
        )


_NO_OFFSET: Final = 1 << 62
_RESTARTS: Final = "the log does not say when its broker was restarted"
RULE: Final = Rule(
    explains={
        ELECTED_HAS_COMMITTED: Explanation(
            "critical",
            "The log of a leader that is elected from the ISR has all committed records.",
            "whether the leader's machine was restarted before, as after a power failure, and what its log recovery "
            "said; producers that got an answer for the records between the offsets have to send them again",
            _RESTARTS,
            of_whole_logs=True,
        ),
        HIGH_WATERMARK_NEVER_FALLS: Explanation(
            "error",
            "The high watermark of a leader does not fall while it leads.",
            "the broker's log between the two records: consumers may have read what counts as not committed now",
            _RESTARTS,
            of_whole_logs=True,
        ),
    },
    reads=tuple(dict.fromkeys((*COMMITTED_READ, *STATES_READ, *TAKEN_READ))),
    check=_check,
    keeps=(COMMITTED, SHORT, SHOWN),
    withdraw=lambda batch: changes(_lacking(earlier_window(batch), earlier(batch, COMMITTED), batch.subjects), ()),
)
