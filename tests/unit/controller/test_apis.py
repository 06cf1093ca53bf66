"""The tables of APIs: whole, with the public names of causes, and used as they say."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.authentication import AuthenticateRequest
from cluster.requests.cluster import DescribeClusterRequest, DescribeFindingsRequest, WatchRequest
from cluster.requests.configs import UpdateFeaturesRequest
from cluster.requests.context import RequestContext
from cluster.requests.topics import CreateTopicsRequest
from cluster.rpc.apis import ApiKind, DirectApi
from cluster.rpc.methods import BROKER_AGENT_SERVICE, CLUSTER_SERVICE, CONTROLLER_SERVICE, REPLICA_FETCH
from controller.apis import APIS
from controller.controller_state import ControllerState
from controller.request_events import ControllerApi, RequestEvent
from controller.user_requests import AlterUserScramCredentialsRequest
from state_log.apis import state_log_apis
from state_log.writer import FileStateChangeLog
from tests.brokers.agents import AgentWorld, virtually
from tests.controllers.worlds import run_virtually, running_cluster
from tests.unit.state_log.test_writer import Clock, open_log

CAUSES = {
    "AlterPartition": ("AlterPartitionReceived", ControllerState.ISR_CHANGE),
    "ControlledShutdown": ("ControlledShutdownReceived", ControllerState.CONTROLLED_SHUTDOWN),
    "AllocateProducerIds": ("AllocateProducerIdsReceived", ControllerState.IDLE),
    "ReportDamagedReplicas": ("ReportDamagedReplicasReceived", ControllerState.BROKER_CHANGE),
    "CreateTopics": ("CreateTopicsReceived", ControllerState.TOPIC_CHANGE),
    "CreatePartitions": ("CreatePartitionsReceived", ControllerState.TOPIC_CHANGE),
    "DeleteTopics": ("DeleteTopicsReceived", ControllerState.TOPIC_DELETION),
    "AlterPartitionReassignments": ("ApiPartitionReassignment", ControllerState.ALTER_PARTITION_REASSIGNMENT),
    "ListPartitionReassignments": ("ListPartitionReassignments", ControllerState.LIST_PARTITION_REASSIGNMENT),
    "ElectLeaders": ("ElectLeadersReceived", ControllerState.MANUAL_LEADER_BALANCE),
    "AlterConfigs": ("AlterConfigsReceived", ControllerState.IDLE),
    "UpdateFeatures": ("UpdateFeaturesReceived", ControllerState.UPDATE_FEATURES),
    "AlterUserScramCredentials": ("AlterUserScramCredentialsReceived", ControllerState.IDLE),
    "RecoverCluster": ("RecoverClusterReceived", ControllerState.IDLE),
    "CreateAcls": ("CreateAclsReceived", ControllerState.IDLE),
    "DeleteAcls": ("DeleteAclsReceived", ControllerState.IDLE),
}
"""What the state-change log and the metrics call the requests that are no mere queries."""


@pytest.fixture
def log(tmp_path: Path) -> FileStateChangeLog:
    return open_log(tmp_path, Clock())


def test_every_method_of_a_service_has_a_row_of_its_name(log: FileStateChangeLog) -> None:
    async def controller() -> None:
        _, c = await running_cluster(1)
        methods = {method.request_type: method.name for method in (*CLUSTER_SERVICE, *CONTROLLER_SERVICE)}
        # It is answered before the node is asked.
        del methods[AuthenticateRequest]
        served = {**c.node.apis, **{api.request: api for api in state_log_apis(log)}}
        kafkas = {AlterUserScramCredentialsRequest: "AlterUserScramCredentials"}
        assert {request: api.name for request, api in served.items()} == methods | kafkas
        await c.stop()

    @virtually
    async def agent() -> None:
        world = AgentWorld()
        await world.start(1)
        agent = world.agents[1]
        own = [method for method in BROKER_AGENT_SERVICE if method is not REPLICA_FETCH]
        methods = {method.request_type: method.name for method in (*CLUSTER_SERVICE, *own)}
        del methods[AuthenticateRequest]
        served = {**agent.node.apis, **{api.request: api for api in state_log_apis(log)}}
        assert {request: api.name for request, api in served.items()} == methods
        await world.stop()

    run_virtually(controller)
    agent()


def test_causes_and_states_keep_the_names_that_are_public() -> None:
    assert {api.name: (api.event, api.state) for api in APIS.values() if api.name in CAUSES} == CAUSES
    queries = [api for api in APIS.values() if api.name not in CAUSES]
    assert {(api.kind, api.event, api.state) for api in queries} == {
        (ApiKind.QUERY, "QueryReceived", ControllerState.IDLE)
    }


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_row_says_what_its_kind_asks_for(api: ControllerApi[Any, Any]) -> None:
    assert (api.refuse is not None) == (api.kind is ApiKind.INTER_NODE)
    changes = api.kind is ApiKind.MUTATION
    assert (api.finish is None) or changes
    # UpdateFeatures does not honour it, as in Kafka; PlanFeatureUpdates does.
    dry_run = {"validate_only"} & {field.name for field in fields(api.request)} and api.request != UpdateFeaturesRequest
    assert (api.dry_run_topics is not None) == bool(dry_run)


def test_what_a_controller_answers_active_or_not_is_local() -> None:
    async def main() -> None:
        _, c = await running_cluster(1)
        local = {request for request, api in c.node.apis.items() if api.kind is ApiKind.LOCAL}
        assert local == {request for request, api in c.node.apis.items() if isinstance(api, DirectApi)}
        assert local == {DescribeClusterRequest, DescribeFindingsRequest, WatchRequest}
        await c.stop()

    run_virtually(main)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
async def test_a_refusal_between_nodes_is_a_code_and_otherwise_an_error(api: ControllerApi[Any, Any]) -> None:
    reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    event = RequestEvent(api, None, reply)
    event.refuse(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "no"))
    event.answer("too late")
    if api.kind is ApiKind.INTER_NODE:
        assert reply.result().error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        assert isinstance(reply.exception(), ApiError)


def test_an_event_knows_who_asked() -> None:
    async def main() -> None:
        _, c = await running_cluster(1)
        put, events = c.controller.events.put, []
        c.controller.events.put = lambda event: (events.append(event), put(event))[1]  # type: ignore[method-assign, func-returns-value]
        context = RequestContext("ipv4:127.0.0.1:9", "User:ann", 5, "id-1")
        await c.node.handle(context, CreateTopicsRequest(()))
        assert [(event.name, event.context) for event in events if isinstance(event, RequestEvent)] == [
            ("CreateTopicsReceived", context)
        ]
        await c.stop()

    run_virtually(main)
