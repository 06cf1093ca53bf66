"""What findings about partitions say, with the records that show it: of one record, of two states, of durations."""

import pytest
from msgspec.structs import replace

from audit.records.findings import AuditFinding
from audit.rules.decision_sequences import describe_decision
from audit.rules.limits import Limits
from cluster.model.broker import BrokerId, LeaderEpoch, Offset, PartitionEpoch
from state_log.decision_histories import ISR_CHANGE_KEEPS_LEADER
from state_log.record import Kind, LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit
from tests.unit.audit.rules.test_recreations import ABSENT, NEW, OFFLINE, ONLINE, record
from tests.unit.audit.rules.test_texts_and_edges import ROLE, STATE

SECOND = 1000


def found_in(*records: LoggedStateChange, rule: str, limits: Limits = Limits()) -> list[AuditFinding]:
    return [finding for finding in ColumnarAudit(limits).check(records) if finding.rule == rule]


@pytest.mark.parametrize(
    ("rule", "given", "message"),
    [
        (
            "legal-partition-transition",
            record(5, from_state=ABSENT, to_state=ONLINE),
            "NonExistentPartition to OnlinePartition is not in the table",
        ),
        ("legal-partition-transition", record(5, from_state=ABSENT, to_state=NEW), None),
        ("legal-partition-transition", record(5, to_state=ONLINE), "None to OnlinePartition is not in the table"),
        (
            "legal-replica-transition",
            record(5, kind=Kind.REPLICA, broker=2, from_state="OnlineReplica", to_state="NewReplica"),
            "OnlineReplica to NewReplica is not in the table",
        ),
        ("leader-in-isr", replace(STATE, leader=BrokerId(3)), "leader 3 is not in the ISR [1]"),
        ("leader-in-isr", replace(STATE, leader=BrokerId(0)), "leader 0 is not in the ISR [1]"),
        ("leader-in-isr", replace(STATE, leader=BrokerId(-1)), None),
        ("isr-not-empty", replace(STATE, isr=()), "the ISR is empty"),
        ("isr-without-repetition", replace(STATE, isr=(1, 1)), "the ISR [1, 1] names a broker twice"),
        (
            "isr-within-replicas",
            replace(STATE, isr=(1, 3)),
            "the ISR [1, 3] has members that are not among the replicas [1, 2]",
        ),
        (
            "no-truncation-below-high-watermark",
            replace(ROLE, seq=5, kind=Kind.TRUNCATION, to_offset=Offset(3), high_watermark=Offset(4)),
            "the log was truncated to 3, below its high watermark 4",
        ),
        (
            "no-truncation-below-high-watermark",
            replace(ROLE, kind=Kind.TRUNCATION, to_offset=Offset(4), high_watermark=Offset(4)),
            None,
        ),
    ],
)
def test_a_finding_of_one_record(rule: str, given: LoggedStateChange, message: str | None) -> None:
    name = f"{given.node}/1.1/5"
    expected = AuditFinding(
        rule, f"t-0 record {name}", message or "", (name,), topic="t", partition=0, at_ms=given.at_ms
    )
    # Beside others of the same kind that violate nothing.
    others = [record(6, from_state=OFFLINE, to_state=OFFLINE), replace(STATE, seq=7, from_state=OFFLINE)]
    assert found_in(given, *others, rule=rule) == ([] if message is None else [expected])


def test_a_change_of_the_isr_is_named_by_its_reason() -> None:
    before = {"leader": 1, "leader_epoch": 3, "isr": [1, 2], "reason": None}
    after = {"leader": 2, "leader_epoch": 4, "isr": [2], "reason": "asked by broker 2"}
    assert describe_decision("another-rule", before, after) is None
    assert describe_decision(ISR_CHANGE_KEEPS_LEADER, before, after) == (
        "a change of the ISR, asked by broker 2, made leader 2 in leader epoch 4 of leader 1 in leader epoch 3"
    )
    assert "ISR, , made" in str(describe_decision(ISR_CHANGE_KEEPS_LEADER, before, {**after, "reason": None}))


def state(epoch: int, leader: int, isr: tuple[int, ...] = (1, 2), *, leader_epoch: int = 0) -> LoggedStateChange:
    """A state of its partition epoch, written as many seconds after the first."""
    return replace(
        STATE,
        seq=epoch,
        at_ms=epoch * SECOND,
        partition_epoch=PartitionEpoch(epoch),
        leader_epoch=LeaderEpoch(leader_epoch),
        leader=BrokerId(leader),
        isr=isr,
        from_state=OFFLINE,
    )


LIMITS = Limits(leaderless_ms=SECOND, under_min_isr_ms=2 * SECOND, calm_ms=2 * SECOND, leader_changes=2, isr_shrinks=1)
LED = replace(ROLE, at_ms=0, seq=1, leader_epoch=0, partition_epoch=0, isr=(1, 2), min_insync_replicas=2)


@pytest.mark.parametrize(
    ("rule", "records", "message", "named"),
    [
        (
            "leaderless-too-long",
            [state(0, 1), state(1, -1), state(2, -1), state(3, 1)],
            "it had no leader for 2 s, from 1970-01-01 00:00:01.000 on: more than 1 s",
            (1, 3),
        ),
        ("leaderless-too-long", [state(0, 1), state(1, -1), state(2, 1)], None, ()),
        (
            "under-min-isr-too-long",
            [LED, state(0, 1), state(1, 1, (1,)), state(2, 1, (1,)), state(4, 1)],
            "it had fewer replicas in sync than min.insync.replicas for 3 s, from 1970-01-01 00:00:01.000 on: "
            "more than 2 s",
            (1, 4),
        ),
        (
            "leader-flapping",
            [state(epoch, 1 + epoch % 2, leader_epoch=epoch) for epoch in range(4)],
            "the leader changed 3 times within 2 s, never 2 s apart",
            (1, 2, 3),
        ),
        ("leader-flapping", [state(epoch, 1 + epoch % 2, leader_epoch=epoch) for epoch in range(3)], None, ()),
        (
            "isr-flapping",
            [state(epoch, 1, (1,) if epoch % 2 else (1, 2)) for epoch in range(4)],
            "the ISR lost a member 2 times within 2 s, never 2 s apart",
            (1, 3),
        ),
    ],
)
def test_a_finding_of_how_long_or_how_often(
    rule: str, records: list[LoggedStateChange], message: str | None, named: tuple[int, ...]
) -> None:
    found = found_in(*records, rule=rule, limits=LIMITS)
    if message is None:
        assert found == []
        return
    ((subject, said, shown, at_ms),) = ((f.subject, f.message, f.records, f.at_ms) for f in found)
    assert (subject, said) == (f"t-0 partition-epoch {named[0]}", message)
    assert shown == tuple(f"controller-1/1.1/{number}" for number in named)
    assert at_ms == named[-1] * SECOND


def test_a_condition_of_the_newest_state_is_open_since_it_began() -> None:
    audit = ColumnarAudit(LIMITS)
    audit.check([state(0, 1), state(1, -1), state(2, -1)])
    (opened,) = audit.waiting["open"].to_pylist()
    assert (opened["rule"], opened["sub"], opened["record"]) == ("leaderless-too-long", 1, "controller-1/1.1/1")
    assert (opened["since_ms"], opened["elapsed_ms"], opened["at_ms"]) == (SECOND, SECOND, 2 * SECOND)
    audit.check([state(3, 1)])
    assert audit.waiting["open"].num_rows == 0


def move(seq: int, to_state: str, replicas: tuple[int, ...], **fields: tuple[int, ...]) -> LoggedStateChange:
    return replace(record(seq, kind=Kind.ASSIGNMENT, to_state=to_state, replicas=replicas, **fields), topic_id="id")


@pytest.mark.parametrize(
    ("rule", "records", "message", "named"),
    [
        (
            "partition-epoch-nobody-wrote",
            [state(0, 1), state(2, 1)],
            "partition epoch 2 follows 0, and nobody recorded what was written between",
            (0, 2),
        ),
        ("partition-epoch-nobody-wrote", [state(0, 1), state(1, 1)], None, ()),
        (
            "replicas-by-reassignment",
            [state(0, 1), replace(state(1, 1), replicas=(1, 2, 3))],
            "the replicas went from [1, 2] to [1, 2, 3], by no reassignment",
            (0, 1),
        ),
        (
            "move-ends-as-planned",
            [
                move(1, "started", (1, 3, 2), adding_replicas=(3,), removing_replicas=(2,)),
                move(2, "completed", (1, 2)),
            ],
            "a reassignment is completed with the replicas [1, 2], after [1, 3, 2] with [3] being added and [2] "
            "removed",
            (1, 2),
        ),
        (
            "move-ends-as-planned",
            [state(0, 1), move(1, "started", (1, 4, 3), adding_replicas=(3,), removing_replicas=(4,))],
            "a reassignment starts with the replicas [1, 4, 3], of which [3] are new, after [1, 2]",
            (0, 1),
        ),
    ],
)
def test_a_finding_of_what_became_of_the_replicas(
    rule: str, records: list[LoggedStateChange], message: str | None, named: tuple[int, ...]
) -> None:
    of_topic = [replace(each, topic_id="id") for each in records]
    whole, parts = ColumnarAudit(), ColumnarAudit()
    whole.check(of_topic)
    for each in of_topic:
        parts.check([each])
    assert parts.findings == whole.findings
    found = [finding for finding in whole.findings.values() if finding.rule == rule]
    names = tuple(f"controller-1/1.1/{number}" for number in named)
    assert [(f.message, f.records) for f in found] == ([] if message is None else [(message, names)])
