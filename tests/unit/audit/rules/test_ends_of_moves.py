"""Reassignments that end, and whether one was under way: started in the term, or loaded when it began."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from audit.rules.moves import MOVE_NEVER_BEGAN, MOVED_AS_PLANNED
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from state_log.record import DecisionInputs, Kind, LoadedMove, LoadedPartition, LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit
from tests.unit.audit.rules.test_offline_leaders import record, state

B = tuple(map(BrokerId, range(5)))


def active(inputs: DecisionInputs | None) -> LoggedStateChange:
    begun = record(0, Kind.CONTROLLER, to_state="active", broker=BrokerId(1), inputs=inputs)
    return replace(begun, topic=None, topic_id=None, partition=None)


PLANNED = active(DecisionInputs(live=(B[1], B[2])))


def loaded(*adding: BrokerId) -> LoggedStateChange:
    replicas = (B[1], B[2], *adding)
    found = LoadedPartition(0, B[1], LeaderEpoch(3), PartitionEpoch(3), (B[1], B[2]), replicas, ControllerEpoch(1))
    moves = (LoadedMove(0, adding, ()),) if adding else None
    return replace(record(1, Kind.LOADED), partition=None, partitions=(found,), moves=moves)


def assigned(seq: int, to_state: str, *replicas: BrokerId, **fields: object) -> LoggedStateChange:
    return record(seq, Kind.ASSIGNMENT, to_state=to_state, replicas=replicas, **fields)


def found(records: Sequence[LoggedStateChange]) -> set[str]:
    """The rules that find something; the same in whatever batches, of which the first has the beginning of the term."""
    rules = []
    backwards = [records[0], *records[:0:-1]]
    for batches in ([records], [[each] for each in records], [[each] for each in backwards]):
        audit = ColumnarAudit()
        for batch in batches:
            audit.check(batch)
        rules.append({f.rule for f in audit.findings.values() if f.rule in {MOVE_NEVER_BEGAN, MOVED_AS_PLANNED}})
    assert rules[0] == rules[1] == rules[2]
    return rules[0]


@pytest.mark.parametrize(
    ("records", "rules"),
    [
        ([PLANNED, loaded(), assigned(4, "completed", B[1], B[2], B[3])], {MOVE_NEVER_BEGAN}),
        ([PLANNED, loaded(), assigned(4, "cancelled", B[1], B[2])], {MOVE_NEVER_BEGAN}),
        # To the replicas that there are.
        ([PLANNED, loaded(), assigned(4, "completed", B[2], B[1])], set()),
        ([PLANNED, loaded(), assigned(4, "started", B[1], B[2])], set()),
        # A controller that does not say which reassignments it has loaded.
        ([active(None), loaded(), assigned(4, "completed", B[1], B[2], B[3])], set()),
        ([loaded(), assigned(4, "completed", B[1], B[2], B[3])], set()),
        # Nobody knows which replicas there were.
        ([PLANNED, assigned(4, "completed", B[1], B[2], B[3])], set()),
        # It was under way.
        ([PLANNED, loaded(B[3]), assigned(4, "cancelled", B[1], B[2])], set()),
        ([PLANNED, loaded(B[3]), assigned(4, "completed", B[1], B[2])], {MOVED_AS_PLANNED}),
        (
            [
                *(PLANNED, loaded(), assigned(3, "started", B[1], B[2], B[3], adding_replicas=(B[3],))),
                *(assigned(4, "cancelled", B[1], B[2]), assigned(5, "completed", B[1], B[2])),
            ],
            set(),
        ),
        (
            [PLANNED, assigned(3, "started", B[1]), assigned(4, "completed", B[1]), assigned(5, "cancelled", B[1])],
            {MOVE_NEVER_BEGAN},
        ),
    ],
)
def test_a_reassignment_that_ends_was_under_way(records: Sequence[LoggedStateChange], rules: set[str]) -> None:
    assert found(records) == rules


def test_the_replicas_of_an_earlier_term_are_known() -> None:
    """The first assignment of a term that is completed has the replicas of the last one of the term before."""
    earlier = assigned(3, "completed", B[1], B[2], B[3])
    later = [replace(each, controller_epoch=ControllerEpoch(2)) for each in (PLANNED, loaded(), earlier)]
    again = [replace(each, seq=each.seq + 10) for each in later]
    assert found([again[0], state(2, 1, 3), earlier, *again[1:]]) == set()


def test_the_finding_names_the_end_alone() -> None:
    audit, end = ColumnarAudit(), assigned(4, "cancelled", B[1], B[2])
    audit.check([PLANNED, loaded(), end])
    (finding,) = (f for f in audit.findings.values() if f.rule == MOVE_NEVER_BEGAN)
    assert finding.message == "a reassignment to [1, 2] is cancelled, and none was under way"
    assert finding.records == (end.reference,)
