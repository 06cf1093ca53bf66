"""The epochs that one incarnation of a node shows of a partition never decrease."""

from typing import Final, NamedTuple

import numpy
import pyarrow

from audit.reading.kafka.rows import are_kafka, is_first_role, without_kafka_requests
from audit.records.findings import AuditFinding, RuleViolation
from audit.records.orders import sorted_order
from audit.records.sorted_runs import SortedRun, gather
from audit.records.vectors import ABSENT, Flags, Keys, Longs, group_starts, is_one_of, keys, longs, mixed, text_hashes
from audit.rules.rule import KEY, BucketBatch, Explanation, Kept, Rule, once
from cluster.model.state_machines import PartitionState
from state_log.histories import (
    CONTROLLER_EPOCH_NEVER_BACK,
    LEADER_EPOCH_NEVER_BACK,
    PARTITION_EPOCH_NEVER_BACK,
    WRITTEN_BY_CONTROLLERS,
)
from state_log.record import Kind

_SHOWN: Final = ("leader_epoch", "partition_epoch", "controller_epoch")
_RULES: Final = (LEADER_EPOCH_NEVER_BACK, PARTITION_EPOCH_NEVER_BACK, CONTROLLER_EPOCH_NEVER_BACK)
_SCHEMA: Final = pyarrow.schema(
    {
        **KEY,
        **{name: pyarrow.int64() for name in _SHOWN},
        **{f"{name}_seq": pyarrow.int64() for name in _SHOWN},
        "seq": pyarrow.int64(),
    }
)


_NEEDED: Final = (
    *("key", "node", "incarnation", "seq", "at_ms", "kind", "from_state", "to_state", "topic_id"),
    *_SHOWN,
)
"""The columns of records that the rule reads."""


class _Compared(NamedTuple):
    """The epochs that fell, and the new rows of VIEWS: each follows from the epochs before a record."""

    findings: list[AuditFinding]
    views: pyarrow.Table


@once
def _compared(batch: BucketBatch) -> _Compared:
    part = _chosen(without_kafka_requests(batch.rows))
    if not part.num_rows:
        return _Compared([], _SCHEMA.empty_table())
    key, who, seq = keys(part["key"]), _incarnations(part), longs(part["seq"])
    order = sorted_order((seq, who, key))
    part, key, who, seq = part.take(order), key[order], who[order], seq[order]
    starts = group_starts(key, who)
    # The view so far stands before the records of its group, so that each is compared with the one before it.
    known = reduce_views(gather(batch.runs(VIEWS), key[starts], who[starts], _SCHEMA.empty_table()))
    deletions, loads = _are_deletions(part), _begin_without_id(part)
    findings: list[AuditFinding] = []
    views: dict[str, Longs] = {}
    for name, rule in zip(_SHOWN, _RULES, strict=True):
        shown = _shown(part, name)
        begins = loads if name != "controller_epoch" else numpy.zeros(len(seq), bool)
        before, before_seq, last, last_seq = _previous(
            shown, seq, starts, deletions | begins, _of_groups(known, name, key[starts], who[starts])
        )
        back = numpy.flatnonzero((shown != ABSENT) & (before != ABSENT) & (shown < before) & ~begins).tolist()
        earlier = ((int(before[row]), int(before_seq[row])) for row in back)
        violations = (_violation(part, row, rule, e) for row, e in zip(back, earlier, strict=True))
        findings += [batch.subjects.finding(violation) for violation in violations]
        views[name], views[f"{name}_seq"] = last, last_seq
    ends = numpy.append(starts[1:], len(key)) - 1
    columns = [key[starts], who[starts], *(views[n] for n in _SCHEMA.names if n in views), seq[ends]]
    return _Compared(findings, pyarrow.table([pyarrow.array(column) for column in columns], schema=_SCHEMA))


def reduce_views(rows: pyarrow.Table) -> pyarrow.Table:
    """Sort by key and incarnation; keep the last row of each."""
    key, sub = keys(rows["key"]), longs(rows["sub"])
    order = sorted_order((sub, key))
    starts = group_starts(key[order], sub[order])
    return rows.take(order[numpy.append(starts[1:], len(order))[: len(starts)] - 1])


VIEWS: Final = Kept("views", _SCHEMA, lambda batch: _compared(batch).views, reduce_views)
"""What an incarnation (`sub`: a hash of node and incarnation) has shown last of each epoch, and in which record; ABSENT
before the first. `seq`: the last record.
"""


def _chosen(rows: pyarrow.Table) -> pyarrow.Table:
    """The records that show epochs, or after which others may begin.

    An agent writes truncations in batches, possibly after it has received a newer epoch.
    """
    chosen = (longs(rows["leader_epoch"]) >= 0) & ~is_one_of(rows["kind"], [Kind.TRUNCATION.value])
    chosen |= _are_deletions(rows) | _begin_without_id(rows)
    return rows.select(_NEEDED).filter(pyarrow.array(chosen & (keys(rows["key"]) != 0)))


def _begin_without_id(rows: pyarrow.Table) -> Flags:
    """Whether a record without a topic id may begin another topic's epochs; aligned with the rows.

    Between two terms of one controller another may have deleted the topic and created it again. Logs of Apache Kafka
    show a creation, or the first epochs, without the deletion before them (see `audit.rules.recreations`).
    """
    absent = numpy.asarray(rows["topic_id"].is_null().combine_chunks().to_numpy(zero_copy_only=False), bool)
    of_kafka = is_first_role(rows) | is_one_of(rows["from_state"], [PartitionState.NON_EXISTENT.value])
    begin = is_one_of(rows["kind"], [Kind.LOADED.value]) | (are_kafka(rows) & of_kafka)
    return numpy.asarray(absent & begin, bool)


def _shown(rows: pyarrow.Table, name: str) -> Longs:
    """The epoch of this name that each record shows; ABSENT for none."""
    shown = longs(rows[name])
    if name == "controller_epoch":
        # Agents receive states written by earlier controllers, so only a controller's own epochs are compared.
        shown = numpy.where(is_one_of(rows["kind"], [k.value for k in WRITTEN_BY_CONTROLLERS]), shown, ABSENT)
    return numpy.where(_are_deletions(rows) | (longs(rows["leader_epoch"]) < 0), ABSENT, shown)


def _are_deletions(rows: pyarrow.Table) -> Flags:
    """Whether a record is the end of a replica or partition; with a topic id, the next of its name has another key."""
    of_replica = is_one_of(rows["kind"], [Kind.ROLE.value]) & is_one_of(rows["to_state"], ["deleted"])
    absent = [PartitionState.NON_EXISTENT.value]
    return of_replica | (is_one_of(rows["kind"], [Kind.PARTITION.value]) & is_one_of(rows["to_state"], absent))


def _incarnations(rows: pyarrow.Table) -> Longs:
    """A hash of node and incarnation for each row."""
    return mixed(mixed(text_hashes(rows["node"])) + text_hashes(rows["incarnation"])).view(numpy.int64)


def _of_groups(known: pyarrow.Table, name: str, key: Keys, who: Longs) -> tuple[Longs, Longs]:
    """The epoch last shown by each (key, incarnation), and its record's number; aligned with these.

    `known`: as VIEWS, reduced.
    """
    values, numbers = numpy.full(len(key), ABSENT), numpy.full(len(key), ABSENT)
    bounds = SortedRun(known).find(key, who)
    present = bounds.first < bounds.end
    values[present] = longs(known[name])[bounds.first[present]]
    numbers[present] = longs(known[f"{name}_seq"])[bounds.first[present]]
    return values, numbers


def _previous(
    shown: Longs, seq: Longs, starts: Longs, resets: Flags, known: tuple[Longs, Longs]
) -> tuple[Longs, Longs, Longs, Longs]:
    """Find the epoch shown before each record, and the last one of each group.

    `shown`, `seq` and `resets` are aligned with the records, which stand by groups; `starts`: where these begin;
    `known`: epoch and record number from before this batch, aligned with the groups. After a reset nothing was shown.
    Returns the epochs before and their record numbers, aligned with the records, then the last ones with the groups.
    """
    count, groups = len(shown), len(starts)
    # One place for the known value before each group, then its records.
    group = numpy.zeros(count, numpy.int64)
    group[starts[1:]] = 1
    group = numpy.cumsum(group)
    place = numpy.arange(count) + group + 1
    values, numbers = numpy.full(count + groups, ABSENT), numpy.full(count + groups, ABSENT)
    values[place], numbers[place] = shown, seq
    first = starts + numpy.arange(groups)
    values[first], numbers[first] = known
    marks = values != ABSENT
    marks[first] = True
    marks[place[resets]] = True
    latest = numpy.maximum.accumulate(numpy.where(marks, numpy.arange(count + groups), 0))
    before = latest[place - 1]
    last = latest[numpy.append(first[1:], count + groups) - 1]
    return values[before], numbers[before], values[last], numbers[last]


def _violation(rows: pyarrow.Table, row: int, rule: str, before: tuple[int, int]) -> RuleViolation:
    """A record's epoch that fell. `before`: the greater epoch that was shown before, and the number of that record."""
    name = _SHOWN[_RULES.index(rule)]
    columns = ("key", "node", "incarnation", "seq", "at_ms", name)
    key, node, incarnation, seq, at_ms, shown = (rows[column][row].as_py() for column in columns)
    reference = f"{node}/{incarnation}/"
    message = f"{node} showed {name.replace('_', ' ')} {shown} after {before[0]}"
    records = (f"{reference}{before[1]}", f"{reference}{seq}")
    return RuleViolation(rule, key, f"record {reference}{seq}", message, records, at_ms)


RULE: Final = Rule(
    explains={
        PARTITION_EPOCH_NEVER_BACK: Explanation(
            "error",
            "The partition epochs that one process shows do not fall.",
            "the records of that process",
            kafka="INFO",
        )
    },
    reads=_NEEDED,
    check=lambda batch: _compared(batch).findings,
    keeps=(VIEWS,),
)
