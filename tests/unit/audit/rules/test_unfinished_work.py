"""Reassignments and deletions of topics: which took too long, and which have not ended."""

from itertools import permutations

import pytest

from audit.rules.limits import Limits
from audit.rules.unfinished_work import (
    DELETION_STALLED,
    REASSIGNMENT_STALLED,
    DeletionStep,
    add_deletions,
    open_deletions,
    stalled_deletions,
)
from state_log.record import Kind, LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit, table_of

LIMITS = Limits(reassignment_ms=5_000)


def step(seq: int, kind: Kind, to_state: str, at_ms: int, **fields: object) -> LoggedStateChange:
    given = {"controller_epoch": 1, "topic": "t", **fields}
    return LoggedStateChange(
        kind=kind, v=2, seq=seq, node="controller-1", incarnation="1.1", at_ms=at_ms, to_state=to_state, **given
    )  # type: ignore[arg-type]


def moved(seq: int, to_state: str, at_ms: int, **fields: object) -> LoggedStateChange:
    return step(seq, Kind.ASSIGNMENT, to_state, at_ms, **{"partition": 0, **fields})


STARTED = moved(0, "started", 0)


@pytest.mark.parametrize(
    ("last", "is_late", "is_open"),
    [
        (moved(1, "completed", 5_000), False, False),
        (moved(1, "completed", 5_001), True, False),
        (moved(1, "cancelled", 9_000), True, False),
        (moved(1, "started", 9_000), True, True),
        (moved(1, "other", 9_000), False, True),
        (moved(1, "completed", 9_000, controller_epoch=None), False, True),
        (moved(1, "completed", 9_000, partition=1), False, True),
        (moved(9, "completed", 9_000, controller_epoch=0), False, True),
        (step(1, Kind.PARTITION, "NonExistentPartition", 9_000, partition=0), True, False),
        (step(1, Kind.PARTITION, "OfflinePartition", 9_000, partition=0), False, True),
    ],
)
@pytest.mark.parametrize("batches", [1, 2])
def test_a_reassignment_lasts_until_the_next_step(
    last: LoggedStateChange, is_late: bool, is_open: bool, batches: int
) -> None:
    audit = ColumnarAudit(LIMITS)
    for batch in [[STARTED], [last]] if batches == 2 else [[STARTED, last]]:
        audit.check(batch)
    late = [finding for finding in audit.findings.values() if finding.rule == REASSIGNMENT_STALLED]
    assert [(finding.subject, finding.records, finding.at_ms) for finding in late] == [
        ("t-0 record controller-1/1.1/0", ("controller-1/1.1/0", last.reference), last.at_ms)
    ] * is_late
    assert bool(audit.waiting["reassigning"].num_rows) == is_open


def test_what_is_open_says_since_when_and_by_which_record() -> None:
    audit = ColumnarAudit(LIMITS)
    audit.check([moved(3, "started", 700, topic_id="id")])
    assert audit.waiting["reassigning"].drop_columns(["key"]).to_pylist() == [
        {
            **{"sub": (1 << 32) + 3, "rule": REASSIGNMENT_STALLED, "since_ms": 700, "elapsed_ms": 0, "at_ms": 700},
            **{"record": "controller-1/1.1/3", "topic": "t", "topic_id": "id", "partition": 0},
        }
    ]


def test_a_late_reassignment_is_said_in_seconds() -> None:
    audit = ColumnarAudit(LIMITS)
    audit.check([STARTED, moved(1, "completed", 9_000)])
    (found,) = audit.findings.values()
    assert found.message == ("the reassignment took 9 s from 1970-01-01 00:00:00.000 to the next step: more than 5 s")


def steps_of(*records: LoggedStateChange) -> dict[str, list[DeletionStep]]:
    known: dict[str, list[DeletionStep]] = {}
    add_deletions(known, table_of(records))
    return known


DELETION = [
    step(0, Kind.DELETION, "started", 0, topic_id="id"),
    step(1, Kind.DELETION, "completed", 9_000, topic_id="id"),
    step(2, Kind.DELETION, "started", 10_000, topic_id="id"),
]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_steps_of_deletions_have_the_order_of_the_log_whatever_arrives_first(order: tuple[int, ...]) -> None:
    known: dict[str, list[DeletionStep]] = {}
    for number in order:
        assert add_deletions(known, table_of([DELETION[number]])) == {"t (id)"}
    assert add_deletions(known, table_of(DELETION)) == set()
    assert known == {"t (id)": [DeletionStep(1, n, r.at_ms, n != 1, r.reference) for n, r in enumerate(DELETION)]}


@pytest.mark.parametrize(
    ("record", "begins"),
    [
        (step(0, Kind.DELETION, "started", 0), True),
        (step(0, Kind.DELETION, "completed", 0), False),
        (step(0, Kind.TOPIC, "removed", 0), False),
        (step(0, Kind.TOPIC, "deleted", 0), False),
        (step(0, Kind.TOPIC, "started", 0), None),
        (step(0, Kind.TOPIC, "created", 0), None),
        (step(0, Kind.DELETION, "started", 0, controller_epoch=None), None),
        (step(0, Kind.CONFIG, "completed", 0), None),
    ],
)
def test_a_record_begins_a_deletion_or_ends_it(record: LoggedStateChange, begins: bool | None) -> None:
    assert [each.begins for steps in steps_of(record).values() for each in steps] == (
        [] if begins is None else [begins]
    )


@pytest.mark.parametrize(("limit_ms", "count"), [(9_000, 0), (8_999, 1)])
def test_a_deletion_lasts_until_the_next_step(limit_ms: int, count: int) -> None:
    (steps,) = steps_of(*DELETION).values()
    found = list(stalled_deletions("t (id)", steps, limit_ms))
    first, second, _ = (record.reference for record in DELETION)
    assert [(each.rule, each.subject, each.records, each.topic, each.at_ms) for each in found] == [
        (DELETION_STALLED, f"t (id) record {first}", (first, second), "t", 9_000)
    ] * count
    assert all(each.message.startswith("the deletion of the topic took 9 s from 1970-01-01 00:00:00") for each in found)


def test_a_deletion_that_has_not_ended_is_open() -> None:
    (row,) = open_deletions(steps_of(*DELETION, step(0, Kind.DELETION, "completed", 5, topic="u")))
    assert row == {
        **{"rule": DELETION_STALLED, "since_ms": 10_000, "elapsed_ms": 0, "at_ms": 10_000, "topic": "t"},
        **{"record": "controller-1/1.1/2", "topic_id": "id", "partition": None},
    }
    (row,) = open_deletions(steps_of(step(0, Kind.DELETION, "started", 5)))
    assert (row["topic"], row["topic_id"]) == ("t", None)
