"""The ends of brokers' logs: they fall by truncations alone, and followers cut what their leader lacks."""

from collections.abc import Sequence
from itertools import permutations

import pytest

from audit.rules.cut_logs import LOG_END_FELL, NOT_CUT
from cluster.model.broker import BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId
from state_log.record import Kind, LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit


def record(seq: int, kind: Kind, broker: int = 1, **fields: object) -> LoggedStateChange:
    given = {"topic": "t", "topic_id": TopicId("id"), "partition": 0, "at_ms": 1_000 + seq, **fields}
    named = {"node": f"broker-{broker}", "incarnation": "1700000000000.1", "broker": BrokerId(broker), **given}
    return LoggedStateChange(v=2, seq=seq, kind=kind, **named)  # type: ignore[arg-type]


def role(seq: int, epoch: int, end: int, broker: int = 1, leader: int = 2, **fields: object) -> LoggedStateChange:
    return record(
        seq,
        Kind.ROLE,
        broker,
        to_state="leader" if broker == leader else "follower",
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=PartitionEpoch(epoch),
        isr=(BrokerId(leader),),
        high_watermark=Offset(0),
        log_end_offset=Offset(end),
        **fields,
    )


def cut(seq: int, to_offset: int, **fields: object) -> LoggedStateChange:
    return record(seq, Kind.TRUNCATION, from_offset=Offset(99), to_offset=Offset(to_offset), **fields)


def gone(seq: int, to_state: str) -> LoggedStateChange:
    return record(seq, Kind.ROLE, to_state=to_state)


def found(*batches: Sequence[LoggedStateChange]) -> set[tuple[str, tuple[str, ...]]]:
    audit = ColumnarAudit()
    for batch in batches:
        audit.check(batch)
    return {(f.rule, f.records) for f in audit.findings.values() if f.rule in {LOG_END_FELL, NOT_CUT}}


LONG, SHORT = role(3, 5, 9), role(7, 6, 4)


@pytest.mark.parametrize(
    ("between", "is_found"),
    [
        ([], True),
        ([cut(5, 4)], False),
        ([cut(5, 3)], False),
        ([cut(5, 5)], True),
        # It may be recorded after the role, but is of before where it stands before both.
        ([cut(9, 4)], False),
        ([cut(2, 4)], True),
        ([gone(5, "deleted")], False),
        ([gone(5, "offline")], False),
        ([gone(5, "stopped")], True),
        ([record(5, Kind.TRUNCATION, 3, to_offset=Offset(0))], True),
        # It says nothing of where.
        ([record(5, Kind.TRUNCATION)], True),
    ],
)
def test_a_log_becomes_shorter_by_a_truncation(between: Sequence[LoggedStateChange], is_found: bool) -> None:
    wanted = {(LOG_END_FELL, (LONG.reference, SHORT.reference))} if is_found else set()
    for records in permutations([LONG, SHORT, *between]):
        assert found(records) == wanted
        assert found(*([each] for each in records)) == wanted


@pytest.mark.parametrize(
    ("versions", "is_found"), [((), True), ((9,), True), ((9, 10), True), ((8,), False), ((8, 9), False)]
)
def test_where_truncations_were_not_kept_from_the_beginning_nothing_is_found(
    versions: Sequence[int], is_found: bool
) -> None:
    audit = ColumnarAudit(versions=versions)
    audit.check([LONG, SHORT])
    assert [f.rule for f in audit.findings.values()] == ([LOG_END_FELL] if is_found else [])


def test_the_finding_says_where_the_log_ended() -> None:
    audit = ColumnarAudit()
    audit.check([LONG, SHORT])
    (finding,) = (f for f in audit.findings.values() if f.rule == LOG_END_FELL)
    assert finding.message == "the log of broker 1 ended at 9 and then at 4, and it recorded no truncation"


@pytest.mark.parametrize(
    "records",
    [
        # Not of neighbouring leader epochs, of another order, of a topic without an id.
        [LONG, role(7, 7, 4)],
        [role(8, 5, 9), SHORT],
        [role(3, 5, 9, topic_id=None), role(7, 6, 4, topic_id=None)],
        [role(3, 5, 4), role(7, 6, 4)],
        [role(3, 5, 4), role(7, 6, -4)],
        [LONG],
        [cut(3, 1)],
    ],
)
def test_what_is_not_compared_is_not_found(records: Sequence[LoggedStateChange]) -> None:
    assert found(records) == found(*([each] for each in records)) == set()


EARLIER, FOLLOWS, LATER = role(1, 4, 6), role(3, 5, 9), role(7, 6, 12)
LEADS = role(4, 5, 6, 2)


@pytest.mark.parametrize(
    ("more", "is_found"),
    [
        ([EARLIER, LEADS], True),
        ([EARLIER, LEADS, cut(5, 6)], False),
        ([EARLIER, LEADS, cut(5, 7)], True),
        # It was restarted in this epoch, and may have fetched; or nobody knows where the leader began.
        ([LEADS], False),
        ([EARLIER], False),
        ([EARLIER, role(4, 5, 9, 2)], False),
        # The leader took the role twice: the longer log counts.
        ([EARLIER, LEADS, role(9, 5, 10, 2, incarnation="1700000000000.2")], False),
    ],
)
def test_a_follower_cuts_what_its_leader_lacks(more: Sequence[LoggedStateChange], is_found: bool) -> None:
    wanted = {(NOT_CUT, (LEADS.reference, FOLLOWS.reference, LATER.reference))} if is_found else set()
    records = [FOLLOWS, LATER, *more]
    for batch in (records, records[::-1]):
        assert found(batch) == wanted
        assert found(*([each] for each in batch)) == wanted


def test_a_follower_that_fetched_nothing_more_is_not_found() -> None:
    assert found([EARLIER, FOLLOWS, LEADS, role(7, 6, 9)]) == set()
