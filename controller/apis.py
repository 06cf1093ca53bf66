"""The table of APIs of the active controller, in the order of `ControllerService`.

Event names and states are public: they are in the state-change log and in the metrics (EV-3).
"""

from typing import Any, Final

from cluster.errors import ErrorCode
from cluster.requests import agents, configs, reassignments, topics
from cluster.requests.cluster import DescribeClusterRequest, DescribeFindingsRequest
from cluster.requests.elections import ElectLeadersRequest, PlanControlledShutdownRequest
from cluster.requests.recovery import PlanClusterRecoveryRequest, RecoverClusterRequest
from cluster.rpc.apis import ApiKind, Callers
from controller import dry_runs
from controller.controller_state import ControllerState
from controller.handlers.brokers.controlled_shutdown import controlled_shutdown
from controller.handlers.brokers.producer_ids import allocate_producer_ids
from controller.handlers.configs.features import describe_features, update_features
from controller.handlers.configs.requests import alter_configs, describe_configs
from controller.handlers.partitions.elections import elect_leaders, wait_for_delivery
from controller.handlers.partitions.isr_changes import alter_partition, complete_moves
from controller.handlers.queries import (
    describe_cluster,
    describe_findings,
    describe_topic_deletions,
    describe_topics,
    list_topics,
)
from controller.handlers.reassignment.requests import (
    alter_partition_reassignments,
    describe_reassignments,
    list_partition_reassignments,
)
from controller.handlers.recovery.requests import plan_cluster_recovery, recover_cluster
from controller.handlers.topics.deletion_requests import delete_topics, wait_for_deletions
from controller.handlers.topics.requests import (
    create_partitions,
    create_topics,
    wait_for_leaders,
    wait_for_new_partitions,
)
from controller.request_events import ControllerApi

_QUERY: Final = (ApiKind.QUERY, Callers.ANYONE)
_PRIVILEGED_QUERY: Final = (ApiKind.QUERY, Callers.ADMINISTRATORS)
_MUTATION: Final = (ApiKind.MUTATION, Callers.ADMINISTRATORS)
_INTER_NODE: Final = (ApiKind.INTER_NODE, Callers.BROKERS)


def _refuse_controlled_shutdown(code: ErrorCode) -> agents.ControlledShutdownResponse:
    # Brokers expect this code if the controller is no longer active (CS-1).
    moved = code is ErrorCode.NOT_CONTROLLER
    return agents.ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH if moved else code)


_ROWS: Final[tuple[ControllerApi[Any, Any], ...]] = (
    ControllerApi(
        agents.AlterPartitionRequest,
        *_INTER_NODE,
        alter_partition,
        event="AlterPartitionReceived",
        state=ControllerState.ISR_CHANGE,
        refuse=agents.AlterPartitionResponse,
        # After the reply: leaders need not wait for reassignments that their new ISRs complete (IS-17).
        follow_up=complete_moves,
    ),
    ControllerApi(
        agents.ControlledShutdownRequest,
        *_INTER_NODE,
        controlled_shutdown,
        event="ControlledShutdownReceived",
        state=ControllerState.CONTROLLED_SHUTDOWN,
        refuse=_refuse_controlled_shutdown,
    ),
    ControllerApi(
        agents.AllocateProducerIdsRequest,
        *_INTER_NODE,
        allocate_producer_ids,
        event="AllocateProducerIdsReceived",
        refuse=agents.AllocateProducerIdsResponse,
    ),
    ControllerApi(
        topics.CreateTopicsRequest,
        *_MUTATION,
        create_topics,
        event="CreateTopicsReceived",
        state=ControllerState.TOPIC_CHANGE,
        finish=wait_for_leaders,
        dry_run_topics=dry_runs.named_topics,
    ),
    ControllerApi(
        topics.CreatePartitionsRequest,
        *_MUTATION,
        create_partitions,
        event="CreatePartitionsReceived",
        state=ControllerState.TOPIC_CHANGE,
        finish=wait_for_new_partitions,
        dry_run_topics=dry_runs.named_topics,
    ),
    ControllerApi(
        topics.DeleteTopicsRequest,
        *_MUTATION,
        delete_topics,
        event="DeleteTopicsReceived",
        state=ControllerState.TOPIC_DELETION,
        finish=wait_for_deletions,
        dry_run_topics=dry_runs.topics_to_delete,
    ),
    ControllerApi(topics.ListTopicsRequest, *_QUERY, list_topics),
    ControllerApi(topics.DescribeTopicsRequest, *_QUERY, describe_topics),
    ControllerApi(topics.DescribeTopicDeletionsRequest, *_QUERY, describe_topic_deletions),
    ControllerApi(
        reassignments.AlterPartitionReassignmentsRequest,
        *_MUTATION,
        alter_partition_reassignments,
        event="ApiPartitionReassignment",
        state=ControllerState.ALTER_PARTITION_REASSIGNMENT,
        dry_run_topics=dry_runs.named_topics,
    ),
    ControllerApi(
        reassignments.ListPartitionReassignmentsRequest,
        *_QUERY,
        list_partition_reassignments,
        event="ListPartitionReassignments",
        state=ControllerState.LIST_PARTITION_REASSIGNMENT,
    ),
    ControllerApi(reassignments.DescribeReassignmentsRequest, *_QUERY, describe_reassignments),
    ControllerApi(
        ElectLeadersRequest,
        *_MUTATION,
        elect_leaders,
        event="ElectLeadersReceived",
        state=ControllerState.MANUAL_LEADER_BALANCE,
        finish=wait_for_delivery,
        dry_run_topics=dry_runs.topics_to_elect,
    ),
    ControllerApi(PlanControlledShutdownRequest, *_PRIVILEGED_QUERY, dry_runs.plan_controlled_shutdown),
    ControllerApi(configs.DescribeConfigsRequest, *_PRIVILEGED_QUERY, describe_configs),
    ControllerApi(
        configs.AlterConfigsRequest,
        *_MUTATION,
        alter_configs,
        event="AlterConfigsReceived",
        dry_run_topics=dry_runs.topics_to_alter,
    ),
    ControllerApi(configs.DescribeFeaturesRequest, *_QUERY, describe_features),
    ControllerApi(
        configs.UpdateFeaturesRequest,
        *_MUTATION,
        update_features,
        event="UpdateFeaturesReceived",
        state=ControllerState.UPDATE_FEATURES,
    ),
    ControllerApi(configs.PlanFeatureUpdatesRequest, *_PRIVILEGED_QUERY, dry_runs.plan_feature_updates),
    ControllerApi(PlanClusterRecoveryRequest, *_PRIVILEGED_QUERY, plan_cluster_recovery),
    ControllerApi(
        RecoverClusterRequest,
        *_MUTATION,
        recover_cluster,
        event="RecoverClusterReceived",
    ),
    ControllerApi(DescribeFindingsRequest, *_PRIVILEGED_QUERY, describe_findings),
    # Asked by the process itself, which completes the answer or answers alone: see `controller.node`.
    ControllerApi(DescribeClusterRequest, *_QUERY, describe_cluster),
)
APIS: Final = {api.request: api for api in _ROWS}
