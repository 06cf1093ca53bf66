"""What a deletion would do at once, told without doing it: the living stop and go, the dead stay."""

from cluster.broker import BrokerId, ControllerId
from cluster.requests.plans import PlannedRequest
from controller.changes import DeletionsQueued, ReassignmentsStarted
from controller.decisions.broker_requests import RequestSettings
from controller.decisions.topics.deletion_preview import preview_deletions
from tests.contexts import context, ids, leadership, tp

ME = ControllerId(1001)


def test_living_replicas_stop_one_after_the_other_and_dead_ones_are_left() -> None:
    view = context(
        [1, 2],
        {"t-0": [1, 2, 3], "t-1": [2, 3], "t-2": [3, 1]},
        {"t-0": leadership(1, [3, 1, 2], leader_epoch=4, partition_epoch=9), "t-1": leadership(3, [3])},
    )
    plan = preview_deletions(view, ["t"], ME, RequestSettings())
    assert [(c.topic, c.before.partition) for c in plan.changes] == [("t", 0), ("t", 1), ("t", 2)]
    # Before, everything is as it is known.
    assert [(c.before.leader, c.before.leader_epoch, c.before.partition_epoch, c.before.isr) for c in plan.changes] == [
        (1, 4, 9, (3, 1, 2)),
        (3, 0, 0, (3,)),
        (-1, -1, -1, ()),
    ]
    assert [change.before.replicas for change in plan.changes] == [ids(1, 2, 3), ids(2, 3), ids(3, 1)]
    first, second, third = (change.after for change in plan.changes)
    assert (first.leader, first.leader_epoch, first.partition_epoch, first.isr) == (-1, 6, 11, (3,))
    # Who is not in sync costs no epoch, and who never had a leader has none.
    assert (second.leader, second.leader_epoch, second.isr) == (3, 0, (3,))
    assert (third.leader, third.leader_epoch, third.isr) == (-1, -1, ())
    assert [change.after.replicas for change in plan.changes] == [ids(3)] * 3
    one, two = BrokerId(1), BrokerId(2)
    assert plan.requests == (
        PlannedRequest(one, "UpdateMetadata", 2),
        PlannedRequest(two, "UpdateMetadata", 2),
        PlannedRequest(one, "UpdateMetadata", 0),
        PlannedRequest(two, "UpdateMetadata", 0),
        PlannedRequest(one, "StopReplica", 2),
        PlannedRequest(two, "StopReplica", 2),
        PlannedRequest(one, "StopReplica", 2, delete=True),
        PlannedRequest(two, "StopReplica", 2, delete=True),
    )
    assert view.topics_to_be_deleted == set()


def test_topics_that_are_marked_already_or_on_the_move_contribute_nothing() -> None:
    view = context([1], {"queued-0": [1], "moving-0": [1]}, {"moving-0": leadership(1, [1])})
    view.apply(DeletionsQueued(("queued",)))
    view.apply(ReassignmentsStarted((tp("moving-0"),)))
    plan = preview_deletions(view, ["queued", "moving"], ME, RequestSettings())
    assert (plan.changes, plan.requests) == ((), ())
