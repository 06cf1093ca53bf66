"""Descriptions of ongoing reassignments, and why they are stuck."""

import pytest

from cluster.model.broker import BrokerEpoch, BrokerId
from cluster.requests.reassignments import OngoingPartitionReassignment, OngoingTopicReassignment, TargetReplica
from controller.changes import BrokerShuttingDown, ReassignmentsStarted, ReassignmentsWritten
from controller.context.controller_context import ControllerContext
from controller.decisions.reassignment.progress import describe_reassignment, list_reassignments, stuck_reason
from tests.controllers.contexts import assignment, context, ids, leadership, tp

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
    view.brokers.offline_directories[ids(4)[0]] = {T0}
    assert stuck_reason(view, T0) == "target 3 shutting down; target 4 on a failed log directory"
    assert stuck_reason(context((1,), {"t-1": [1]}), T1) == "the partition has no leader to copy from"
