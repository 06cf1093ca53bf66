"""Which entries of `/admin/reassign_partitions` begin, which stay, and which leave."""

from collections.abc import Sequence

import pytest

from cluster.model.partition import ReplicaAssignment
from controller.changes import ControllersListed, DeletionsQueued, LeadershipsRead, ReassignmentsStarted
from controller.changes import ReassignmentsWritten as Written
from controller.context.controller_context import ControllerContext
from controller.decisions.reassignment.phases import BEING_DELETED, NO_REPLICAS, UNKNOWN_PARTITION, RefusedMove
from controller.decisions.reassignment.requested_moves import IN_PLACE, plan_requested_moves
from tests.controllers.contexts import assignment, context, ids, leadership, tp

UNDER_WAY = None


def cluster() -> ControllerContext:
    """t-0 is on its way from 1, 2 to 1, 3; the others rest."""
    view = context(
        (1, 2, 3),
        {"t-0": [1, 2], "t-1": [1, 2], "d-0": [1, 2]},
        {"t-0": leadership(1, [1, 2]), "t-1": leadership(1, [1, 2]), "d-0": leadership(1, [1])},
    )
    view.apply(Written({tp("t-0"): assignment([1, 3, 2], [3], [2])}))
    view.apply(ReassignmentsStarted((tp("t-0"),)))
    view.apply(DeletionsQueued(("d",)))
    view.apply(ControllersListed(frozenset(ids(1001))))
    return view


@pytest.mark.rule("D-95", "D-20", "RA-32", "RA-61", "RA-62")
@pytest.mark.parametrize(
    ("name", "target", "added", "new"),
    [
        ("t-0", [1, 3], UNDER_WAY, UNDER_WAY),
        ("t-0", [1, 1, 3], UNDER_WAY, UNDER_WAY),
        ("t-0", [3, 1], assignment([3, 1, 2], [3], [2]), assignment([3, 1, 2], [3], [2])),
        ("t-0", [1, 4], assignment([1, 4, 2], [4], [2]), assignment([1, 4, 2], [4], [2])),
        ("t-0", [1, 2], assignment([1, 2]), assignment([1, 2])),
        ("t-1", [2, 3], assignment([2, 3, 1], [3], [1]), assignment([2, 3, 1], [3], [1])),
        ("t-1", [2, 1], assignment([2, 1]), assignment([2, 1])),
        ("t-1", [1, 2], IN_PLACE, assignment([1, 2])),
        ("t-1", [1, 2, 1], IN_PLACE, assignment([1, 2])),
        ("t-1", [9], assignment([9, 1, 2], [9], [1, 2]), assignment([9, 1, 2], [9], [1, 2])),
        ("t-1", [], NO_REPLICAS, NO_REPLICAS),
        ("t-7", [1], UNKNOWN_PARTITION, UNKNOWN_PARTITION),
        ("nosuch-0", [1], UNKNOWN_PARTITION, UNKNOWN_PARTITION),
        ("d-0", [1, 2], BEING_DELETED, BEING_DELETED),
    ],
)
def test_only_what_differs_begins(
    name: str,
    target: Sequence[int],
    added: ReplicaAssignment | RefusedMove | None,
    new: ReplicaAssignment | RefusedMove | None,
) -> None:
    for is_new, expected in ((False, added), (True, new)):
        plan = plan_requested_moves(cluster(), {tp(name): ids(*target)}, is_new=is_new)
        assert plan.moves == ({tp(name): expected} if isinstance(expected, ReplicaAssignment) else {})
        assert plan.dropped == ({tp(name): expected} if isinstance(expected, RefusedMove) else {})


@pytest.mark.rule("D-95", "RA-60")
@pytest.mark.parametrize("target", [[1001], [1, 2]])
def test_what_is_refused_leaves_with_its_reason(target: list[int]) -> None:
    view = cluster()
    # Only the replica that is being added is in sync.
    view.apply(LeadershipsRead({tp("t-0"): leadership(3, [3])}))
    plan = plan_requested_moves(view, {tp("t-0"): ids(*target)}, is_new=False)
    assert not plan.moves
    assert plan.dropped[tp("t-0")].message
