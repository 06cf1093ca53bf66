"""Unclean elections and what they lost; truncations that they explain."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from audit.rules.unclean_elections import RECORDS_LOST, UNCLEAN_ELECTION
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch
from state_log.invariants import TRUNCATED_BELOW_HIGH_WATERMARK
from state_log.record import Kind, LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit


def record(node: str, seq: int, kind: Kind, **fields: object) -> LoggedStateChange:
    given = {"controller_epoch": ControllerEpoch(1), "topic": "orders", "partition": 0, "at_ms": 1_000 + seq, **fields}
    return LoggedStateChange(kind=kind, v=2, seq=seq, node=node, incarnation="1700000000000.1", **given)  # type: ignore[arg-type]


def state(epoch: int, leader: int, leader_epoch: int, isr: Sequence[int]) -> LoggedStateChange:
    fields = {"leader": BrokerId(leader), "leader_epoch": LeaderEpoch(leader_epoch), "isr": tuple(map(BrokerId, isr))}
    moved = {
        "from_state": "OnlinePartition" if epoch else "NewPartition",
        "to_state": "OnlinePartition",
        "replicas": (1, 2, 3),
    }
    return record("controller-1001", epoch, Kind.PARTITION, partition_epoch=PartitionEpoch(epoch), **fields, **moved)


def role(broker: int, of: LoggedStateChange, high_watermark: int | None, end: int | None) -> LoggedStateChange:
    assert of.partition_epoch is not None
    return replace(
        of,
        kind=Kind.ROLE,
        node=f"broker-{broker}",
        seq=of.partition_epoch,
        broker=broker,
        from_state=None,
        to_state="leader" if of.leader == broker else "follower",
        high_watermark=None if high_watermark is None else Offset(high_watermark),
        log_end_offset=None if end is None else Offset(end),
    )


def truncation(broker: int, of: LoggedStateChange, high_watermark: int, end: int) -> LoggedStateChange:
    taken = role(broker, of, high_watermark, None)
    cut = {"to_state": None, "isr": None, "replicas": None, "partition_epoch": None, "controller_epoch": None}
    return replace(
        taken, kind=Kind.TRUNCATION, seq=50 + taken.seq, from_offset=Offset(99), to_offset=Offset(end), **cut
    )


FIRST, UNCLEAN = state(0, 1, 0, [1, 2]), state(1, 3, 1, [3])
BEFORE = [FIRST, *(role(broker, FIRST, 0, 0) for broker in (1, 2, 3)), UNCLEAN]


@pytest.mark.parametrize(
    ("roles", "rule", "says"),
    [
        ([], UNCLEAN_ELECTION, "recorded no log end offset"),
        ([role(3, UNCLEAN, None, None)], UNCLEAN_ELECTION, "recorded no log end offset"),
        ([role(3, UNCLEAN, 5, 7)], UNCLEAN_ELECTION, "brokers [1, 2] have recorded no role since"),
        ([role(3, UNCLEAN, 5, 7), role(1, UNCLEAN, 10, 12)], RECORDS_LOST, "at least 3 records were lost"),
        (
            [role(3, UNCLEAN, 5, 7), role(1, UNCLEAN, 10, 12), role(2, UNCLEAN, 11, 12)],
            RECORDS_LOST,
            "; 4 records were lost, from offset 7 up to the high watermark 11 of broker 2",
        ),
        ([role(3, UNCLEAN, 5, 7), *(role(b, UNCLEAN, 7, 9) for b in (1, 2))], UNCLEAN_ELECTION, "no record below"),
    ],
)
def test_an_unclean_election_says_what_it_lost(roles: list[LoggedStateChange], rule: str, says: str) -> None:
    audit = ColumnarAudit()
    audit.check([*BEFORE, *roles])
    (found,) = audit.findings.values()
    assert found.rule == rule
    assert says in found.message


def test_what_the_first_of_two_unclean_elections_lost_the_second_does_not_lose_again() -> None:
    again = state(2, 2, 2, [2])
    roles = [role(3, UNCLEAN, 5, 7), role(1, UNCLEAN, 10, 12), role(2, UNCLEAN, 7, 7)]
    audit = ColumnarAudit()
    audit.check([*BEFORE, *roles, again, *(role(broker, again, 7, 7) for broker in (1, 2, 3))])
    found = {f.subject: f.rule for f in audit.findings.values() if f.rule in {UNCLEAN_ELECTION, RECORDS_LOST}}
    assert found == {"orders-0 leader-epoch 1": RECORDS_LOST, "orders-0 leader-epoch 2": UNCLEAN_ELECTION}


@pytest.mark.parametrize("late", [False, True])
def test_a_truncation_that_an_unclean_election_explains_is_no_fault_of_its_own(late: bool) -> None:
    cut = truncation(1, UNCLEAN, 10, 7)
    roles = [role(3, UNCLEAN, 5, 7), role(2, UNCLEAN, 9, 9)]
    audit = ColumnarAudit()
    for batch in [[cut], [*BEFORE, *roles]] if late else [[*BEFORE, *roles, cut]]:
        audit.check(batch)
    (found,) = audit.findings.values()
    assert (found.rule, found.records[-1]) == (RECORDS_LOST, cut.reference)


def test_a_later_truncation_is_not_explained_by_it() -> None:
    later = state(2, 3, 2, [1, 3])
    roles = [role(3, UNCLEAN, 5, 7), role(2, UNCLEAN, 7, 9), role(1, UNCLEAN, 7, 9)]
    audit = ColumnarAudit()
    audit.check([*BEFORE, *roles, later, truncation(2, later, 20, 15)])
    # The later state is as of an election that adds replicas, which is a rule of its own.
    expected = {UNCLEAN_ELECTION, TRUNCATED_BELOW_HIGH_WATERMARK, "election-adds-no-replica"}
    assert {rule for rule, _ in audit.findings} == expected


@pytest.mark.parametrize("at_once", [False, True])
def test_of_two_high_watermarks_in_an_epoch_the_higher_counts(at_once: bool) -> None:
    low, high = (replace(role(1, UNCLEAN, offset, 12), seq=seq) for offset, seq in ((9, 60), (10, 61)))
    audit = ColumnarAudit()
    for batch in (
        [[*BEFORE, role(3, UNCLEAN, 5, 7), low, high]] if at_once else [[*BEFORE, role(3, UNCLEAN, 5, 7), high], [low]]
    ):
        audit.check(batch)
    (found,) = audit.findings.values()
    assert found.records[-1] == high.reference
    assert "at least 3 records were lost" in found.message
