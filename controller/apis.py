"""The table of APIs of the active controller, in the order of `ControllerService`; then what only Kafka's clients ask.

Event names and states are public: they are in the state-change log and in the metrics (EV-3).
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from cluster.model.errors import ErrorCode
from cluster.requests import acls, agents, configs, reassignments, topics
from cluster.requests.cluster import DescribeClusterRequest, DescribeFindingsRequest
from cluster.requests.elections import ElectLeadersRequest, PlanControlledShutdownRequest
from cluster.requests.quotas import DescribeClientQuotasRequest
from cluster.requests.recovery import PlanClusterRecoveryRequest, RecoverClusterRequest
from cluster.requests.users import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from cluster.rpc.apis import ApiKind, Request
from controller import dry_runs
from controller.active_controller import ActiveController
from controller.context.controller_context import ControllerContext
from controller.controller_state import ControllerState as State
from controller.handlers.brokers.controlled_shutdown import controlled_shutdown
from controller.handlers.brokers.damaged_replicas import report_damaged_replicas
from controller.handlers.brokers.producer_ids import allocate_producer_ids
from controller.handlers.configs.access_lists import create_acls, delete_acls, describe_acls
from controller.handlers.configs.client_quotas import describe_client_quotas
from controller.handlers.configs.features import describe_features, update_features
from controller.handlers.configs.requests import alter_configs, describe_configs
from controller.handlers.configs.user_credentials import (
    alter_user_scram_credentials,
    describe_user_scram_credentials,
)
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
from controller.handlers.recovery.questions import ask_brokers
from controller.handlers.recovery.requests import plan_cluster_recovery, recover_cluster
from controller.handlers.topics.deletion_requests import delete_topics, wait_for_deletions
from controller.handlers.topics.requests import (
    create_partitions,
    create_topics,
    wait_for_leaders,
    wait_for_new_partitions,
)
from controller.request_events import Answer, ControllerApi


def _refuse_controlled_shutdown(code: ErrorCode) -> agents.ControlledShutdownResponse:
    # Brokers expect this code if the controller is no longer active (CS-1).
    moved = code is ErrorCode.NOT_CONTROLLER
    return agents.ControlledShutdownResponse(ErrorCode.STALE_CONTROLLER_EPOCH if moved else code)


def _mutation(
    request: type[Request],
    handler: Callable[[ActiveController, Request], Awaitable[Answer]],
    state: State = State.IDLE,
    finish: Callable[[Answer, Request], Awaitable[object]] | None = None,
    dry_run_topics: Callable[[ControllerContext, Request], Iterable[str]] | None = None,
    *,
    event: str | None = None,
) -> ControllerApi[Request, Answer]:
    return ControllerApi(
        request,
        ApiKind.MUTATION,
        handler,
        state=state,
        finish=finish,
        dry_run_topics=dry_run_topics,
        event_name=event,
    )


_ROWS: Final[tuple[ControllerApi[Any, Any], ...]] = (
    ControllerApi(
        agents.AlterPartitionRequest,
        ApiKind.INTER_NODE,
        alter_partition,
        state=State.ISR_CHANGE,
        refuse=agents.AlterPartitionResponse,
        # After the reply: leaders need not wait for reassignments that their new ISRs complete (IS-17).
        follow_up=complete_moves,
    ),
    ControllerApi(
        agents.ControlledShutdownRequest,
        ApiKind.INTER_NODE,
        controlled_shutdown,
        state=State.CONTROLLED_SHUTDOWN,
        refuse=_refuse_controlled_shutdown,
    ),
    ControllerApi(
        agents.AllocateProducerIdsRequest,
        ApiKind.INTER_NODE,
        allocate_producer_ids,
        refuse=agents.AllocateProducerIdsResponse,
    ),
    ControllerApi(
        agents.ReportDamagedReplicasRequest,
        ApiKind.INTER_NODE,
        report_damaged_replicas,
        state=State.BROKER_CHANGE,
        refuse=agents.ReportDamagedReplicasResponse,
    ),
    _mutation(topics.CreateTopicsRequest, create_topics, State.TOPIC_CHANGE, wait_for_leaders, dry_runs.named_topics),
    _mutation(
        topics.CreatePartitionsRequest,
        create_partitions,
        State.TOPIC_CHANGE,
        wait_for_new_partitions,
        dry_runs.named_topics,
    ),
    _mutation(
        topics.DeleteTopicsRequest, delete_topics, State.TOPIC_DELETION, wait_for_deletions, dry_runs.topics_to_delete
    ),
    ControllerApi(topics.ListTopicsRequest, ApiKind.QUERY, list_topics),
    ControllerApi(topics.DescribeTopicsRequest, ApiKind.QUERY, describe_topics),
    ControllerApi(topics.DescribeTopicDeletionsRequest, ApiKind.QUERY, describe_topic_deletions),
    _mutation(
        reassignments.AlterPartitionReassignmentsRequest,
        alter_partition_reassignments,
        State.ALTER_PARTITION_REASSIGNMENT,
        dry_run_topics=dry_runs.named_topics,
        event="ApiPartitionReassignment",
    ),
    ControllerApi(
        reassignments.ListPartitionReassignmentsRequest,
        ApiKind.QUERY,
        list_partition_reassignments,
        event_name="ListPartitionReassignments",
        state=State.LIST_PARTITION_REASSIGNMENT,
    ),
    ControllerApi(reassignments.DescribeReassignmentsRequest, ApiKind.QUERY, describe_reassignments),
    _mutation(
        ElectLeadersRequest, elect_leaders, State.MANUAL_LEADER_BALANCE, wait_for_delivery, dry_runs.topics_to_elect
    ),
    ControllerApi(PlanControlledShutdownRequest, ApiKind.QUERY, dry_runs.plan_controlled_shutdown),
    ControllerApi(configs.DescribeConfigsRequest, ApiKind.QUERY, describe_configs),
    _mutation(configs.AlterConfigsRequest, alter_configs, dry_run_topics=dry_runs.topics_to_alter),
    ControllerApi(configs.DescribeFeaturesRequest, ApiKind.QUERY, describe_features),
    _mutation(configs.UpdateFeaturesRequest, update_features, State.UPDATE_FEATURES),
    ControllerApi(configs.PlanFeatureUpdatesRequest, ApiKind.QUERY, dry_runs.plan_feature_updates),
    ControllerApi[Any, Any](PlanClusterRecoveryRequest, ApiKind.QUERY, plan_cluster_recovery, gather=ask_brokers),
    ControllerApi[Any, Any](RecoverClusterRequest, ApiKind.MUTATION, recover_cluster, gather=ask_brokers),
    _mutation(acls.CreateAclsRequest, create_acls),
    ControllerApi(acls.DescribeAclsRequest, ApiKind.QUERY, describe_acls),
    _mutation(acls.DeleteAclsRequest, delete_acls),
    ControllerApi(DescribeFindingsRequest, ApiKind.QUERY, describe_findings),
    ControllerApi(DescribeUserScramCredentialsRequest, ApiKind.QUERY, describe_user_scram_credentials),
    _mutation(AlterUserScramCredentialsRequest, alter_user_scram_credentials),
    ControllerApi(DescribeClientQuotasRequest, ApiKind.QUERY, describe_client_quotas),
    # Asked by the process itself, which completes the answer or answers alone: see `controller.node`.
    ControllerApi(DescribeClusterRequest, ApiKind.QUERY, describe_cluster),
)
APIS: Final = {api.request: api for api in _ROWS}
