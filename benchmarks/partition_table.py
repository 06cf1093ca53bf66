"""The partition states received by a stub agent, and their comparison with ZooKeeper."""

from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

from benchmarks.synthetic_cluster import PartitionInZooKeeper
from cluster.model.broker import LEADER_DURING_DELETE, BrokerEpoch, BrokerId
from cluster.model.partition import TopicPartition
from klamm.v1 import control_pb2 as pb

Message = pb.LeaderAndIsrRequest | pb.UpdateMetadataRequest | pb.StopReplicaRequest


class ReceivedState(NamedTuple):
    """One partition as in a request."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]


class PartitionTable:
    """The combined content of the requests that an agent accepted.

    `hosted`: from LeaderAndIsr and StopReplica; `metadata` and `live_brokers`: from UpdateMetadata. `violations`:
    requests with a wrong broker epoch, or with epochs lower than before.
    """

    def __init__(self, broker: BrokerId, broker_epoch: BrokerEpoch) -> None:
        self.broker, self.broker_epoch = broker, broker_epoch
        self.hosted: dict[TopicPartition, ReceivedState] = {}
        self.metadata: dict[TopicPartition, ReceivedState] = {}
        self.live_brokers: set[int] = set()
        self.violations: list[str] = []
        self.new_leaders_at_ms: dict[TopicPartition, float] = {}
        self._controller_epoch = 0

    def apply(self, message: Message, acknowledged_at_ms: float) -> None:
        """Apply a request; must be called in the order of arrival."""
        if message.broker_epoch != self.broker_epoch:
            self.violations.append(f"sent to broker epoch {message.broker_epoch}, this is {self.broker_epoch}")
        if message.controller_epoch < self._controller_epoch:
            self.violations.append(f"controller epoch {message.controller_epoch} after {self._controller_epoch}")
        self._controller_epoch = message.controller_epoch
        match message:
            case pb.LeaderAndIsrRequest():
                self._apply_leader_and_isr(message, acknowledged_at_ms)
            case pb.UpdateMetadataRequest():
                self._apply_update_metadata(message)
            case pb.StopReplicaRequest():
                for stopped in message.partition_states:
                    self.hosted.pop(TopicPartition(stopped.topic_name, stopped.partition_index), None)

    def _apply_leader_and_isr(self, message: pb.LeaderAndIsrRequest, acknowledged_at_ms: float) -> None:
        for topic in message.topic_states:
            for state in topic.partition_states:
                tp = TopicPartition(topic.topic_name, state.partition_index)
                received = ReceivedState(
                    state.leader, state.leader_epoch, tuple(state.isr), state.partition_epoch, tuple(state.replicas)
                )
                before = self.hosted.get(tp)
                if before is not None and received.leader_epoch < before.leader_epoch:
                    self.violations.append(f"{tp}: leader epoch {received.leader_epoch} after {before.leader_epoch}")
                if before is None or before.leader != received.leader:
                    self.new_leaders_at_ms[tp] = acknowledged_at_ms
                self.hosted[tp] = received

    def _apply_update_metadata(self, message: pb.UpdateMetadataRequest) -> None:
        self.live_brokers = {broker.id for broker in message.live_brokers}
        for topic in message.topic_states:
            for state in topic.partition_states:
                tp = TopicPartition(topic.topic_name, state.partition_index)
                if state.leader == LEADER_DURING_DELETE:
                    self.metadata.pop(tp, None)
                    continue
                self.metadata[tp] = ReceivedState(
                    state.leader, state.leader_epoch, tuple(state.isr), state.zk_version, tuple(state.replicas)
                )

    def differences(
        self, cluster: Mapping[TopicPartition, PartitionInZooKeeper], registered: Set[int]
    ) -> Iterator[str]:
        """Yield a line for each partition that differs from ZooKeeper, and for each violation."""
        yield from self.violations
        if self.live_brokers != registered:
            yield f"knows the brokers {sorted(self.live_brokers)}, registered are {sorted(registered)}"
        wanted = {tp: _as_received(partition) for tp, partition in cluster.items()}
        mine = {
            tp: received for tp, received in wanted.items() if received is not None and self.broker in received.replicas
        }
        yield from _differences("LeaderAndIsr", self.hosted, mine)
        yield from _differences("UpdateMetadata", self.metadata, wanted)


def _as_received(partition: PartitionInZooKeeper) -> ReceivedState | None:
    if partition.leadership is None:
        return None
    state = partition.leadership
    return ReceivedState(state.leader, state.leader_epoch, state.isr, state.partition_epoch, partition.replicas)


def _differences(
    kind: str, received: Mapping[TopicPartition, ReceivedState], wanted: Mapping[TopicPartition, ReceivedState | None]
) -> Iterator[str]:
    for tp in sorted(received.keys() | wanted.keys()):
        if received.get(tp) != wanted.get(tp):
            yield f"{tp}: {kind} said {received.get(tp)}, ZooKeeper has {wanted.get(tp)}"
