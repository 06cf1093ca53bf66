"""Which handler each event of a controller in office goes to, and where its answer goes."""

from asyncio import Future
from typing import TypeVar

import structlog

from cluster.errors import ErrorCode
from controller.active_controller import ActiveController
from controller.events import (
    AllocateProducerIdsReceived,
    AlterConfigsReceived,
    AlterPartitionReceived,
    ApiPartitionReassignment,
    AutoPreferredReplicaLeaderElection,
    BrokerChange,
    BrokerModifications,
    ControlledShutdownReceived,
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    ElectLeadersReceived,
    Event,
    IsrChangeNotification,
    LeaderAndIsrResponseReceived,
    ListPartitionReassignments,
    LogDirEventNotification,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    QueryReceived,
    ReplicaLeaderElection,
    TopicChange,
    TopicDeletion,
    TopicDeletionStopReplicaResponseReceived,
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
    UpdateFeaturesReceived,
    UpdateMetadataResponseReceived,
    ZkPartitionReassignment,
)
from controller.handlers.broker_changes import broker_change, broker_modifications
from controller.handlers.configs import alter_configs
from controller.handlers.controlled_shutdown import controlled_shutdown
from controller.handlers.deletion_requests import delete_topics
from controller.handlers.elections import balance_leaders, elect_leaders, replica_leader_election
from controller.handlers.features import update_features
from controller.handlers.isr_changes import alter_partition, changed_partitions
from controller.handlers.notifications import (
    isr_change_notification,
    leader_and_isr_answered,
    log_dir_event_notification,
)
from controller.handlers.partition_transitions import trigger_online_elections
from controller.handlers.producer_ids import allocate_producer_ids
from controller.handlers.queries import answer_query
from controller.handlers.reassignment_requests import (
    alter_partition_reassignments,
    list_partition_reassignments,
    zk_partition_reassignment,
)
from controller.handlers.reassignments import complete_reassignments
from controller.handlers.topic_changes import partition_modifications, topic_change
from controller.handlers.topic_deletions import deletion_answered, topic_deletion
from controller.handlers.topic_requests import create_partitions, create_topics

_Answer = TypeVar("_Answer")
log = structlog.stdlib.get_logger(__name__)


async def dispatch(active: ActiveController, event: Event) -> None:
    """What changed in ZooKeeper here; requests and the answers of brokers below."""
    match event:
        case BrokerChange():
            await broker_change(active)
        case BrokerModifications(broker):
            await broker_modifications(active, broker)
        case TopicChange():
            await topic_change(active)
        case PartitionModifications(topic):
            await partition_modifications(active, topic)
        case TopicDeletion():
            await topic_deletion(active)
        case IsrChangeNotification():
            await isr_change_notification(active)
        case LogDirEventNotification():
            await log_dir_event_notification(active)
        case ZkPartitionReassignment():
            await zk_partition_reassignment(active)
        case PartitionReassignmentIsrChange(partition):
            await complete_reassignments(active, [partition])
        case _:
            await _elect(active, event)


async def _elect(active: ActiveController, event: Event) -> None:
    """Reasons for elections that are nobody's request to this controller."""
    match event:
        case ReplicaLeaderElection():
            await replica_leader_election(active)
        case AutoPreferredReplicaLeaderElection():
            await balance_leaders(active)
        case UncleanLeaderElectionEnable():
            await trigger_online_elections(active)
        case TopicUncleanLeaderElectionEnable(topic):
            await trigger_online_elections(active, topic)
        case _:
            await _serve(active, event)


async def _serve(active: ActiveController, event: Event) -> None:
    match event:
        case AlterPartitionReceived(request, reply):
            changes = await alter_partition(active, request)
            _reply(reply, changes)
            # Leaders need not wait for what their new ISRs complete (IS-17).
            await complete_reassignments(active, changed_partitions(active.context, changes))
        case ControlledShutdownReceived(farewell, relieved):
            _reply(relieved, await controlled_shutdown(active, farewell))
        case AllocateProducerIdsReceived(allocation, allocated):
            _reply(allocated, await allocate_producer_ids(active, allocation))
        case ElectLeadersReceived(elections, elected):
            _reply(elected, await elect_leaders(active, elections))
        case UpdateFeaturesReceived(updates, updated):
            _reply(updated, await update_features(active, updates))
        case ApiPartitionReassignment(moves, answered):
            _reply(answered, await alter_partition_reassignments(active, moves))
        case ListPartitionReassignments(listing, listed):
            _reply(listed, list_partition_reassignments(active.context, listing))
        case QueryReceived(query, answer):
            _reply(answer, await answer_query(active, query))
        case _:
            await _administer_topics(active, event)


async def _administer_topics(active: ActiveController, event: Event) -> None:
    match event:
        case CreateTopicsReceived(creation, created):
            _reply(created, await create_topics(active, creation))
        case CreatePartitionsReceived(expansion, expanded):
            _reply(expanded, await create_partitions(active, expansion))
        case DeleteTopicsReceived(deletion, marked):
            _reply(marked, await delete_topics(active, deletion))
        case AlterConfigsReceived(alteration, altered):
            _reply(altered, await alter_configs(active, alteration))
        case _:
            await _take_answer(active, event)


async def _take_answer(active: ActiveController, event: Event) -> None:
    match event:
        case LeaderAndIsrResponseReceived(broker, response):
            await leader_and_isr_answered(active, broker, response)
        case UpdateMetadataResponseReceived(broker, metadata_response):
            if metadata_response.error_code is not ErrorCode.NONE:
                log.warning("UpdateMetadata was refused", broker=broker, error=metadata_response.error_code.name)
        case TopicDeletionStopReplicaResponseReceived():
            await deletion_answered(active, event)
        case _:
            raise AssertionError(f"{type(event).__name__} is no event of a controller in office")


def _reply(reply: "Future[_Answer]", answer: _Answer) -> None:
    # Done already means that the caller went away.
    if not reply.done():
        reply.set_result(answer)
