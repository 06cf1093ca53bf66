"""Since when deletions and reassignments have been going on."""

from cluster.model.broker import BrokerId, ControllerEpoch, ZkVersion
from cluster.model.partition import ReplicaAssignment, TopicPartition
from controller import changes
from controller.context.controller_context import ControllerContext
from controller.context.since import AddedSince

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TARGET = ReplicaAssignment((BrokerId(1),))


def test_the_oldest_is_the_first_that_is_left() -> None:
    since: AddedSince[str] = AddedSince()
    since.add(["a", "b"], 1.0)
    since.add(["a", "c"], 2.0)
    assert (since.oldest, list(since)) == (1.0, ["a", "b", "c"])
    since.remove(["a", "b", "unknown"])
    assert since.oldest == 2.0
    since.remove(["c"])
    assert (since.oldest, len(since)) == (None, 0)


def test_reassignments_end_when_they_are_complete_and_when_their_topic_is_gone() -> None:
    clock = iter([0.0, 1.0, 2.0])  # The first is asked for brokers' absences.
    context = ControllerContext(ControllerEpoch(1), ZkVersion(0), lambda: next(clock))
    context.apply(changes.ReassignmentsWritten(dict.fromkeys((A0, A1, B0), TARGET)))
    in_progress = context.topics.reassigned_since
    context.apply(changes.ReassignmentsStarted((A0, A1, B0)))
    context.apply(changes.ReassignmentsCompleted({A0: TARGET}))
    assert list(in_progress) == [A1, B0]
    context.apply(changes.TopicsRemoved(("a",), deleted=False))
    assert list(in_progress) == [B0]
    # A topic of that name may come again.
    context.apply(changes.ReassignmentsStarted((A0,)))
    assert list(in_progress) == [B0, A0]
