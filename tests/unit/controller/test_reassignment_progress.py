"""What is said of moves: those under way, why they are stuck, and what a request would do."""

import pytest

from cluster.broker import BrokerEpoch, BrokerId, ControllerId
from cluster.requests.plans import DescribedPartition, PlannedRequest
from cluster.requests.reassignments import OngoingPartitionReassignment, OngoingTopicReassignment, TargetReplica
from controller.changes import BrokerShuttingDown, ReassignmentsStarted, ReassignmentsWritten
from controller.context import ControllerContext
from controller.decisions.broker_requests import RequestSettings
from controller.decisions.reassignment.preview import preview_reassignment
from controller.decisions.reassignment.progress import describe_reassignment, list_reassignments, stuck_reason
from tests.contexts import EPOCH, assignment, context, ids, leadership, tp

T0, T1 = tp("t-0"), tp("t-1")


def moving(*brokers: int, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> ControllerContext:
    built = context(brokers, {"t-0": [1, 2], "t-1": [1, 2]}, {"t-0": leadership(leader, isr)})
    built.apply(ReassignmentsWritten({T0: assignment([3, 4, 1, 2], [3, 4], [1, 2])}))
    built.apply(ReassignmentsStarted((T0,)))
    return built


@pytest.mark.rule("RA-50")
def test_partitions_that_are_not_on_the_move_are_not_listed() -> None:
    ongoing = OngoingPartitionReassignment(0, ids(3, 4, 1, 2), ids(3, 4), ids(1, 2))
    listed = list_reassignments(moving(1, 2, 3, 4), [T0, T1, tp("nobody-3")])
    assert listed == (OngoingTopicReassignment("t", (ongoing,)),)


def test_a_move_is_described_with_the_progress_of_each_target() -> None:
    described = describe_reassignment(moving(1, 2, 3, isr=(1, 2, 3)), T0)
    assert described.targets == (TargetReplica(ids(3)[0], True, True), TargetReplica(ids(4)[0], False, False))
    assert (described.leader, described.isr) == (1, (1, 2, 3))
    assert described.stuck_reason == "target 4 not registered"
    unled = describe_reassignment(context((1,), {"t-1": [1, 2]}), T1)
    assert (unled.leader, unled.isr) == (-1, ())


def test_why_a_move_is_stuck() -> None:
    assert stuck_reason(moving(1, 2, 3, 4), T0) == ""
    assert stuck_reason(moving(1, 2), T0) == "targets 3, 4 not registered"
    assert stuck_reason(moving(2, 3, 4), T0) == "the partition has no leader to copy from"
    assert stuck_reason(moving(1, 2, 3, 4, leader=-1), T0) == "the partition has no leader to copy from"
    view = moving(1, 2, 3, 4)
    view.apply(BrokerShuttingDown(BrokerId(1), BrokerEpoch(101)))
    view.apply(BrokerShuttingDown(BrokerId(3), BrokerEpoch(103)))
    view.offline_directories[ids(4)[0]] = {T0}
    assert stuck_reason(view, T0) == "target 3 shutting down; target 4 on a failed log directory"
    assert stuck_reason(context((1,), {"t-1": [1]}), T1) == "the partition has no leader to copy from"


def preview(
    view: ControllerContext, wanted: dict[str, object]
) -> tuple[DescribedPartition, tuple[PlannedRequest, ...]]:
    plan = preview_reassignment(
        view,
        {tp(name): lists for name, lists in wanted.items()},
        ControllerId(1001),
        RequestSettings(),  # type: ignore[misc]
    )
    (change,) = plan.changes
    assert change.before.replicas == view.assignment(tp("t-0")).replicas
    return change.after, plan.requests


def requests(*rows: tuple[int, str, int]) -> tuple[PlannedRequest, ...]:
    return tuple(PlannedRequest(ids(broker)[0], name, partitions) for broker, name, partitions in rows)


def at_rest(*brokers: int, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> ControllerContext:
    return context(brokers, {"t-0": [1, 2]}, {"t-0": leadership(leader, isr)})


def test_a_dry_run_of_a_move_stops_where_copying_begins() -> None:
    after, sent = preview(at_rest(1, 2, 3), {"t-0": assignment([2, 3, 1], [3], [1])})
    assert (after.replicas, after.adding_replicas, after.removing_replicas) == ((2, 3, 1), (3,), (1,))
    assert (after.leader, after.leader_epoch, after.isr) == (1, 1, (1, 2))
    everybody = [(b, "UpdateMetadata", 1) for b in (1, 2, 3)]
    # The new replica hears it again when it becomes one.
    assert sent == requests(
        *[(b, "LeaderAndIsr", 1) for b in (1, 2, 3)], *everybody, (3, "LeaderAndIsr", 1), *everybody
    )


def test_a_dry_run_of_a_shorter_list_shows_it_complete() -> None:
    after, sent = preview(at_rest(1, 2), {"t-0": assignment([2, 1], [], [1])})
    # An election away from broker 1, then its removal from the ISR.
    assert (after.replicas, after.leader, after.leader_epoch, after.isr) == ((2,), 2, 2, (2,))
    assert after.removing_replicas == ()
    assert [r.name for r in sent if r.broker_id == 1] == ["UpdateMetadata"] * 2 + [
        "StopReplica",
        "StopReplica",
        "UpdateMetadata",
    ]


def test_a_dry_run_of_a_cancellation_stops_the_replicas_that_were_on_their_way() -> None:
    view = moving(1, 2, 3, 4, leader=3, isr=(1, 2, 3))
    after, sent = preview(view, {"t-0": assignment([1, 2])})
    # Broker 3 leaves the ISR, which takes the leader, then there is an election.
    assert (after.replicas, after.leader, after.leader_epoch, after.isr) == ((1, 2), 1, 2, (1, 2))
    assert [r.name for r in sent if r.broker_id == 4 and r.name == "StopReplica"] == ["StopReplica"] * 2


def test_a_dry_run_of_another_order_raises_the_epoch_only() -> None:
    after, _ = preview(at_rest(1, 2), {"t-0": assignment([2, 1])})
    assert (after.replicas, after.leader, after.leader_epoch) == ((2, 1), 1, 1)


def test_a_dry_run_says_what_stays_when_nobody_can_lead() -> None:
    after, _ = preview(at_rest(1, leader=-1, isr=(2,)), {"t-0": assignment([2, 1])})
    assert (after.leader, after.leader_epoch, after.isr) == (-1, 0, (2,))
    after, sent = preview(context((1,), {"t-0": [1, 2]}), {"t-0": assignment([2, 1], [], [1])})
    assert (after.replicas, after.leader_epoch, sent) == ((2, 1), -1, ())
    never_led = context((1, 2, 3), {"t-0": [1, 2]})
    never_led.apply(ReassignmentsWritten({T0: assignment([3, 1, 2], [3], [1, 2])}))
    _, sent = preview(never_led, {"t-0": assignment([1, 2])})
    assert sent == (*requests((3, "StopReplica", 1)), PlannedRequest(ids(3)[0], "StopReplica", 1, delete=True))


def test_a_dry_run_does_not_raise_what_a_newer_controller_wrote() -> None:
    view = context((1, 2), {"t-0": [1, 2]}, {"t-0": leadership(1, [1, 2], controller_epoch=EPOCH + 1)})
    after, _ = preview(view, {"t-0": assignment([2, 1])})
    assert after.leader_epoch == 0
