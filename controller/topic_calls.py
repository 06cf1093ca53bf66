"""Which call asked for what a later event does to a topic.

CreateTopics, CreatePartitions and DeleteTopics only write znodes; the watch on those leads to the event that creates or
deletes the replicas. Without this the records of that event would name no call.
"""

from collections.abc import Iterable
from typing import Final

from cluster.requests.context import RequestContext
from controller.events import PartitionModifications, TopicChange, TopicDeletion
from controller.events import TopicDeletionStopReplicaResponseReceived as ReplicasDeleted

CREATION: Final = (TopicChange.__name__,)
EXPANSION: Final = (PartitionModifications.__name__,)
DELETION: Final = (TopicDeletion.__name__, ReplicasDeleted.__name__)
"""The events that carry out each of the three calls."""


class TopicCalls:
    """The callers by topic, from the write of the znode until the event that carries it out is done."""

    def __init__(self) -> None:
        self._callers: dict[str, tuple[tuple[str, ...], RequestContext]] = {}

    def remember(self, topics: Iterable[str], events: tuple[str, ...], caller: RequestContext | None) -> None:
        """Attribute what these events will do to the topics to `caller`; the latest call about a topic counts."""
        if caller is not None:
            self._callers.update(dict.fromkeys(topics, (events, caller)))

    def caller(self, topic: str | None, event: str) -> RequestContext | None:
        """The caller that asked for what `event` does to the topic; None if nobody did."""
        events, caller = self._callers.get(topic or "", ((), None))
        return caller if event in events else None

    def drop(self, topics: Iterable[str]) -> None:
        """Forget the callers: what they asked for is done, or will not be done."""
        for topic in topics:
            self._callers.pop(topic, None)
