"""Timelines and the rules about time: they depend on the records alone, and say what plain code says."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from audit.rules.durations import ISR_FLAPPING, LEADER_FLAPPING, LEADERLESS, UNDER_MIN_ISR
from audit.rules.limits import Limits
from state_log.histories import WRITTEN_BY_CONTROLLERS
from state_log.record import Kind, LoggedStateChange, by_partition
from tests.audits.columnar_audits import ColumnarAudit
from tests.audits.state_change_histories import draw, shuffled, stamped
from tests.examples import examples
from tests.unit.audit.test_rules import everything, in_batches

SEEDS = st.integers(0, 2**32)
LIMITS = Limits(leaderless_ms=150, under_min_isr_ms=200, calm_ms=120, leader_changes=2, isr_shrinks=1)
RULES = {LEADERLESS, UNDER_MIN_ISR, LEADER_FLAPPING, ISR_FLAPPING}
ELECTIONS = ["Offline", "Offline", "Preferred", "Reassign", "ControlledShutdown"]
ASKED_FOR = {"Reassign", "ControlledShutdown", "replica removed"}
Streams = list[list[LoggedStateChange]]


def timed(seed: int) -> tuple[Streams, Random]:
    """A history in which time passes from one partition epoch to the next, with clocks that differ now and then, and in
    which elections have all kinds of reasons; at its end some partitions are deleted.
    """
    random = Random(seed)
    cluster = draw(seed, steps=random.randrange(5, 120), partitions=random.randrange(1, 4))
    steps = [random.choice([1, 20, 50, 100, 300, -40]) for _ in range(200)]
    elections = random.choices(ELECTIONS, k=200)
    for number in random.sample(range(len(cluster.partitions)), random.randrange(len(cluster.partitions) + 1)):
        cluster.delete(number)

    def at(record: LoggedStateChange) -> LoggedStateChange:
        if record.to_state == "NonExistentPartition":
            return replace(record, at_ms=1_700_000_000_000 + sum(steps[: random.randrange(200)]))
        if record.partition_epoch is None:
            return record
        at_ms = 1_700_000_000_000 + sum(steps[: record.partition_epoch + 1])
        fields = {"min_insync_replicas": random.choice([1, 2, 2, 5])} if record.kind is Kind.ROLE else {}
        reason = elections[record.partition_epoch] if record.reason in ELECTIONS else record.reason
        return replace(record, at_ms=at_ms + random.choice([0, 1, 2]), reason=reason, **fields)

    return [[at(record) for record in stream] for stream in stamped(cluster.logs) if stream], random


@examples(16, deep=100)
@given(seed=SEEDS)
def test_they_depend_on_the_records_and_not_on_batches_or_their_order(seed: int) -> None:
    streams, random = timed(seed)
    whole, parts = ColumnarAudit(LIMITS), ColumnarAudit(LIMITS)
    whole.check(everything(streams))
    for batch in in_batches(shuffled(streams, random), random):
        parts.check(batch)
    assert parts.findings == whole.findings
    assert parts.timelines == whole.timelines
    assert open_rows(parts) == open_rows(whole)


def open_rows(audit: ColumnarAudit) -> list[str]:
    return sorted(map(str, audit.waiting["open"].to_pylist()))


class State:
    """What plain code knows of a state."""

    def __init__(self, record: LoggedStateChange, min_isr: int | None) -> None:
        assert record.leader is not None
        assert record.isr is not None
        assert record.replicas is not None
        assert record.partition_epoch is not None
        self.epoch, self.leader, self.isr, self.at_ms = record.partition_epoch, record.leader, record.isr, record.at_ms
        self.is_asked_for = record.reason in ASKED_FOR
        wanted = 0 if min_isr is None else min(min_isr, len(record.replicas))
        self.leaderless = record.leader < 0
        self.under_min_isr = record.leader >= 0 and len(record.isr) < wanted


def states_of(records: Sequence[LoggedStateChange], partition: int) -> list[State]:
    """The states of a partition by partition epoch, as who wrote them recorded them."""
    parts = [part for record in records for tp, part in by_partition(record) if tp.partition == partition]
    least: dict[tuple[int | None, int | None], int] = {}
    for part in parts:
        if part.kind is Kind.ROLE and part.to_state == "leader" and part.min_insync_replicas is not None:
            name = (part.leader_epoch, part.leader)
            least[name] = min(part.min_insync_replicas, least.get(name, 99))
    first: dict[int, LoggedStateChange] = {}
    for part in sorted(parts, key=lambda r: (r.controller_epoch or 0, r.at_ms, r.node, r.incarnation, r.seq)):
        if part.kind in WRITTEN_BY_CONTROLLERS and part.partition_epoch is not None:
            first.setdefault(part.partition_epoch, part)
    return [State(part, least.get((part.leader_epoch, part.leader))) for _, part in sorted(first.items())]


def plainly(states: Sequence[State]) -> Iterator[tuple[str, int]]:
    """(rule, partition epoch) of each finding, state by state."""
    counted: dict[str, list[tuple[int, int]]] = {LEADER_FLAPPING: [], ISR_FLAPPING: []}
    since: dict[str, tuple[int, int]] = {}
    now, led_by = 0, -1
    before: State | None = None
    limits = {LEADERLESS: LIMITS.leaderless_ms, UNDER_MIN_ISR: LIMITS.under_min_isr_ms}
    most = {LEADER_FLAPPING: LIMITS.leader_changes, ISR_FLAPPING: LIMITS.isr_shrinks}
    for state in states:
        now += 0 if before is None else max(0, state.at_ms - before.at_ms)
        for rule, holds in ((LEADERLESS, state.leaderless), (UNDER_MIN_ISR, state.under_min_isr)):
            if holds:
                since.setdefault(rule, (state.at_ms, state.epoch))
            elif rule in since:
                began, epoch = since.pop(rule)
                if state.at_ms - began > limits[rule]:
                    yield rule, epoch
        if state.leader >= 0:
            changes = before is not None and led_by not in {-1, state.leader} and not state.is_asked_for
            shrinks = before is not None and before.leader == state.leader and not set(before.isr) <= set(state.isr)
            shrinks = shrinks and not state.is_asked_for
            for rule, happens in ((LEADER_FLAPPING, changes), (ISR_FLAPPING, shrinks)):
                if happens:
                    counted[rule].append((now, state.epoch))
            led_by = state.leader
        before = state
    for rule, times in counted.items():
        series: list[list[int]] = []
        last = None
        for time, epoch in times:
            if last is None or time - last > LIMITS.calm_ms:
                series.append([])
            series[-1].append(epoch)
            last = time
        yield from ((rule, epochs[0]) for epochs in series if len(epochs) > most[rule])


@examples(40, deep=100)
@given(seed=SEEDS)
def test_they_find_what_plain_code_finds(seed: int) -> None:
    records = everything(timed(seed)[0])
    audit = ColumnarAudit(LIMITS)
    audit.check(records)
    found = {
        (f.rule, int(f.subject.rsplit(" ", 1)[1]), f.partition) for f in audit.findings.values() if f.rule in RULES
    }
    assert found == {(*name, number) for number in range(3) for name in plainly(states_of(records, number))}


@examples(12, deep=30)
@given(seed=SEEDS)
def test_a_timeline_has_every_state_from_one_to_the_next(seed: int) -> None:
    records = everything(timed(seed)[0])
    audit = ColumnarAudit(LIMITS)
    audit.check(records)
    for number in range(3):
        states = states_of(records, number)
        rows = [row for _, row in sorted(audit.timelines.items()) if row["partition"] == number]
        assert [(row["partition_epoch"], row["leader"], row["from_ms"]) for row in rows] == [
            (state.epoch, state.leader, state.at_ms) for state in states
        ]
        ends: list[int | None] = [max(state.at_ms, after.at_ms) for state, after in pairwise(states)]
        gone = [r.at_ms for r in records if r.partition == number and r.to_state == "NonExistentPartition"]
        last = max(min(gone), states[-1].at_ms) if gone and states else None
        assert [row["until_ms"] for row in rows] == [*ends, last][: len(rows)]
