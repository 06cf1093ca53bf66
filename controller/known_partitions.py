"""What a standby knows of the topics and partition states in ZooKeeper: decoded, and never older than its last event.

An event removes what it names, so that what is here is what ZooKeeper has; the rest has to be read. Malformed znodes
are not kept either: whoever becomes active reads and reports them as all others that are not known.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from cluster.model import bounds
from cluster.model.broker import PartitionEpoch
from cluster.model.errors import MalformedZnodeError
from cluster.model.partition import LeaderAndIsr, TopicAssignment, TopicPartition
from cluster.znodes.paths import BROKERS_TOPICS, partition_of_state_path, state_path, topic_path
from cluster.znodes.topics import decode_state, decode_topic
from cluster.zookeeper.port import WatchEvent, WatchKind, Znode

_Key = TypeVar("_Key", str, TopicPartition)


class TakenOver(Struct, frozen=True):
    """What a controller took over without reading it, as ZooKeeper had it when the controller was elected, or later."""

    topics: Mapping[str, TopicAssignment]
    states: Mapping[TopicPartition, LeaderAndIsr]

    def differs(self, key: str | TopicPartition, znode: Znode | None, *, elected_at: int) -> bool:
        """Whether the znode of a topic or of a partition's state shows that what was taken over was wrong.

        One that was written or deleted after the zxid `elected_at` shows nothing.
        """
        if znode is None or znode.stat.mzxid > elected_at:
            return False
        if isinstance(key, str):
            return decoded_topic(key, znode) != self.topics[key]
        return decoded_state(key, znode) != self.states[key]


class KnownPartitions:
    """Topics and states by what was read since their last event, and what is still to be read."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicAssignment] = {}
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self._unread_topics: dict[str, None] = {}
        self._unread_states: dict[TopicPartition, None] = {}
        self._being_read = 0
        self._changed_since: set[str | TopicPartition] = set()
        """What events have named since the last `next_topics` or `next_states`."""

    @property
    def unread(self) -> int:
        """The number of znodes that are to be read or being read, as far as is known."""
        return len(self._unread_topics) + len(self._unread_states) + self._being_read

    @property
    def partitions(self) -> int:
        """The number of partitions whose states are known or to be read, as far as is known."""
        return len(self.states) + len(self._unread_states)

    def clear(self) -> None:
        """Forget everything: events may have been missed."""
        self.topics, self.states = {}, {}
        self._unread_topics, self._unread_states = {}, {}
        self._being_read = 0

    def listed(self, names: Iterable[str]) -> None:
        """These are the topics; all of them are to be read."""
        self._unread_topics |= dict.fromkeys(name for name in names if bounds.TOPIC_NAME.accepts(name))

    def changed(self, event: WatchEvent) -> None:
        """Take an event: the znode is not known any more, and is to be read unless it was deleted."""
        parent, _, name = event.path.rpartition("/")
        is_there = event.kind is not WatchKind.DELETED
        if parent == BROKERS_TOPICS:
            self._changed_since.add(name)
            self.topics.pop(name, None)
            self._unread_topics.pop(name, None)
            if is_there:
                self.listed([name])
        elif (tp := partition_of_state_path(event.path)) is not None:
            self._changed_since.add(tp)
            self.states.pop(tp, None)
            self._unread_states.pop(tp, None)
            if is_there:
                self._unread_states[tp] = None

    def next_topics(self, count: int) -> list[str]:
        """Take the next topics to read; `topics_read` has to follow, or `clear`."""
        return self._next(self._unread_topics, count)

    def next_states(self, count: int) -> list[TopicPartition]:
        """Take the next partitions whose states are to be read; `states_read` has to follow, or `clear`."""
        return self._next(self._unread_states, count)

    def topics_read(self, names: Sequence[str], znodes: Sequence[Znode | None]) -> None:
        """Keep topics as read, except for those that events have named since; their partitions are to be read."""
        self._being_read = 0
        for name, znode in zip(names, znodes, strict=True):
            if name in self._changed_since or znode is None or (topic := decoded_topic(name, znode)) is None:
                continue
            self.topics[name] = topic
            for partition in topic.partitions:
                tp = TopicPartition(name, partition)
                if tp not in self.states:
                    self._unread_states[tp] = None

    def states_read(self, partitions: Sequence[TopicPartition], znodes: Sequence[Znode | None]) -> None:
        """Keep states as read, except for those that events have named since."""
        self._being_read = 0
        for tp, znode in zip(partitions, znodes, strict=True):
            if tp in self._changed_since or znode is None or (state := decoded_state(tp, znode)) is None:
                continue
            self.states[tp] = state

    def _next(self, unread: dict[_Key, None], count: int) -> list[_Key]:
        self._changed_since.clear()
        taken = list(islice(unread, count))
        for item in taken:
            del unread[item]
        self._being_read = len(taken)
        return taken


def path_of(key: str | TopicPartition) -> str:
    """The path of a topic's znode, or of the state of a partition."""
    return topic_path(key) if isinstance(key, str) else state_path(key)


def decoded_topic(topic: str, znode: Znode) -> TopicAssignment | None:
    """Decode a topic's znode; None if it is malformed."""
    try:
        return decode_topic(topic, znode.data)
    except MalformedZnodeError:
        return None


def decoded_state(tp: TopicPartition, znode: Znode) -> LeaderAndIsr | None:
    """Decode a partition's state; None if it is malformed."""
    try:
        return decode_state(tp, znode.data, PartitionEpoch(znode.stat.version))
    except MalformedZnodeError:
        return None
