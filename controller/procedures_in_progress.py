"""Since when the active controller knows of each topic deletion and reassignment that is not complete.

Kept up to date by the changes of the context, so that the oldest is known without a search. Times are those of the
event loop, in seconds. A new active controller begins anew: nothing in ZooKeeper says when a procedure started.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from cluster.model.partition import TopicPartition
from controller import changes
from controller.context import ControllerContext

_K = TypeVar("_K")


class Since(Generic[_K]):
    """When each member was added. `oldest` is None if there are none; read by the scraper's thread."""

    def __init__(self) -> None:
        # Its first key is found at once however many were removed before it, unlike that of a dict.
        self._since: OrderedDict[_K, float] = OrderedDict()
        self.oldest: float | None = None

    def __len__(self) -> int:
        return len(self._since)

    def __iter__(self) -> Iterator[_K]:
        return iter(self._since)

    def add(self, keys: Iterable[_K], now: float) -> None:
        for key in keys:
            self._since.setdefault(key, now)
        self._find_oldest()

    def remove(self, keys: Iterable[_K]) -> None:
        for key in keys:
            self._since.pop(key, None)
        self._find_oldest()

    def _find_oldest(self) -> None:
        # The first was added first: a key that is there keeps its place.
        self.oldest = next(iter(self._since.values()), None)


class ProceduresInProgress:
    """The deletions and reassignments of one controller epoch; the same as the sets of its context."""

    def __init__(self) -> None:
        self.deletions: Since[str] = Since()
        self.reassignments: Since[TopicPartition] = Since()
        self._reassigned: defaultdict[str, set[TopicPartition]] = defaultdict(set)
        """By topic: when one is removed the others are not looked through."""

    def follow(self, change: changes.Change, context: ControllerContext, now: float) -> None:
        """Take over a change that was applied to the context."""
        match change:
            case changes.AssignmentsRead(assignments):
                self._start([tp for tp, a in assignments.items() if a.is_being_reassigned], now)
            case changes.ReassignmentsStarted(partitions):
                self._start(list(partitions), now)
            case changes.ReassignmentsCompleted(assignments):
                self.reassignments.remove(assignments)
                for tp in assignments:
                    self._reassigned[tp.topic].discard(tp)
            case changes.DeletionsQueued(queued):
                self.deletions.add(queued, now)
                self._end(queued)
            case changes.TopicsRemoved(topics):
                self.deletions.remove(topics)
                self._end(topics)
            case _:
                pass

    def _end(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.reassignments.remove(self._reassigned.pop(topic, ()))

    def _start(self, partitions: list[TopicPartition], now: float) -> None:
        self.reassignments.add(partitions, now)
        for tp in partitions:
            self._reassigned[tp.topic].add(tp)
