"""The ports of real processes: what is answered where, up to which size, and what clients are told."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, LeaderEpoch
from cluster.model.errors import ApiError, ErrorCode, RequestTooLargeError
from cluster.requests.agents import AllocateProducerIdsRequest
from cluster.requests.cluster import DescribeClusterRequest, DescribeClusterResponse
from cluster.requests.control import StopReplicaPartitionState, StopReplicaRequest
from cluster.requests.data import MetadataRequest, ProducePartition, ProduceRequest
from cluster.requests.topics import ListTopicsRequest
from cluster.rpc.client import RpcClient
from deploy.local.processes import choose_free_ports
from tests.controllers.plain_zookeeper import plain_client
from tests.processes.programs import LONG_SESSIONS, Programs
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


def registered(client: Any, path: str, names: Sequence[str] = ("PLAINTEXT", "CONTROL")) -> list[str]:
    """The addresses in a registration, once it is there."""
    found = client.handler.event_object()
    while not client.exists(path, watch=lambda _: found.set()):
        assert found.wait(TIMEOUT_S), path
        found.clear()
    endpoints = json.loads(client.get(path)[0])["endpoints"]
    assert [endpoint.partition("://")[0] for endpoint in endpoints] == list(names)
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


@pytest.fixture
def outside(tmp_path: Path, zookeeper: str) -> Iterator[list[str]]:
    """The external addresses of two controllers and a broker, whose addresses inside are reached by nobody but them."""
    programs = Programs(tmp_path)
    ids = (("controller", 1001), ("controller", 1002), ("broker_agent", 1))
    ports = choose_free_ports(2 * len(ids))
    try:
        with plain_client(zookeeper) as client:
            for (module, node), inside, external in zip(ids, ports[::2], ports[1::2], strict=True):
                # Another name for loopback, and so another address.
                fields = {
                    "id": node,
                    "zookeeper": zookeeper,
                    "listen": f"127.0.0.1:{inside}",
                    "advertised": f"127.0.0.2:{inside}",
                    "control_listen": "127.0.0.2:0",
                    "external_listen": f"127.0.0.1:{external}",
                    "external_advertised": f"127.0.0.3:{external}",
                }
                programs.start(module, fields, LONG_SESSIONS)
                kind = "brokers" if module == "broker_agent" else "controllers"
                registered(client, f"/{kind}/ids/{node}", ["PLAINTEXT", "CONTROL", "EXTERNAL"])
            yield [f"127.0.0.1:{external}" for external in ports[1::2]]
    finally:
        programs.end()


@pytest.mark.rule("LS-5")
async def test_clients_at_the_external_listener_get_its_addresses(outside: list[str]) -> None:
    rpc = RpcClient()
    advertised = {address.replace("127.0.0.1", "127.0.0.3") for address in outside}
    controllers, broker = outside[:2], outside[2]

    async def until_known(address: str) -> DescribeClusterResponse:
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                described: DescribeClusterResponse = await rpc.call(address, DescribeClusterRequest(), TIMEOUT_MS)
                if described.controller_address and len(described.controllers) == 2:
                    return described
                await asyncio.sleep(0.1)

    try:
        for address in outside:
            described = await until_known(address)
            assert described.controller_address in advertised
            assert {c.address for c in described.controllers} <= advertised
            assert {b.endpoint.address for b in described.brokers} <= advertised
        metadata = await rpc.call(broker, MetadataRequest(), TIMEOUT_MS)
        assert {f"{b.host}:{b.port}" for b in metadata.brokers} <= advertised
        leaders = set()
        for address in controllers:
            try:
                await rpc.call(address, ListTopicsRequest(), TIMEOUT_MS)
            except ApiError as error:
                leaders.add(error.leader_address)
        assert len(leaders) == 1
        assert leaders <= advertised
        with pytest.raises(ApiError):
            await rpc.call(broker, stop_replica(), TIMEOUT_MS)
    finally:
        await rpc.close()
