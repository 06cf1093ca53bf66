"""Calls between real gRPC servers and clients: what arrives, what is refused, and how large it may be."""

from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from broker_agent.adapters.grpc_cluster_client import GrpcClusterClient
from broker_agent.adapters.grpc_server import serve_broker_agent
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import (
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Endpoint,
    Offset,
)
from cluster.model.errors import (
    ApiError,
    ControllerMovedError,
    ErrorCode,
    FieldViolation,
    PeerUnreachableError,
    RequestTooLargeError,
    StartupError,
)
from cluster.requests.agents import AlterPartitionRequest, AlterPartitionResponse
from cluster.requests.cluster import DescribeClusterRequest
from cluster.requests.control import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from cluster.requests.data import (
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ProducePartition,
    ProducePartitionResult,
    ProduceRequest,
    ProduceResponse,
)
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from cluster.rpc.channels import MESSAGE_BYTES_MAX
from cluster.rpc.client import RpcClient
from cluster.rpc.serving import Listener, RpcServer
from controller.adapters.grpc_broker_client import GrpcBrokerClient
from controller.adapters.grpc_server import serve_controller
from deploy.local.processes import choose_free_ports
from tests.processes.scripted_servers import DESCRIPTION, TIMEOUT_MS, Scripted, agent, controller, refuse


async def test_a_request_arrives_in_domain_types_with_its_context() -> None:
    async with controller(lambda _: DESCRIPTION) as (server, handler, client):
        answer = await client.call(server.address, DescribeClusterRequest(), TIMEOUT_MS, request_id="r-7")
        assert answer == DESCRIPTION
        ((context, request),) = handler.asked
        assert request == DescribeClusterRequest()
        assert context.request_id == "r-7"
        assert context.principal == "ANONYMOUS"
        assert context.timeout_ms is not None
        # gRPC rounds a deadline up on its way.
        assert 0 < context.timeout_ms <= 1.1 * TIMEOUT_MS
        assert "127.0.0.1" in context.peer


async def test_a_call_without_a_deadline_has_no_timeout() -> None:
    async with controller(lambda _: DESCRIPTION) as (server, handler, _):
        async with grpc.aio.insecure_channel(server.address) as channel:
            headers = (("klamm-principal", "alice"),)
            await channel.unary_unary("/klamm.v1.ClusterService/DescribeCluster")(b"", metadata=headers)
        assert handler.asked[0][0].timeout_ms is None
        assert handler.asked[0][0].principal == "alice"


async def test_a_request_id_too_long_for_every_record_is_refused_by_name() -> None:
    async with controller(lambda _: DESCRIPTION) as (server, handler, client):
        with pytest.raises(ApiError) as caught:
            await client.call(server.address, DescribeClusterRequest(), TIMEOUT_MS, request_id="r" * 257)
        assert (caught.value.code, caught.value.field) == (ErrorCode.INVALID_REQUEST, "x-request-id")
        assert handler.asked == []


async def test_a_refusal_travels_with_its_code_and_details() -> None:
    refusal = ApiError(
        ErrorCode.NOT_CONTROLLER, "ask the other", field="topics", value=3, leader_address="10.0.0.1:9095"
    )
    async with controller(refuse(refusal)) as (server, _, client):
        with pytest.raises(ApiError) as caught:
            await client.call(server.address, CreateTopicsRequest((NewTopic("t"),)), TIMEOUT_MS)
        error = caught.value
        assert (error.code, error.message) == (ErrorCode.NOT_CONTROLLER, "ask the other")
        assert (error.field, error.value, error.leader_address) == ("topics", "3", "10.0.0.1:9095")
        cause = error.__cause__
        assert isinstance(cause, grpc.aio.AioRpcError)
        assert cause.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_everything_that_is_wrong_with_a_request_travels_as_bad_request() -> None:
    wrong = (FieldViolation("a", "too small"), FieldViolation("b", "unknown"))
    refusal = ApiError(ErrorCode.INVALID_CONFIG, "both", field="a", value=1, violations=wrong)
    async with controller(refuse(refusal)) as (server, _, client):
        with pytest.raises(ApiError) as caught:
            await client.call(server.address, CreateTopicsRequest((NewTopic("t"),)), TIMEOUT_MS)
        assert caught.value.violations == wrong
        status = rpc_status.from_call(caught.value.__cause__)
        assert status is not None
        details = BadRequest()
        assert any(detail.Unpack(details) for detail in status.details)
        assert [(v.field, v.description) for v in details.field_violations] == [("a", "too small"), ("b", "unknown")]


@pytest.mark.parametrize(
    ("raised", "code", "status"),
    [
        (ControllerMovedError("epoch 4"), ErrorCode.STALE_CONTROLLER_EPOCH, grpc.StatusCode.FAILED_PRECONDITION),
        (KeyError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR, grpc.StatusCode.INTERNAL),
        (AssertionError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR, grpc.StatusCode.INTERNAL),
    ],
)
async def test_whatever_a_handler_raises_is_an_error_of_the_call(
    raised: Exception, code: ErrorCode, status: grpc.StatusCode
) -> None:
    async with controller(refuse(raised)) as (server, _, client):
        with pytest.raises(ApiError) as caught:
            await client.call(server.address, DescribeClusterRequest(), TIMEOUT_MS)
        assert caught.value.code is code
        assert isinstance(caught.value.__cause__, grpc.aio.AioRpcError)
        assert caught.value.__cause__.code() is status


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"", "AlterPartitionRequest.broker_id"),
        (b"\xff\xff\xff", "AlterPartitionRequest"),
        (b"\x08\x01\x10\x05\x1a\x00", "AlterPartitionItem.partition_index"),
    ],
)
async def test_a_request_that_lacks_what_matters_is_refused_naming_the_field(data: bytes, field: str) -> None:
    async with controller(lambda _: AlterPartitionResponse(ErrorCode.NONE)) as (server, handler, _):
        async with grpc.aio.insecure_channel(server.address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary("/klamm.v1.ControllerService/AlterPartition")(data)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert field in (caught.value.details() or "")
        assert handler.asked == []


async def test_twenty_megabytes_pass_both_ways() -> None:
    records = bytes(20 * 1024 * 1024)
    data = FetchPartitionData("t", 0, ErrorCode.NONE, records=records)

    def answer(request: Any) -> Any:
        if isinstance(request, ProduceRequest):
            return ProduceResponse((ProducePartitionResult("t", 0, ErrorCode.NONE, Offset(len(records))),))
        return FetchResponse(ErrorCode.NONE, (data,))

    async with agent(answer) as (server, handler, client):
        produce = ProduceRequest(-1, 1000, (ProducePartition("t", 0, records),))
        produced = await client.call(server.address, produce, TIMEOUT_MS)
        assert produced.partitions[0].base_offset == len(records)
        assert handler.asked[0][1] == produce
        fetch = FetchRequest(BrokerId(-1), (FetchPartition("t", None, 0, Offset(0), 9),), 0, 1, 9)
        assert (await client.call(server.address, fetch, TIMEOUT_MS)).partitions == (data,)


async def test_a_message_above_the_limit_fails_its_call_and_nothing_else() -> None:
    async with agent(lambda _: ProduceResponse(())) as (server, _, client):
        too_large = ProduceRequest(1, 1000, (ProducePartition("t", 0, bytes(MESSAGE_BYTES_MAX)),))
        with pytest.raises(RequestTooLargeError):
            await client.call(server.address, too_large, TIMEOUT_MS)
        small = ProduceRequest(1, 1000, (ProducePartition("t", 0, b"x"),))
        assert await client.call(server.address, small, TIMEOUT_MS) == ProduceResponse(())


async def test_each_listener_has_its_own_limit_and_names_itself_to_the_handler() -> None:
    handler, client = Scripted(lambda _: ProduceResponse(())), RpcClient()
    narrow = await serve_broker_agent(Listener("127.0.0.1:0", "PLAINTEXT", 2048), handler, Metrics())
    wide = await serve_broker_agent(Listener("127.0.0.1:0", "CONTROL", 8192), handler, Metrics())
    produce = ProduceRequest(1, 1000, (ProducePartition("t", 0, bytes(4096)),))
    try:
        with pytest.raises(RequestTooLargeError, match="at most 2048 bytes"):
            await client.call(narrow.address, produce, TIMEOUT_MS)
        await client.call(wide.address, produce, TIMEOUT_MS)
        await client.call(narrow.address, ProduceRequest(1, 1000, ()), TIMEOUT_MS)
        assert [context.listener for context, _ in handler.asked] == ["CONTROL", "PLAINTEXT"]
    finally:
        await client.close()
        await narrow.stop(0)
        await wide.stop(0)


async def test_produce_without_acknowledgement_answers_nothing_or_fails() -> None:
    outcomes = [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]

    def answer(_request: Any) -> ProduceResponse:
        return ProduceResponse((ProducePartitionResult("t", 0, outcomes.pop(0), Offset(5)),))

    async with agent(answer) as (server, _, client):
        request = ProduceRequest(0, 1000, (ProducePartition("t", 0, b"x"),))
        assert await client.call(server.address, request, TIMEOUT_MS) == ProduceResponse(())
        with pytest.raises(ApiError) as caught:
            await client.call(server.address, request, TIMEOUT_MS)
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_health_and_reflection_are_served() -> None:
    async with agent(lambda _: None) as (server, _, _client), grpc.aio.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "klamm.v1.BrokerAgentService", "klamm.v1.ClusterService"):
            state = await stub.Check(health_pb2.HealthCheckRequest(service=service))
            assert state.status == health_pb2.HealthCheckResponse.SERVING
        await server.set_serving(False)
        state = await stub.Check(health_pb2.HealthCheckRequest())
        assert state.status == health_pb2.HealthCheckResponse.NOT_SERVING
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        async for answer in reflection.ServerReflectionInfo(asked):
            names = {service.name for service in answer.list_services_response.service}
            assert {"klamm.v1.BrokerAgentService", "grpc.health.v1.Health"} <= names


async def test_a_port_in_use_is_a_startup_error_that_names_it() -> None:
    async with controller(lambda _: DESCRIPTION) as (server, _, _client):
        with pytest.raises(StartupError, match=server.address):
            await serve_controller(Listener(server.address), Scripted(lambda _: None), Metrics())


def broker(server: RpcServer) -> Broker:
    return Broker(BrokerId(1), (Endpoint(server.host, server.port),))


async def test_control_requests_reach_a_broker_and_its_refusals_are_answers() -> None:
    live = Broker(BrokerId(1), (Endpoint("h", 1),), "r1")
    update = UpdateMetadataRequest(ControllerId(1001), ControllerEpoch(1), BrokerEpoch(4), (), (live,))
    stop = StopReplicaRequest(
        ControllerId(1001), ControllerEpoch(1), BrokerEpoch(4), (StopReplicaPartitionState("t", 0),)
    )

    def answer(request: Any) -> Any:
        if isinstance(request, StopReplicaRequest):
            raise ControllerMovedError("newer")
        return UpdateMetadataResponse(ErrorCode.NONE)

    async with agent(answer) as (server, handler, _):
        client = GrpcBrokerClient(Settings())
        try:
            assert await client.send(broker(server), update) == UpdateMetadataResponse(ErrorCode.NONE)
            assert handler.asked[0][1].live_brokers == (live,)
            assert await client.send(broker(server), stop) == StopReplicaResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
            await client.forget(broker(server))
            assert await client.send(broker(server), update) == UpdateMetadataResponse(ErrorCode.NONE)
        finally:
            await client.close()


@pytest.mark.rule("RQ-32")
async def test_a_broker_that_returns_gets_its_request_at_the_next_attempt() -> None:
    stop = StopReplicaRequest(ControllerId(1001), ControllerEpoch(1), BrokerEpoch(4), ())
    answer = StopReplicaResponse(ErrorCode.NONE)
    (port,) = choose_free_ports(1)
    at_port = Broker(BrokerId(1), (Endpoint("127.0.0.1", port),))
    client = GrpcBrokerClient(Settings())
    try:
        for _ in range(5):
            with pytest.raises(PeerUnreachableError):
                await client.send(at_port, stop)
        server = await serve_broker_agent(Listener(f"127.0.0.1:{port}"), Scripted(lambda _: answer), Metrics())
        assert await client.send(at_port, stop) == answer
        await server.stop(0)
    finally:
        await client.close()


@pytest.mark.rule("RQ-30")
async def test_a_broker_without_the_listener_is_unreachable() -> None:
    client = GrpcBrokerClient(Settings(inter_broker_listener_name="INTERNAL"))
    elsewhere = Broker(BrokerId(1), (Endpoint("h", 1, listener="EXTERNAL"),))
    request = UpdateMetadataRequest(ControllerId(1001), ControllerEpoch(1), BrokerEpoch(4), (), ())
    with pytest.raises(PeerUnreachableError, match="INTERNAL"):
        await client.send(elsewhere, request)


async def test_an_agent_reads_refusals_as_the_error_of_the_whole_request() -> None:
    refusal = refuse(ApiError(ErrorCode.NOT_CONTROLLER, "not I"))
    async with controller(refusal) as (server, _, _client):
        client = GrpcClusterClient(Settings())
        endpoint = Endpoint(server.host, server.port)
        try:
            request = AlterPartitionRequest(BrokerId(1), BrokerEpoch(2), ())
            answer = await client.ask_controller(endpoint, request)
            assert answer == AlterPartitionResponse(ErrorCode.NOT_CONTROLLER)
            # A controller has no BrokerAgentService.
            with pytest.raises(PeerUnreachableError, match="UNIMPLEMENTED"):
                await client.ask_leader(endpoint, ListOffsetsRequest(BrokerId(1), ()))
        finally:
            await client.close()


async def test_requests_and_their_errors_are_counted_by_api() -> None:
    outcomes = iter([FetchResponse(ErrorCode.NONE), FetchResponse(ErrorCode.UNKNOWN_TOPIC_ID)])

    def answer(request: Any) -> Any:
        if isinstance(request, FetchRequest):
            return next(outcomes)
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, "acks 7")

    def count(name: str, **tags: object) -> int:
        return metrics.meter("kafka.network", "RequestMetrics", name, **tags).count

    metrics = Metrics()
    async with agent(answer, metrics) as (server, _, client):
        for replica in (BrokerId(2), BrokerId(-1)):
            await client.call(server.address, FetchRequest(replica, (), 0, 1, 9), TIMEOUT_MS)
        with pytest.raises(ApiError):
            await client.call(server.address, ProduceRequest(7, 1000, ()), TIMEOUT_MS)
    for api in ("FetchFollower", "FetchConsumer", "Produce"):
        assert count("RequestsPerSec", request=api) == 1
        assert metrics.timer("kafka.network", "RequestMetrics", "TotalTimeMs", request=api).count == 1
        assert metrics.histogram("kafka.network", "RequestMetrics", "RequestBytes", request=api).sum > 0
        for name in ("LocalTimeMs", "RemoteTimeMs", "ResponseSendTimeMs"):
            assert metrics.timer("kafka.network", "RequestMetrics", name, request=api).count == 1
    assert count("ErrorsPerSec", request="FetchFollower", error="NONE") == 1
    assert count("ErrorsPerSec", request="FetchConsumer", error="UNKNOWN_TOPIC_ID") == 1
    assert count("ErrorsPerSec", request="Produce", error="INVALID_REQUIRED_ACKS") == 1
