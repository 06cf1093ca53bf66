"""Since when deletions and reassignments have been going on."""

from typing import Any, cast

from cluster.model.broker import BrokerId
from cluster.model.partition import ReplicaAssignment, TopicPartition
from controller import changes
from controller.procedures_in_progress import ProceduresInProgress, Since

NOTHING: Any = cast("Any", None)
"""No change below asks the context."""
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TARGET = ReplicaAssignment((BrokerId(1),))


def test_the_oldest_is_the_first_that_is_left() -> None:
    since: Since[str] = Since()
    since.add(["a", "b"], 1.0)
    since.add(["a", "c"], 2.0)
    assert (since.oldest, list(since)) == (1.0, ["a", "b", "c"])
    since.remove(["a", "b", "unknown"])
    assert since.oldest == 2.0
    since.remove(["c"])
    assert (since.oldest, len(since)) == (None, 0)


def test_reassignments_end_when_they_are_complete_and_when_their_topic_is_gone() -> None:
    in_progress = ProceduresInProgress()
    in_progress.follow(changes.ReassignmentsStarted((A0, A1, B0)), NOTHING, 1.0)
    in_progress.follow(changes.ReassignmentsCompleted({A0: TARGET}), NOTHING, 2.0)
    assert list(in_progress.reassignments) == [A1, B0]
    in_progress.follow(changes.TopicsRemoved(("a",), deleted=False), NOTHING, 3.0)
    assert list(in_progress.reassignments) == [B0]
    # A topic of that name may come again.
    in_progress.follow(changes.ReassignmentsStarted((A0,)), NOTHING, 4.0)
    assert list(in_progress.reassignments) == [B0, A0]
