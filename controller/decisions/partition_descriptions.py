"""Converts partitions and control requests to API types, for queries and dry-run plans."""

from cluster.model.broker import NO_LEADER, NO_LEADER_EPOCH, BrokerId, PartitionEpoch
from cluster.model.partition import TopicPartition
from cluster.model.state_machines import ReplicaState
from cluster.requests.control import ControlRequest, LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from cluster.requests.plans import DescribedPartition, PlannedRequest
from controller.decisions.context_view import ContextView


def described_partition(view: ContextView, tp: TopicPartition, *, undeleted: bool = False) -> DescribedPartition:
    """Describe a partition from the view; with `undeleted` only the replicas not yet deleted by topic deletion."""
    assignment, leadership = view.topics.assignment(tp), view.leaderships.known.get(tp)
    replicas = assignment.replicas
    if undeleted:
        gone = ReplicaState.DELETION_SUCCESSFUL
        replicas = tuple(b for b in replicas if view.replicas.state(b, tp) is not gone)
    online = view.brokers.online_for(tp)
    return DescribedPartition(
        partition=tp.partition,
        leader=NO_LEADER if leadership is None else leadership.leader,
        leader_epoch=NO_LEADER_EPOCH if leadership is None else leadership.leader_epoch,
        partition_epoch=PartitionEpoch(-1) if leadership is None else leadership.partition_epoch,
        isr=() if leadership is None else leadership.isr,
        replicas=replicas,
        adding_replicas=assignment.adding,
        removing_replicas=assignment.removing,
        offline_replicas=tuple(b for b in replicas if b not in online),
    )


def planned_request(broker: BrokerId, request: ControlRequest) -> PlannedRequest:
    match request:
        case StopReplicaRequest():
            count = len(request.partition_states)
            deletes = any(state.delete_partition for state in request.partition_states)
        case LeaderAndIsrRequest() | UpdateMetadataRequest():
            count, deletes = sum(len(topic.partition_states) for topic in request.topic_states), False
    return PlannedRequest(broker, type(request).__name__.removesuffix("Request"), count, deletes)
