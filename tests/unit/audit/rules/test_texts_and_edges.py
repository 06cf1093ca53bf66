"""What findings say, word by word, and the edges from which on there is one."""

import pytest
from msgspec.structs import replace

from audit.records.findings import NOT_COMPARED, AuditFinding
from audit.rules.applied_states import AGENT_DISAGREES
from audit.rules.recreations import CREATED_ANEW
from audit.rules.role_offsets import HIGH_WATERMARK_WITHIN_LOG
from cluster.model.broker import BrokerId, Offset
from state_log.histories import ONE_LEADER_PER_EPOCH
from state_log.record import Kind, LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit
from tests.unit.audit.rules.test_recreations import ABSENT, NEW, OFFLINE, record

ROLE = replace(
    record(7, kind=Kind.ROLE, to_state="leader", leader=1, leader_epoch=4, partition_epoch=5, isr=(1,), broker=1),
    node="broker-1",
)


def found_in(*records: LoggedStateChange) -> list[AuditFinding]:
    audit = ColumnarAudit()
    return audit.check(records)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_leaders_of_an_epoch_are_named_in_the_order_of_their_records(order: tuple[int, ...]) -> None:
    known = [
        replace(
            ROLE,
            isr=None,
            at_ms=10 * (3 - leader),
            broker=BrokerId(leader),
            leader=BrokerId(leader),
            node=f"broker-{leader}",
        )
        for leader in (1, 2)
    ]
    known.append(
        replace(
            ROLE, kind=Kind.PARTITION, isr=None, to_state=OFFLINE, leader=BrokerId(-1), node="controller-1", at_ms=15
        )
    )
    audit = ColumnarAudit()
    audit.check([known[n] for n in order])
    found = audit.findings[ONE_LEADER_PER_EPOCH, "t-0 leader-epoch 4"]
    assert found == AuditFinding(
        ONE_LEADER_PER_EPOCH,
        "t-0 leader-epoch 4",
        "leader epoch 4 has leader 2 and no leader and leader 1",
        ("broker-2/1.1/7", "controller-1/1.1/7", "broker-1/1.1/7"),
        topic="t",
        partition=0,
        at_ms=20,
    )


@pytest.mark.parametrize(("end", "kind", "is_found"), [(9, Kind.ROLE, 1), (10, Kind.ROLE, 0), (9, Kind.TRUNCATION, 0)])
def test_a_high_watermark_above_the_end_of_the_log(end: int, kind: Kind, is_found: int) -> None:
    given = replace(ROLE, kind=kind, high_watermark=Offset(10), log_end_offset=Offset(end))
    assert [finding for finding in found_in(given) if finding.rule == HIGH_WATERMARK_WITHIN_LOG] == [
        AuditFinding(
            HIGH_WATERMARK_WITHIN_LOG,
            "t-0 record broker-1/1.1/7",
            "the high watermark 10 is above the log end offset 9",
            ("broker-1/1.1/7",),
            topic="t",
            partition=0,
            at_ms=7,
        )
    ] * is_found


@pytest.mark.parametrize("fields", [{"topic": None}, {"partition": None}, {"log_end_offset": None}])
def test_offsets_that_are_of_no_partition_or_incomplete_say_nothing(fields: dict[str, None]) -> None:
    given = replace(ROLE, high_watermark=Offset(10), log_end_offset=Offset(9))
    assert HIGH_WATERMARK_WITHIN_LOG not in {f.rule for f in found_in(replace(given, **fields))}


def test_a_partition_that_is_not_compared_is_named() -> None:
    deleted, created = record(0, from_state=OFFLINE, to_state=ABSENT), record(1, from_state=ABSENT, to_state=NEW)
    message = "it was deleted and created again without a topic id: its states and leaders are not compared"
    assert found_in(deleted, created) == [
        AuditFinding(CREATED_ANEW, "t-0 created anew", message, (), NOT_COMPARED, topic="t", partition=0)
    ]


STATE = record(5, to_state="OnlinePartition", leader=1, leader_epoch=4, partition_epoch=5, isr=(1,), replicas=(1, 2))


@pytest.mark.parametrize("batches", [[[STATE], [ROLE]], [[ROLE], [STATE]], [[STATE, ROLE]]])
@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"leader": BrokerId(2)}, "leader 2, leader epoch 4, ISR [1]"),
        ({"isr": (BrokerId(1), BrokerId(2))}, "leader 1, leader epoch 4, ISR [1, 2]"),
    ],
)
def test_what_an_agent_applied_otherwise_is_said_with_what_was_written(
    batches: list[list[LoggedStateChange]], fields: dict[str, object], shown: str
) -> None:
    audit = ColumnarAudit()
    for batch in batches:
        audit.check([replace(each, **fields) if each.kind is Kind.ROLE else each for each in batch])
    (found,) = (finding for finding in audit.findings.values() if finding.rule == AGENT_DISAGREES)
    assert found.subject.startswith("t-0 partition-epoch 5 content ")
    assert (found.topic, found.partition, found.at_ms) == ("t", 0, 7)
    assert found.records == ("controller-1/1.1/5", "broker-1/1.1/7")
    assert found.message == (
        f"broker-1 applied partition epoch 5 as {shown}; a controller wrote it as leader 1, leader epoch 4, ISR [1]"
    )


@pytest.mark.parametrize("leader", [0, 1, -1])
def test_the_newest_leadership_waits_until_its_leader_takes_it(leader: int) -> None:
    """Without a leader nobody can take it, so that the state stays."""
    state = replace(STATE, leader=BrokerId(leader), isr=(BrokerId(max(leader, 0)),))
    earlier = replace(state, seq=4, partition_epoch=4, leader_epoch=3)
    audit = ColumnarAudit()
    audit.check([state])
    audit.check([earlier])
    assert audit.waiting["untaken"]["sub"].to_pylist() == [5]
    taken = {"broker": BrokerId(leader), "leader": BrokerId(leader), "isr": state.isr, "node": f"broker-{leader}"}
    audit.check([replace(ROLE, **taken)])
    assert audit.waiting["untaken"]["sub"].to_pylist() == ([5] if leader < 0 else [])
    assert audit.waiting["unwritten"].num_rows == 0
