"""Checks every write of an active controller to ZooKeeper against the previous state."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cluster.model.broker import NO_LEADER, PartitionEpoch
from cluster.model.partition import RECOVERING, LeaderAndIsr, TopicAssignment, TopicPartition
from cluster.znodes.paths import BROKERS_TOPICS
from cluster.znodes.topics import decode_state, decode_topic
from cluster.zookeeper.port import Znode
from controller.context.controller_context import ControllerContext
from simulator.partition_znodes import partition_state
from simulator.violations import ViolationError, violated
from simulator.zookeeper import ServerSession, SimulatedZooKeeper


class Writer(NamedTuple):
    """The active controller that made a write: its context, and whether its protocol version has recovery states."""

    context: ControllerContext
    marks_recovery: bool
    leaders_write: bool = False
    """Whether leaders write ISRs themselves, so that one may change after the controller has read it."""


class WriteChecker:
    """`writer_of`: the active controller of a session; None for other sessions."""

    def __init__(self, zookeeper: SimulatedZooKeeper, writer_of: Callable[[ServerSession], Writer | None]) -> None:
        self._tree, self._writer_of = zookeeper.tree, writer_of
        self._errors: list[ViolationError] = []
        zookeeper.write_observers.append(self._observe)

    def raise_first_error(self) -> None:
        """Raise the first violation; the server cannot, because the writer would receive the error as a response."""
        if self._errors:
            raise self._errors[0]

    def _observe(self, session: ServerSession, before: Mapping[str, Znode | None], is_done: bool) -> None:
        writer = self._writer_of(session)
        if writer is None or not is_done:
            return
        try:
            for path, old in before.items():
                self._check(writer, path, old, self._tree.get(path))
        except ViolationError as error:
            self._errors.append(error)

    def _check(self, writer: Writer, path: str, old: Znode | None, new: Znode | None) -> None:
        parent, _, name = path.rpartition("/")
        if new is None:
            return
        if name == "state":
            tp = partition_of_state_path(path)
            written = decode_written_state(tp, new)
            if written is not None:
                _check_state(writer, tp, None if old is None else decode_written_state(tp, old), written)
        elif parent == BROKERS_TOPICS and old is not None:
            self._check_topic(writer, name, decode_topic(name, old.data), decode_topic(name, new.data))

    def _check_topic(self, writer: Writer, topic: str, old: TopicAssignment, new: TopicAssignment) -> None:
        """A replica may only be removed if it was being added, or if all remaining ones are in sync (INV-8)."""
        if old.topic_id not in {None, new.topic_id}:
            raise violated("TI-3", f"the id of {topic} went from {old.topic_id} to {new.topic_id}")
        for partition, before in old.partitions.items():
            if partition not in new.partitions:
                # Removed from a topic that is marked for deletion.
                continue
            tp, after = TopicPartition(topic, partition), new.partitions[partition]
            gone = set(before.replicas) - set(after.replicas)
            if not gone <= set(before.adding):
                state = partition_state(self._tree, tp)
                # As in Kafka, a leader that writes may have removed a target since. All who are in sync are kept.
                keeps_isr = writer.leaders_write and state is not None and set(state.isr) <= set(after.replicas)
                if state is None or not (keeps_isr or set(after.replicas) <= set(state.isr)):
                    raise violated("INV-8", f"{tp} has given up {sorted(gone)} too early: {state}")


def partition_of_state_path(path: str) -> TopicPartition:
    _, _, _, topic, _, partition, _ = path.split("/")
    return TopicPartition(topic, int(partition))


def decode_written_state(tp: TopicPartition, znode: Znode) -> LeaderAndIsr | None:
    return decode_state(tp, znode.data, PartitionEpoch(znode.stat.version))


def _check_state(writer: Writer, tp: TopicPartition, old: LeaderAndIsr | None, new: LeaderAndIsr) -> None:
    if not new.isr:
        raise violated("INV-3", f"the ISR of {tp} is empty")
    if new.leader not in {NO_LEADER, *new.isr}:
        raise violated("INV-2", f"{new.leader} leads {tp} from outside the ISR: {new}")
    if old is None:
        if (new.leader_epoch, new.partition_epoch) != (0, 0) or not set(new.isr) <= writer.context.brokers.live_ids:
            raise violated("INV-1", f"the first state of {tp} is {new}, with {writer.context.brokers.live_ids} alive")
        return
    if new.partition_epoch != old.partition_epoch + 1 or new.leader_epoch not in {
        old.leader_epoch,
        old.leader_epoch + 1,
    }:
        raise violated("INV-1", f"{tp}: {old} then {new}")
    if new.leader not in {NO_LEADER, old.leader}:
        _check_election(writer, tp, old, new)


def _check_election(writer: Writer, tp: TopicPartition, old: LeaderAndIsr, new: LeaderAndIsr) -> None:
    online = writer.context.brokers.online_for(tp)
    if new.leader_epoch != old.leader_epoch + 1:
        raise violated("INV-1", f"{tp} has another leader in the same epoch: {old} then {new}")
    if new.leader not in online or new.leader not in writer.context.topics.assignment(tp).replicas:
        raise violated("INV-2", f"{new.leader} is elected for {tp} and is not an online replica of it: {new}")
    if new.leader in old.isr:
        return
    if not online.isdisjoint(old.isr):
        raise violated("INV-4", f"an unclean election, though {tp} had {online & set(old.isr)} in sync: {new}")
    if new.isr != (new.leader,) or (writer.marks_recovery and new.leader_recovery_state != RECOVERING):
        raise violated("INV-4", f"after an unclean election of {tp}: {new}")
