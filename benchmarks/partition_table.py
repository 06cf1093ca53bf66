"""The partition states received by a stub agent, and their comparison with ZooKeeper."""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple

from benchmarks.synthetic_cluster import PartitionInZooKeeper
from cluster.model.broker import LEADER_DURING_DELETE, BrokerEpoch, BrokerId, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import AlterPartitionResponse
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
        self.topic_ids: dict[str, TopicId] = {}
        self._topic_names: dict[TopicId, str] = {}
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

    def alter(self, response: AlterPartitionResponse) -> None:
        """Take the ISRs that the controller has accepted; nothing else tells a leader of them."""
        for result in response.partitions:
            name = result.topic_name if result.topic_id is None else self._topic_names.get(result.topic_id, "")
            tp = TopicPartition(name, result.partition_index)
            known = self.hosted.get(tp)
            accepted = result.error_code is ErrorCode.NONE and known is not None
            if known is not None and accepted and result.leader_epoch == known.leader_epoch:
                self.hosted[tp] = known._replace(isr=tuple(result.isr), partition_epoch=result.partition_epoch)

    def led(
        self, partitions: Iterable[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, TopicId | None, ReceivedState]]:
        """Yield those of the partitions that this agent leads, with the ids of their topics."""
        for tp in partitions:
            state = self.hosted.get(tp)
            if state is not None and state.leader == self.broker:
                yield tp, self.topic_ids.get(tp.topic), state

    def _apply_leader_and_isr(self, message: pb.LeaderAndIsrRequest, acknowledged_at_ms: float) -> None:
        for topic in message.topic_states:
            if topic.topic_id:
                self.topic_ids[topic.topic_name] = TopicId(topic.topic_id)
                self._topic_names[TopicId(topic.topic_id)] = topic.topic_name
            for state in topic.partition_states:
                tp = TopicPartition(topic.topic_name, state.partition_index)
                received = ReceivedState(
                    state.leader, state.leader_epoch, tuple(state.isr), state.partition_epoch, tuple(state.replicas)
                )
                before = self.hosted.get(tp)
                if before is not None and received.leader_epoch < before.leader_epoch:
                    self.violations.append(f"{tp}: leader epoch {received.leader_epoch} after {before.leader_epoch}")
                if before is not None and received[1::2] < before[1::2]:
                    # Made before the controller accepted this leader's ISR, which has raised the partition epoch.
                    continue
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
        yield from _differences("LeaderAndIsr", self._as_followed(mine), mine)
        yield from _differences("UpdateMetadata", self.metadata, wanted)

    def _as_followed(self, wanted: Mapping[TopicPartition, ReceivedState]) -> dict[TopicPartition, ReceivedState]:
        """Take what is hosted, and the ISRs of others' partitions as they are, if only those have changed.

        Nobody but the leader, which asks for it, is told under the same leader epoch.
        """
        hosted = dict(self.hosted)
        for tp, state in hosted.items():
            now = wanted.get(tp)
            if now is not None and state.leader != self.broker and state.partition_epoch < now.partition_epoch:
                hosted[tp] = state._replace(isr=now.isr, partition_epoch=now.partition_epoch)
        return hosted


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
