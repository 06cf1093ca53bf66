"""What agents applied, compared with what controllers wrote: a role follows from a state that a controller wrote.

A role that arrives before its state waits in a table, and so does a leadership that its leader has not yet taken. What
waits at the end is reported by `audit.report.open_conditions`: only then is it known whether the rest of a log is
missing.
"""

from collections.abc import Iterator
from typing import Final

import numpy
import pyarrow

from audit.reading.kafka.rows import without_kafka
from audit.records.findings import AuditFinding, RuleViolation, changes
from audit.records.orders import sorted_order
from audit.records.sealed_runs import Sealing
from audit.records.sorted_runs import NOTHING, Bounds, Runs, SortedRun, gather, neighbours
from audit.records.vectors import Flags, Keys, Longs, group_starts, is_one_of, keys, longs, unique_pairs
from audit.rules.leaderships_taken import TAKEN, TAKEN_READ
from audit.rules.partition_states import (
    STATES,
    STATES_READ,
    WRITTEN,
    describe_state,
    reduce_states,
    state_rows,
)
from audit.rules.recreations import comparable, compared, earlier
from audit.rules.rule import Awaited, BucketBatch, Explanation, Kept, Rule, once
from audit.rules.subjects import NAMED, Subjects, reference
from state_log.kafka.message_fields import CACHED
from state_log.record import Kind

AGENT_DISAGREES: Final = "agent-disagrees-with-controller"
_NAMED_STATES: Final = pyarrow.schema([*STATES, *NAMED])


def _applied_of(rows: pyarrow.Table) -> pyarrow.Table:
    roles = is_one_of(rows["kind"], [Kind.ROLE.value]) & is_one_of(rows["to_state"], ["leader", "follower", CACHED])
    return reduce_states(state_rows(rows, roles)[1])


APPLIED: Final = Kept("applied", STATES, lambda batch: _applied_of(comparable(batch)), reduce_states, Sealing())
"""The states that agents applied. Brokers of Apache Kafka apply what they cache."""


def _unwritten(batch: BucketBatch) -> pyarrow.Table:
    # A log of Apache Kafka does not say where it begins, so that it may lack what was written before.
    new = batch.subjects.named(without_kafka(batch.added(APPLIED)))
    # Those that waited were not written before, so that only what the batch adds can end it.
    new = new.filter(pyarrow.array(~_present(batch.runs(WRITTEN), keys(new["key"]), longs(new["sub"]))))
    unwritten = pyarrow.concat_tables([compared(batch.awaited(UNWRITTEN), batch), new]).unify_dictionaries()
    written = Runs([SortedRun(_own_written(batch))])
    return unwritten.filter(pyarrow.array(~_present(written, keys(unwritten["key"]), longs(unwritten["sub"]))))


def _untaken(batch: BucketBatch) -> pyarrow.Table:
    new = _own_written(batch)
    # A state that arrives late is not the newest: the leadership has passed on since.
    is_newest = neighbours(batch.runs(WRITTEN), keys(new["key"]), longs(new["sub"]))[1] == NOTHING
    newest = batch.subjects.named(new.filter(pyarrow.array(is_newest)).select(STATES.names))
    untaken = _newest(pyarrow.concat_tables([compared(batch.awaited(UNTAKEN), batch), newest]).unify_dictionaries())
    taken = batch.runs(TAKEN).with_open(batch.added(TAKEN))
    done = _present(taken, keys(untaken["key"]), longs(untaken["leader_epoch"]))
    return untaken.filter(pyarrow.array(~done | (longs(untaken["leader"]) < 0)))


@once
def _own_written(batch: BucketBatch) -> pyarrow.Table:
    return without_kafka(batch.added(WRITTEN))


UNWRITTEN: Final = Awaited("unwritten", _NAMED_STATES, _unwritten)
"""Applied states that no controller has written."""
UNTAKEN: Final = Awaited("untaken", _NAMED_STATES, _untaken)
"""The newest state of each partition, if its leader has not taken the leadership."""


def _check(batch: BucketBatch) -> list[AuditFinding]:
    new_written, new_applied = batch.added(WRITTEN), batch.added(APPLIED)
    new = pyarrow.concat_tables([new_written.select(["key", "sub"]), new_applied.select(["key", "sub"])])
    key, sub = unique_pairs(keys(new["key"]), longs(new["sub"]))
    if not len(key):
        return []
    written = gather(batch.runs(WRITTEN), key, sub, WRITTEN.schema.empty_table())
    applied = gather(batch.runs(APPLIED), key, sub, STATES.empty_table())
    before = _contradictions(written, applied, batch.subjects)
    written_now, applied_now = map(pyarrow.concat_tables, ((written, new_written), (applied, new_applied)))
    return changes(before, _contradictions(written_now, applied_now, batch.subjects))


def _present(runs: Runs, key: Keys, sub: Longs) -> Flags:
    """Whether one of the runs has a row of each (key, sub); aligned with these."""
    found = numpy.zeros(len(key), bool)
    for run in runs.at(key, sub):
        bounds = run.find(key, sub)
        found |= bounds.first < bounds.end
    return found


def _newest(states: pyarrow.Table) -> pyarrow.Table:
    """The state of the highest partition epoch of each partition."""
    key, sub = keys(states["key"]), longs(states["sub"])
    order = sorted_order((sub, key))
    starts = group_starts(key[order])
    return states.take(order[numpy.append(starts[1:], len(order))[: len(starts)] - 1])


def _contradictions(written: pyarrow.Table, applied: pyarrow.Table, subjects: Subjects) -> Iterator[AuditFinding]:
    """The applied contents that differ from all that controllers wrote at the same partition epoch."""
    written, applied = reduce_states(written), reduce_states(applied)
    known, other = unlike(written, applied)
    for row in numpy.flatnonzero(other).tolist():
        found = applied.slice(row, 1).to_pylist()[0]
        state = written.slice(int(known.first[row]), 1).to_pylist()[0]
        message = (
            f"{found['node']} applied partition epoch {found['sub']} as {describe_state(found)}; "
            f"a controller wrote it as {describe_state(state)}"
        )
        subject = f"partition-epoch {found['sub']} content {found['content']:016x}"
        records = (reference(state), reference(found))
        violation = RuleViolation(AGENT_DISAGREES, found["key"], subject, message, records, found["at_ms"])
        yield subjects.finding(violation)


def unlike(written: pyarrow.Table, shown: pyarrow.Table) -> tuple[Bounds, Flags]:
    """Find rows whose `content` is none of those that were written at their (key, sub).

    Returns where those written are, and whether the row has none of them and there are some; both aligned with the rows
    of `shown`. `written` is sorted by (key, sub).
    """
    known = SortedRun(written).find(keys(shown["key"]), longs(shown["sub"]))
    content = SortedRun(_by_content(written)).find(*_content_keys(shown))
    return known, (known.first < known.end) & (content.first == content.end)


def _content_keys(states: pyarrow.Table) -> tuple[Keys, Longs]:
    """The (key, sub) of states, with the content made part of the key; aligned with the rows."""
    return keys(states["key"]) ^ keys(states["content"]), longs(states["sub"])


def _by_content(states: pyarrow.Table) -> pyarrow.Table:
    key, sub = _content_keys(states)
    order = sorted_order((sub, key))
    return pyarrow.table({"key": key[order], "sub": sub[order]})


RULE: Final = Rule(
    explains={
        AGENT_DISAGREES: Explanation(
            "critical",
            "What a broker applies at a partition epoch is what a controller wrote at it.",
            "the broker's and the controller's record of that partition epoch",
            kafka="INFO",
        )
    },
    reads=(*STATES_READ, *TAKEN_READ),
    check=_check,
    keeps=(APPLIED, TAKEN),
    awaits=(UNWRITTEN, UNTAKEN),
    withdraw=lambda batch: changes(
        _contradictions(earlier(batch, WRITTEN), earlier(batch, APPLIED), batch.subjects), ()
    ),
)
