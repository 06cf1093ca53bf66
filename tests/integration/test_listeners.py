"""The two ports of real processes: what is answered where, up to which size, and what clients are told."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from cluster.broker import BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, LeaderEpoch
from cluster.errors import ApiError, ErrorCode, RequestTooLargeError
from cluster.requests.agents import AllocateProducerIdsRequest
from cluster.requests.cluster import DescribeClusterRequest
from cluster.requests.control import StopReplicaPartitionState, StopReplicaRequest
from cluster.requests.data import MetadataRequest, ProducePartition, ProduceRequest
from cluster.rpc.client import RpcClient
from tests.plain_zookeeper import plain_client
from tests.programs import LONG_SESSIONS, Programs
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

TIMEOUT_MS = TIMEOUT_S * 1000
LIMIT = 50_000
MODULES = {"controllers": "controller", "brokers": "broker_agent"}
IDS = {"controllers": 1001, "brokers": 1}


@pytest.fixture
def ports(tmp_path: Path, zookeeper: str) -> Iterator[dict[str, list[str]]]:
    """For a controller and a broker, the addresses for clients and for control requests, as registered."""
    programs = Programs(tmp_path)
    settings = {**LONG_SESSIONS, "socket.request.max.bytes": LIMIT}
    try:
        for kind, module in MODULES.items():
            programs.start(module, {"id": IDS[kind], "zookeeper": zookeeper, "listen": "127.0.0.1:0"}, settings)
        with plain_client(zookeeper) as client:
            yield {kind: registered(client, f"/{kind}/ids/{IDS[kind]}") for kind in MODULES}
    finally:
        programs.end()


def registered(client: Any, path: str) -> list[str]:
    """The addresses in a registration, once it is there."""
    found = client.handler.event_object()
    while not client.exists(path, watch=lambda _: found.set()):
        assert found.wait(TIMEOUT_S), path
        found.clear()
    endpoints = json.loads(client.get(path)[0])["endpoints"]
    assert [endpoint.partition("://")[0] for endpoint in endpoints] == ["PLAINTEXT", "CONTROL"]
    return [endpoint.partition("://")[2] for endpoint in endpoints]


def stop_replica(bytes_: int = 0) -> StopReplicaRequest:
    states = tuple(
        StopReplicaPartitionState("t", partition, LeaderEpoch(0), delete_partition=False)
        for partition in range(bytes_ // 8)
    )
    # Of a controller older than any, so that nothing comes of it.
    return StopReplicaRequest(ControllerId(1001), ControllerEpoch(0), BrokerEpoch(-1), states)


@pytest.mark.rule("LS-1", "LS-2", "LS-4")
async def test_each_port_of_a_process_answers_its_own_requests_up_to_its_own_size(ports: dict[str, list[str]]) -> None:
    rpc = RpcClient()
    client_port, control_port = ports["brokers"]
    try:
        answered = await rpc.call(control_port, stop_replica(), TIMEOUT_MS)
        large = await rpc.call(control_port, stop_replica(4 * LIMIT), TIMEOUT_MS)
        assert {answered.error_code, large.error_code} <= {ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH}
        with pytest.raises(ApiError) as refused:
            await rpc.call(client_port, stop_replica(), TIMEOUT_MS)
        assert f"at the listener CONTROL ({control_port})" in str(refused.value)
        cause = refused.value.__cause__
        assert isinstance(cause, grpc.aio.AioRpcError)
        assert cause.code() is grpc.StatusCode.UNIMPLEMENTED
        produce = ProduceRequest(1, 1000, (ProducePartition("t", 0, bytes(LIMIT)),))
        with pytest.raises(RequestTooLargeError):
            await rpc.call(client_port, produce, TIMEOUT_MS)
        with pytest.raises(ApiError, match="at the listener PLAINTEXT"):
            await rpc.call(control_port, ProduceRequest(1, 1000, ()), TIMEOUT_MS)

        client_port, control_port = ports["controllers"]
        allocated = await rpc.call(control_port, AllocateProducerIdsRequest(BrokerId(9)), TIMEOUT_MS)
        assert allocated.error_code is not ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(ApiError, match="at the listener CONTROL"):
            await rpc.call(client_port, AllocateProducerIdsRequest(BrokerId(9)), TIMEOUT_MS)
    finally:
        await rpc.close()


@pytest.mark.rule("LS-2")
async def test_clients_get_the_addresses_for_clients_only(ports: dict[str, list[str]]) -> None:
    rpc = RpcClient()
    own = {addresses[0] for addresses in ports.values()}
    try:
        for address in own:
            described = await rpc.call(address, DescribeClusterRequest(), TIMEOUT_MS)
            known = {b.endpoint.address for b in described.brokers} | {c.address for c in described.controllers}
            assert known | {described.controller_address} <= own | {""}
        metadata = await rpc.call(ports["brokers"][0], MetadataRequest(), TIMEOUT_MS)
        assert {f"{broker.host}:{broker.port}" for broker in metadata.brokers} <= own
    finally:
        await rpc.close()


@pytest.mark.rule("LS-1")
async def test_health_and_reflection_are_at_every_port(ports: dict[str, list[str]]) -> None:
    for address in (address for addresses in ports.values() for address in addresses):
        async with grpc.aio.insecure_channel(address) as channel:
            state = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            assert state.status == health_pb2.HealthCheckResponse.SERVING
            listing = reflection_pb2.ServerReflectionRequest(list_services="")
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            async for answer in stub.ServerReflectionInfo(iter([listing])):
                names = {service.name for service in answer.list_services_response.service}
                assert "klamm.v1.ClusterService" in names
