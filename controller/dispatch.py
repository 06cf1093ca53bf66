"""Maps each event of the active controller to its handler, and the handler's result to the reply."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import structlog

from cluster.aio.off_loop import THREAD
from cluster.model.errors import ErrorCode
from controller import events
from controller.active_controller import ActiveController
from controller.dry_runs import rehearse
from controller.handlers.brokers.broker_changes import broker_change, broker_modifications
from controller.handlers.brokers.damaged_replicas import elect_damaged
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
from controller.handlers.topics.changes import partition_modifications, partition_state_change, topic_change
from controller.handlers.topics.deletions import absent_brokers_due, deletion_answered, topic_deletion
from controller.handlers.topics.left_replicas import left_replicas_answered
from controller.handlers.topics.topic_ids import ask_for_ids, topic_ids_answered
from controller.request_events import RequestEvent

_Event = TypeVar("_Event", bound=events.Event)
_Reaction = tuple[type[events.Event], Callable[[ActiveController, Any], Awaitable[object]]]
_log = structlog.stdlib.get_logger()


async def dispatch(active: ActiveController, event: events.Event) -> None:
    """Call the handler of an event and answer its caller."""
    assert type(event) in REACTIONS, f"{type(event).__name__} is no event of an active controller"
    await REACTIONS[type(event)](active, event)


def _on(kind: type[_Event], react: Callable[[ActiveController, _Event], Awaitable[object]]) -> _Reaction:
    return kind, react


async def _answer_request(active: ActiveController, event: RequestEvent) -> None:
    token = THREAD.set(event.thread)
    try:
        await _answer_in_thread(active, event)
    finally:
        THREAD.reset(token)


async def _answer_in_thread(active: ActiveController, event: RequestEvent) -> None:
    api, request = event.api, event.request
    if api.dry_run_topics is not None and request.validate_only:
        answer = await rehearse(active, request, api.handler, api.dry_run_topics(active.context, request))
    else:
        answer = await api.handler(active, request)
    event.answer(answer)
    if api.follow_up is not None:
        await api.follow_up(active, answer)


async def _metadata_answered(_active: ActiveController, event: events.UpdateMetadataResponseReceived) -> None:
    if event.response.error_code is not ErrorCode.NONE:
        _log.warning("Broker refused UpdateMetadata", broker=event.broker, error=event.response.error_code.name)


REACTIONS: Final = dict(
    (
        _on(events.BrokerChange, lambda active, _: broker_change(active)),
        _on(events.BrokerModifications, lambda active, event: broker_modifications(active, event.broker)),
        _on(events.TopicChange, lambda active, _: topic_change(active)),
        _on(events.PartitionModifications, lambda active, event: partition_modifications(active, event.topic)),
        _on(events.PartitionStateChange, lambda active, event: partition_state_change(active, event.topic_partition)),
        _on(events.TopicIdsLost, lambda active, _: ask_for_ids(active)),
        _on(events.TopicIdsAnswered, topic_ids_answered),
        _on(events.TopicDeletion, lambda active, _: topic_deletion(active)),
        _on(events.ZkPartitionReassignment, lambda active, _: zk_partition_reassignment(active)),
        _on(
            events.PartitionReassignmentIsrChange,
            lambda active, event: complete_reassignments(active, [event.topic_partition]),
        ),
        _on(events.ReplicaLeaderElection, lambda active, _: replica_leader_election(active)),
        _on(events.IsrChangeNotification, lambda active, _: isr_change_notification(active)),
        _on(events.LogDirEventNotification, lambda active, _: log_dir_event_notification(active)),
        _on(events.AutoPreferredReplicaLeaderElection, lambda active, _: balance_leaders(active)),
        _on(events.ProcedureResumption, lambda active, _: resume_procedures(active)),
        _on(events.UncleanLeaderElectionEnable, lambda active, _: trigger_online_elections(active)),
        _on(
            events.TopicUncleanLeaderElectionEnable, lambda active, event: trigger_online_elections(active, event.topic)
        ),
        _on(
            events.DamagedReplicaElection,
            elect_damaged,
        ),
        _on(
            events.LeaderAndIsrResponseReceived,
            lambda active, event: leader_and_isr_answered(active, event.broker, event.response),
        ),
        _on(events.UpdateMetadataResponseReceived, _metadata_answered),
        _on(events.TopicDeletionStopReplicaResponseReceived, deletion_answered),
        _on(events.LeftReplicasResponseReceived, left_replicas_answered),
        _on(events.AbsentBrokersDue, lambda active, _: absent_brokers_due(active)),
        _on(RequestEvent, _answer_request),
    )
)
