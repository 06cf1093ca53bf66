"""Maps each event of the active controller to its handler, and the handler's result to the reply."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import structlog

from cluster.errors import ErrorCode
from cluster.requests.configs import PlanFeatureUpdatesRequest
from cluster.requests.elections import PlanControlledShutdownRequest
from controller.active_controller import ActiveController
from controller.dry_runs import (
    DryRequest,
    Planned,
    carry_out_or_rehearse,
    plan_controlled_shutdown,
    plan_feature_updates,
)
from controller.events import (
    AutoPreferredReplicaLeaderElection,
    BrokerChange,
    BrokerModifications,
    Event,
    IsrChangeNotification,
    LeaderAndIsrResponseReceived,
    LogDirEventNotification,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    ProcedureResumption,
    ReplicaLeaderElection,
    TopicChange,
    TopicDeletion,
    TopicDeletionStopReplicaResponseReceived,
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
    UpdateMetadataResponseReceived,
    ZkPartitionReassignment,
)
from controller.handlers.brokers.broker_changes import broker_change, broker_modifications
from controller.handlers.brokers.controlled_shutdown import controlled_shutdown
from controller.handlers.brokers.notifications import (
    isr_change_notification,
    leader_and_isr_answered,
    log_dir_event_notification,
)
from controller.handlers.brokers.producer_ids import allocate_producer_ids
from controller.handlers.configs.features import update_features
from controller.handlers.configs.requests import alter_configs
from controller.handlers.partitions.elections import balance_leaders, elect_leaders, replica_leader_election
from controller.handlers.partitions.isr_changes import alter_partition, changed_partitions
from controller.handlers.partitions.partition_transitions import trigger_online_elections
from controller.handlers.queries import answer_query
from controller.handlers.reassignment.engine import complete_reassignments
from controller.handlers.reassignment.requests import (
    alter_partition_reassignments,
    list_partition_reassignments,
    zk_partition_reassignment,
)
from controller.handlers.resumption import resume_procedures
from controller.handlers.topics.changes import partition_modifications, topic_change
from controller.handlers.topics.deletion_requests import delete_topics
from controller.handlers.topics.deletions import deletion_answered, topic_deletion
from controller.handlers.topics.requests import create_partitions, create_topics
from controller.request_events import (
    AllocateProducerIdsReceived,
    AlterConfigsReceived,
    AlterPartitionReceived,
    Answer,
    ApiPartitionReassignment,
    ControlledShutdownReceived,
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    ElectLeadersReceived,
    ListPartitionReassignments,
    Query,
    QueryReceived,
    Request,
    RequestEvent,
    UpdateFeaturesReceived,
)

_Event = TypeVar("_Event", bound=Event)
_Reaction = tuple[type[Event], Callable[[ActiveController, Any], Awaitable[object]]]
_log = structlog.stdlib.get_logger()


async def dispatch(active: ActiveController, event: Event) -> None:
    """Call the handler of an event and answer its caller."""
    assert type(event) in _REACTIONS, f"{type(event).__name__} is no event of an active controller"
    await _REACTIONS[type(event)](active, event)


def _on(kind: type[_Event], react: Callable[[ActiveController, _Event], Awaitable[object]]) -> _Reaction:
    return kind, react


def _answering(
    kind: type[RequestEvent[Request, Answer]], handle: Callable[[ActiveController, Request], Awaitable[Answer]]
) -> _Reaction:
    async def react(active: ActiveController, event: RequestEvent[Request, Answer]) -> None:
        event.answer(await handle(active, event.request))

    return kind, react


def _rehearsable(
    kind: type[RequestEvent[DryRequest, Planned]], handle: Callable[[ActiveController, DryRequest], Awaitable[Planned]]
) -> _Reaction:
    async def answer(active: ActiveController, request: DryRequest) -> Planned:
        return await carry_out_or_rehearse(active, request, handle)

    return _answering(kind, answer)


async def _answer_query(active: ActiveController, query: Query) -> object:
    match query:
        case PlanControlledShutdownRequest():
            return await plan_controlled_shutdown(active, query)
        case PlanFeatureUpdatesRequest():
            return await plan_feature_updates(active, query)
        case _:
            return await answer_query(active, query)


async def _alter_partition(active: ActiveController, event: AlterPartitionReceived) -> None:
    changes = await alter_partition(active, event.request)
    event.answer(changes)
    # After the reply: leaders need not wait for reassignments that their new ISRs complete (IS-17).
    await complete_reassignments(active, changed_partitions(active.context, changes))


async def _metadata_answered(_active: ActiveController, event: UpdateMetadataResponseReceived) -> None:
    if event.response.error_code is not ErrorCode.NONE:
        _log.warning("Broker refused UpdateMetadata", broker=event.broker, error=event.response.error_code.name)


_REACTIONS: Final = dict(
    (
        _on(BrokerChange, lambda active, _: broker_change(active)),
        _on(BrokerModifications, lambda active, event: broker_modifications(active, event.broker)),
        _on(TopicChange, lambda active, _: topic_change(active)),
        _on(PartitionModifications, lambda active, event: partition_modifications(active, event.topic)),
        _on(TopicDeletion, lambda active, _: topic_deletion(active)),
        _on(ZkPartitionReassignment, lambda active, _: zk_partition_reassignment(active)),
        _on(
            PartitionReassignmentIsrChange,
            lambda active, event: complete_reassignments(active, [event.topic_partition]),
        ),
        _on(ReplicaLeaderElection, lambda active, _: replica_leader_election(active)),
        _on(IsrChangeNotification, lambda active, _: isr_change_notification(active)),
        _on(LogDirEventNotification, lambda active, _: log_dir_event_notification(active)),
        _on(AutoPreferredReplicaLeaderElection, lambda active, _: balance_leaders(active)),
        _on(ProcedureResumption, lambda active, _: resume_procedures(active)),
        _on(UncleanLeaderElectionEnable, lambda active, _: trigger_online_elections(active)),
        _on(TopicUncleanLeaderElectionEnable, lambda active, event: trigger_online_elections(active, event.topic)),
        _on(
            LeaderAndIsrResponseReceived,
            lambda active, event: leader_and_isr_answered(active, event.broker, event.response),
        ),
        _on(UpdateMetadataResponseReceived, _metadata_answered),
        _on(TopicDeletionStopReplicaResponseReceived, deletion_answered),
        _on(AlterPartitionReceived, _alter_partition),
        _answering(ControlledShutdownReceived, controlled_shutdown),
        _answering(AllocateProducerIdsReceived, allocate_producer_ids),
        _rehearsable(CreateTopicsReceived, create_topics),
        _rehearsable(CreatePartitionsReceived, create_partitions),
        _rehearsable(DeleteTopicsReceived, delete_topics),
        _rehearsable(AlterConfigsReceived, alter_configs),
        _answering(UpdateFeaturesReceived, update_features),
        _rehearsable(ApiPartitionReassignment, alter_partition_reassignments),
        _answering(ListPartitionReassignments, list_partition_reassignments),
        _rehearsable(ElectLeadersReceived, elect_leaders),
        _answering(QueryReceived, _answer_query),
    )
)
EVENTS: Final = frozenset(_REACTIONS)
"""The events that an active controller handles."""
