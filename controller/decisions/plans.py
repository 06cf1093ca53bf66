"""What decisions look like to somebody who only wants to see them: the answers to dry runs."""

from collections.abc import Iterable

from cluster.broker import NO_LEADER, NO_LEADER_EPOCH, ControllerId, PartitionEpoch
from cluster.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.requests.control import ControlRequest, LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from cluster.requests.plans import DescribedPartition, PlannedChange, PlannedRequest
from controller.decisions.broker_requests import ControlBatch, RequestSettings
from controller.decisions.context_view import ContextView


def described_partition(
    view: ContextView, tp: TopicPartition, leadership: LeaderAndIsr | None, assignment: ReplicaAssignment
) -> DescribedPartition:
    """The partition as it would be with this leadership and assignment."""
    online = view.online_brokers(tp)
    return DescribedPartition(
        partition=tp.partition,
        leader=NO_LEADER if leadership is None else leadership.leader,
        leader_epoch=NO_LEADER_EPOCH if leadership is None else leadership.leader_epoch,
        partition_epoch=PartitionEpoch(-1) if leadership is None else leadership.partition_epoch,
        isr=() if leadership is None else leadership.isr,
        replicas=assignment.replicas,
        adding_replicas=assignment.adding,
        removing_replicas=assignment.removing,
        offline_replicas=tuple(b for b in assignment.replicas if b not in online),
    )


def planned_change(view: ContextView, tp: TopicPartition, after: LeaderAndIsr) -> PlannedChange:
    """From what the view has to `after`; the assignment stays."""
    present = view.assignment(tp)
    return PlannedChange(
        tp.topic,
        described_partition(view, tp, view.leaderships.get(tp), present),
        described_partition(view, tp, after, present),
    )


def planned_requests(
    batches: Iterable[ControlBatch], controller: ControllerId, settings: RequestSettings
) -> tuple[PlannedRequest, ...]:
    """What sending these batches one after the other would queue, in that order."""
    return tuple(
        PlannedRequest(broker, type(request).__name__.removesuffix("Request"), _partitions(request), _deletes(request))
        for batch in batches
        for broker, request in batch.requests(controller, settings)
    )


def _partitions(request: ControlRequest) -> int:
    match request:
        case StopReplicaRequest():
            return len(request.partition_states)
        case LeaderAndIsrRequest() | UpdateMetadataRequest():
            return sum(len(topic.partition_states) for topic in request.topic_states)


def _deletes(request: ControlRequest) -> bool:
    return isinstance(request, StopReplicaRequest) and any(s.delete_partition for s in request.partition_states)
