"""Committed records that leaders from the ISR lack, and high watermarks that fall: by columns as by rows."""

from collections.abc import Iterator
from functools import cache

import pytest

from audit.rules.committed_records import ELECTED_HAS_COMMITTED, HIGH_WATERMARK_NEVER_FALLS
from state_log.histories import WRITTEN_BY_CONTROLLERS
from state_log.record import Kind, LoggedStateChange, by_partition
from tests.audits.columnar_audits import ColumnarAudit, audit_batches
from tests.audits.state_change_histories import shuffled
from tests.unit.audit.test_offsets_in_batches import with_offsets
from tests.unit.audit.test_rules import Streams, everything, in_batches

SEEDS = (*range(9), 25)
RULES = {ELECTED_HAS_COMMITTED, HIGH_WATERMARK_NEVER_FALLS}
Finding = tuple[str, tuple[str, ...], str]
"""Its rule, records and message."""


@cache
def compared_findings(seed: int) -> tuple[set[Finding], set[Finding]]:
    """What columns find, and what rows do; batches in another order change nothing about it."""
    streams, random = with_offsets(seed)
    whole, parts = ColumnarAudit(), ColumnarAudit()
    whole.check(everything(streams))
    for batch in in_batches(shuffled(streams, random), random):
        parts.check(batch)
    assert parts.findings == whole.findings
    by_columns = {(f.rule, f.records, f.message) for f in whole.findings.values() if f.rule in RULES}
    return by_columns, {*falls(streams), *lacking(streams)}


def falls(streams: Streams) -> Iterator[Finding]:
    for stream in streams:
        shown: dict[int, tuple[int, LoggedStateChange]] = {}
        for record in (r for r in stream if r.high_watermark is not None and r.kind is Kind.ROLE):
            before, now = shown.get(record.partition or 0), int(record.high_watermark or 0)
            is_lower = before is not None and now < before[0] <= (record.log_end_offset or 0)
            if before is not None and is_lower and epoch(record) <= epoch(before[1]) + 1:
                fall = f"the high watermark of broker {record.broker} fell from {before[0]} to {now}"
                records = before[1].reference, record.reference
                yield HIGH_WATERMARK_NEVER_FALLS, records, f"{fall} while it was the leader"
            shown[record.partition or 0] = now if record.to_state == "leader" else -1, record


def lacking(streams: Streams) -> Iterator[Finding]:
    records = [(tp.partition, part) for record in everything(streams) for tp, part in by_partition(record)]
    roles = [
        (partition, r)
        for partition, r in records
        if r.kind is Kind.ROLE and r.high_watermark is not None and r.to_state in {"leader", "follower"}
    ]
    for partition, before, after in elections(records):
        own = {(r.node, r.incarnation, r.leader_epoch): r for p, r in reversed(roles) if p == partition}
        taken = [r for r in own.values() if r.leader_epoch == after.leader_epoch]
        leads = [r for r in taken if r.to_state == "leader" and r.broker == after.leader]
        shown = [r for r in taken if any(same_run(r, o) and epoch(o) < epoch(r) for o in own.values())]
        if leads and shown and after.leader in (before.isr or ()):
            first = min(leads, key=lambda r: (r.log_end_offset, r.incarnation))
            highest = max(shown, key=lambda r: (r.high_watermark or 0, -(r.broker or 0)))
            end, committed = first.log_end_offset or 0, highest.high_watermark or 0
            if committed > end:
                message = (
                    f"leader {after.leader} of leader epoch {after.leader_epoch} was elected from the ISR, and its log "
                    f"lacks {committed - end} committed records: it ends at {end}, below the high watermark "
                    f"{committed} of broker {highest.broker}"
                )
                yield ELECTED_HAS_COMMITTED, (highest.reference, first.reference), message


def elections(
    records: list[tuple[int, LoggedStateChange]],
) -> Iterator[tuple[int, LoggedStateChange, LoggedStateChange]]:
    states: dict[tuple[int, int], LoggedStateChange] = {}
    for partition, r in records:
        if r.kind in WRITTEN_BY_CONTROLLERS and r.partition_epoch is not None and r.isr is not None:
            states.setdefault((partition, r.partition_epoch), r)
    for (partition, number), after in states.items():
        before = states.get((partition, number - 1))
        if before is not None and epoch(after) != epoch(before) and (after.leader or 0) >= 0:
            yield partition, before, after


def epoch(record: LoggedStateChange) -> int:
    assert record.leader_epoch is not None
    return record.leader_epoch


def same_run(one: LoggedStateChange, other: LoggedStateChange) -> bool:
    return (one.node, one.incarnation) == (other.node, other.incarnation)


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_find_what_rows_do_in_whatever_batches(seed: int) -> None:
    by_columns, by_rows = compared_findings(seed)
    assert by_columns == by_rows


def test_leaders_lack_committed_records_in_some_history() -> None:
    assert {rule for seed in SEEDS for rule, _, _ in compared_findings(seed)[0]} == {ELECTED_HAS_COMMITTED}


@pytest.mark.parametrize(
    ("leader_epoch", "high_watermark", "falls"),
    [
        (4, 7, True),
        (4, 10, False),
        # In the epoch between, the replica may have been stopped, as its disk had failed.
        (5, 7, False),
    ],
)
def test_a_high_watermark_is_compared_with_that_of_the_epoch_before(
    leader_epoch: int, high_watermark: int, falls: bool
) -> None:
    def leads(seq: int, leader_epoch: int, high_watermark: int) -> LoggedStateChange:
        of = {"v": 2, "seq": seq, "node": "broker-1", "incarnation": "1.1", "at_ms": seq, "topic": "t", "partition": 0}
        role = {"kind": Kind.ROLE, "to_state": "leader", "broker": 1, "leader": 1, "isr": (1,), "log_end_offset": 20}
        fields = {**of, **role, "leader_epoch": leader_epoch, "high_watermark": high_watermark}
        return LoggedStateChange(**fields)  # type: ignore[arg-type]

    first, second = leads(0, 3, 10), leads(1, leader_epoch, high_watermark)
    for batches in ([[first, second]], [[first], [second]]):
        found = [f for f in audit_batches(batches).values() if f.rule == HIGH_WATERMARK_NEVER_FALLS]
        assert [f.records for f in found] == ([("broker-1/1.1/0", "broker-1/1.1/1")] if falls else [])
        assert [(f.subject, f.message, f.at_ms) for f in found] == [
            (
                "t-0 record broker-1/1.1/1",
                "the high watermark of broker 1 fell from 10 to 7 while it was the leader",
                1,
            )
        ][: len(found)]


def test_a_log_that_its_directory_took_away_may_come_back_with_an_earlier_high_watermark() -> None:
    def role(seq: int, to_state: str, **more: object) -> LoggedStateChange:
        of = {"v": 2, "seq": seq, "node": "broker-1", "incarnation": "1.1", "at_ms": seq, "topic": "t", "partition": 0}
        fields = {**of, "kind": Kind.ROLE, "to_state": to_state, "broker": 1, "topic_id": "i", **more}
        return LoggedStateChange(**fields)  # type: ignore[arg-type]

    led = role(0, "leader", leader_epoch=3, leader=1, isr=(1,), log_end_offset=20, high_watermark=10)
    offline = role(1, "offline")
    follows = role(2, "follower", leader_epoch=4, leader=2, isr=(2,), log_end_offset=20, high_watermark=7)
    for records, falls in (([led, follows], True), ([led, offline, follows], False)):
        for batches in ([records], [[record] for record in records]):
            found = [f for f in audit_batches(batches).values() if f.rule == HIGH_WATERMARK_NEVER_FALLS]
            assert bool(found) is falls
