"""The table of what an active controller answers: one row for each API, in the order of `ControllerService`.

Event names and states are public: they stand in the state-change log, and in the metrics (EV-3).
"""

from typing import Any, Final

from cluster.errors import ErrorCode
from cluster.requests.agents import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from cluster.requests.cluster import DescribeClusterRequest
from cluster.requests.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    DescribeFeaturesRequest,
    PlanFeatureUpdatesRequest,
    UpdateFeaturesRequest,
)
from cluster.requests.elections import ElectLeadersRequest, PlanControlledShutdownRequest
from cluster.requests.reassignments import (
    AlterPartitionReassignmentsRequest,
    DescribeReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeTopicDeletionsRequest,
    DescribeTopicsRequest,
    ListTopicsRequest,
)
from cluster.rpc.apis import ApiKind, Callers
from controller.controller_state import ControllerState
from controller.dry_runs import (
    named_topics,
    plan_controlled_shutdown,
    plan_feature_updates,
    topics_to_alter,
    topics_to_delete,
    topics_to_elect,
)
from controller.handlers.brokers.controlled_shutdown import controlled_shutdown
from controller.handlers.brokers.producer_ids import allocate_producer_ids
from controller.handlers.configs.features import describe_features, update_features
from controller.handlers.configs.requests import alter_configs, describe_configs
from controller.handlers.partitions.elections import elect_leaders, wait_for_delivery
from controller.handlers.partitions.isr_changes import alter_partition, complete_moves
from controller.handlers.queries import describe_cluster, describe_topic_deletions, describe_topics, list_topics
from controller.handlers.reassignment.requests import (
    alter_partition_reassignments,
    describe_reassignments,
    list_partition_reassignments,
)
from controller.handlers.topics.deletion_requests import delete_topics, wait_for_deletions
from controller.handlers.topics.requests import (
    create_partitions,
    create_topics,
    wait_for_leaders,
    wait_for_new_partitions,
)
from controller.request_events import ControllerApi

_QUERY, _MUTATION, _INTER_NODE = ApiKind.QUERY, ApiKind.MUTATION, ApiKind.INTER_NODE
_ANYONE, _ADMINISTRATORS, _BROKERS = Callers.ANYONE, Callers.ADMINISTRATORS, Callers.BROKERS


def _refuse_controlled_shutdown(code: ErrorCode) -> ControlledShutdownResponse:
    # Brokers expect this code if the controller is no longer active (CS-1).
    moved = code is ErrorCode.NOT_CONTROLLER
    return ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH if moved else code)


_ROWS: Final[tuple[ControllerApi[Any, Any], ...]] = (
    ControllerApi(
        AlterPartitionRequest,
        _INTER_NODE,
        _BROKERS,
        alter_partition,
        event="AlterPartitionReceived",
        state=ControllerState.ISR_CHANGE,
        refuse=AlterPartitionResponse,
        # Leaders need not wait for what their new ISRs complete (IS-17).
        follow_up=complete_moves,
    ),
    ControllerApi(
        ControlledShutdownRequest,
        _INTER_NODE,
        _BROKERS,
        controlled_shutdown,
        event="ControlledShutdownReceived",
        state=ControllerState.CONTROLLED_SHUTDOWN,
        refuse=_refuse_controlled_shutdown,
    ),
    ControllerApi(
        AllocateProducerIdsRequest,
        _INTER_NODE,
        _BROKERS,
        allocate_producer_ids,
        event="AllocateProducerIdsReceived",
        refuse=AllocateProducerIdsResponse,
    ),
    ControllerApi(
        CreateTopicsRequest,
        _MUTATION,
        _ADMINISTRATORS,
        create_topics,
        event="CreateTopicsReceived",
        state=ControllerState.TOPIC_CHANGE,
        finish=wait_for_leaders,
        dry_run_topics=named_topics,
    ),
    ControllerApi(
        CreatePartitionsRequest,
        _MUTATION,
        _ADMINISTRATORS,
        create_partitions,
        event="CreatePartitionsReceived",
        state=ControllerState.TOPIC_CHANGE,
        finish=wait_for_new_partitions,
        dry_run_topics=named_topics,
    ),
    ControllerApi(
        DeleteTopicsRequest,
        _MUTATION,
        _ADMINISTRATORS,
        delete_topics,
        event="DeleteTopicsReceived",
        state=ControllerState.TOPIC_DELETION,
        finish=wait_for_deletions,
        dry_run_topics=topics_to_delete,
    ),
    ControllerApi(ListTopicsRequest, _QUERY, _ANYONE, list_topics),
    ControllerApi(DescribeTopicsRequest, _QUERY, _ANYONE, describe_topics),
    ControllerApi(DescribeTopicDeletionsRequest, _QUERY, _ANYONE, describe_topic_deletions),
    ControllerApi(
        AlterPartitionReassignmentsRequest,
        _MUTATION,
        _ADMINISTRATORS,
        alter_partition_reassignments,
        event="ApiPartitionReassignment",
        state=ControllerState.ALTER_PARTITION_REASSIGNMENT,
        dry_run_topics=named_topics,
    ),
    ControllerApi(
        ListPartitionReassignmentsRequest,
        _QUERY,
        _ANYONE,
        list_partition_reassignments,
        event="ListPartitionReassignments",
        state=ControllerState.LIST_PARTITION_REASSIGNMENT,
    ),
    ControllerApi(DescribeReassignmentsRequest, _QUERY, _ANYONE, describe_reassignments),
    ControllerApi(
        ElectLeadersRequest,
        _MUTATION,
        _ADMINISTRATORS,
        elect_leaders,
        event="ElectLeadersReceived",
        state=ControllerState.MANUAL_LEADER_BALANCE,
        finish=wait_for_delivery,
        dry_run_topics=topics_to_elect,
    ),
    ControllerApi(PlanControlledShutdownRequest, _QUERY, _ADMINISTRATORS, plan_controlled_shutdown),
    ControllerApi(DescribeConfigsRequest, _QUERY, _ADMINISTRATORS, describe_configs),
    ControllerApi(
        AlterConfigsRequest,
        _MUTATION,
        _ADMINISTRATORS,
        alter_configs,
        event="AlterConfigsReceived",
        dry_run_topics=topics_to_alter,
    ),
    ControllerApi(DescribeFeaturesRequest, _QUERY, _ANYONE, describe_features),
    ControllerApi(
        UpdateFeaturesRequest,
        _MUTATION,
        _ADMINISTRATORS,
        update_features,
        event="UpdateFeaturesReceived",
        state=ControllerState.UPDATE_FEATURES,
    ),
    ControllerApi(PlanFeatureUpdatesRequest, _QUERY, _ADMINISTRATORS, plan_feature_updates),
    # Asked by the process itself, which completes the answer or answers alone: see `controller.node`.
    ControllerApi(DescribeClusterRequest, _QUERY, _ANYONE, describe_cluster),
)
APIS: Final = {api.request: api for api in _ROWS}
