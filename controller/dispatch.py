"""Which handler each event of an active controller goes to, and where its answer goes."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import structlog

from cluster.errors import ErrorCode
from controller.active_controller import ActiveController
from controller.dry_runs import rehearse
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
from controller.handlers.brokers.notifications import (
    isr_change_notification,
    leader_and_isr_answered,
    log_dir_event_notification,
)
from controller.handlers.partitions.elections import balance_leaders, replica_leader_election
from controller.handlers.partitions.partition_transitions import trigger_online_elections
from controller.handlers.reassignment.engine import complete_reassignments
from controller.handlers.reassignment.requests import zk_partition_reassignment
from controller.handlers.resumption import resume_procedures
from controller.handlers.topics.changes import partition_modifications, topic_change
from controller.handlers.topics.deletions import deletion_answered, topic_deletion
from controller.request_events import RequestEvent

_Event = TypeVar("_Event", bound=Event)
_Reaction = tuple[type[Event], Callable[[ActiveController, Any], Awaitable[object]]]
_log = structlog.stdlib.get_logger()


async def dispatch(active: ActiveController, event: Event) -> None:
    """Carry out what the event asks of this controller, and answer who asked."""
    assert type(event) in _REACTIONS, f"{type(event).__name__} is no event of an active controller"
    await _REACTIONS[type(event)](active, event)


def _on(kind: type[_Event], react: Callable[[ActiveController, _Event], Awaitable[object]]) -> _Reaction:
    return kind, react


async def _answer_request(active: ActiveController, event: RequestEvent) -> None:
    api, request = event.api, event.request
    if api.dry_run_topics is not None and request.validate_only:
        answer = await rehearse(active, request, api.handler, api.dry_run_topics(active.context, request))
    else:
        answer = await api.handler(active, request)
    event.answer(answer)
    if api.follow_up is not None:
        await api.follow_up(active, answer)


async def _metadata_answered(_active: ActiveController, event: UpdateMetadataResponseReceived) -> None:
    if event.response.error_code is not ErrorCode.NONE:
        _log.warning("UpdateMetadata was refused", broker=event.broker, error=event.response.error_code.name)


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
        _on(RequestEvent, _answer_request),
    )
)
EVENTS: Final = frozenset(_REACTIONS)
"""What an active controller reacts to."""
