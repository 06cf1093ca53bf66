"""Real gRPC servers under crowds of clients, slow ones, and some that send what no library sends."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from broker_agent.adapters.grpc_server import serve_broker_agent
from cluster.aio.parking import parked
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, Offset
from cluster.model.errors import ErrorCode, PeerBusyError
from cluster.requests.context import RequestContext
from cluster.requests.control import StopReplicaRequest, StopReplicaResponse
from cluster.requests.data import FetchPartition, FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from cluster.rpc.admission import Admission
from cluster.rpc.admission_limits import AdmissionLimits
from cluster.rpc.call_kinds import CallKind
from cluster.rpc.client import RpcClient
from cluster.rpc.methods import METHOD_OF_REQUEST
from cluster.rpc.serving import Listener
from tests.timeouts import TIMEOUT_S

TIMEOUT_MS = TIMEOUT_S * 1000
FETCH = FetchRequest(BrokerId(-1), (FetchPartition("t", None, 0, Offset(0), 9),), 60_000, 1, 9)
PRODUCE = ProduceRequest(1, 1000, ())
CONTROL = StopReplicaRequest(ControllerId(1), ControllerEpoch(1), BrokerEpoch(1))
FETCH_PATH = METHOD_OF_REQUEST[FetchRequest].path
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""How a connection of HTTP/2 begins, with empty settings."""


class Agent:
    """Fetches wait for records that never come; a produce request is answered unless `holds` it."""

    def __init__(self) -> None:
        self.holds = False
        self.released = asyncio.Event()
        self.recognized: dict[BrokerId, CallKind] = {}
        self.kinds: list[CallKind] = []

    async def handle(self, context: RequestContext, request: Any) -> Any:
        match request:
            case FetchRequest():
                async with parked():
                    await self.released.wait()
                return FetchResponse(ErrorCode.NONE, ())
            case ProduceRequest():
                if self.holds:
                    await self.released.wait()
                return ProduceResponse(())
        return StopReplicaResponse(ErrorCode.NONE, ())

    def recognize(self, request: Any) -> CallKind | None:
        return self.recognized.get(request.replica_id) if isinstance(request, FetchRequest) else None


class Process:
    """An agent at two listeners, and clients of it."""

    def __init__(self, **settings: Any) -> None:
        self.agent = Agent()
        limits = AdmissionLimits.from_settings(Settings(**settings))
        self.metrics = Metrics()
        self.admission = Admission(limits, self.metrics, self.agent.recognize)
        self.address = self.control_address = ""
        self.clients: list[RpcClient] = []

    def client(self) -> RpcClient:
        """A client with a connection of its own."""
        self.clients.append(RpcClient())
        return self.clients[-1]

    async def until_refused(self, kind: CallKind, count: int, *, or_open: bool = False) -> None:
        refused = self.metrics.meter("klamm.network", "Admission", "RefusedRequestsPerSec", kind=kind.label)
        async with asyncio.timeout(TIMEOUT_S):
            while refused.count + or_open * self.admission.open.used_by(kind) < count:  # noqa: ASYNC110 - nothing tells of it.
                await asyncio.sleep(0.01)

    async def until(self, kind: CallKind, *, are_open: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while self.admission.open.used_by(kind) != are_open:  # noqa: ASYNC110 - nothing tells of it.
                await asyncio.sleep(0.01)

    def park_fetches(self, count: int, connections: int = 4) -> list["asyncio.Task[Any]"]:
        clients = [self.client() for _ in range(connections)]
        return [
            asyncio.create_task(clients[number % connections].call(self.address, FETCH, TIMEOUT_MS))
            for number in range(count)
        ]


@asynccontextmanager
async def process(**settings: Any) -> AsyncIterator[Process]:
    made = Process(**settings)
    servers = [
        await serve_broker_agent(listener, made.agent, made.metrics, made.admission)
        for listener in (Listener("127.0.0.1:0"), Listener("127.0.0.1:0", "CONTROL", is_control=True))
    ]
    made.address, made.control_address = (server.address for server in servers)
    try:
        yield made
    finally:
        for client in made.clients:
            await client.close()
        for server in servers:
            await server.stop(0)
        assert (made.admission.open.used, made.admission.handled.used) == (0, 0)
        assert made.admission.memory.budget.used == 0


async def health(address: str) -> int:
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=""), timeout=TIMEOUT_S)
        status: int = answer.status
        return status


@pytest.mark.rule("AD-1", "AD-4")
async def test_waiting_consumers_keep_nobody_else_out() -> None:
    async with process(queued_max_requests=128, klamm_max_open_requests=4096) as crowded:
        waiting = crowded.park_fetches(500)
        await crowded.until(CallKind.FETCH, are_open=500)
        client = crowded.client()
        assert await client.call(crowded.address, PRODUCE, TIMEOUT_MS) == ProduceResponse(())
        assert (await client.call(crowded.control_address, CONTROL, TIMEOUT_MS)).error_code is ErrorCode.NONE
        assert await health(crowded.address) == health_pb2.HealthCheckResponse.SERVING
        crowded.agent.released.set()
        assert {answer.error_code for answer in await asyncio.gather(*waiting)} == {ErrorCode.NONE}


@pytest.mark.rule("AD-4", "AD-10")
async def test_more_waiting_consumers_than_may_be_are_refused_with_what_to_do() -> None:
    async with process(klamm_max_open_requests=64) as crowded:
        waiting = crowded.park_fetches(12)
        await crowded.until(CallKind.FETCH, are_open=12)
        with pytest.raises(PeerBusyError, match=r"send fewer at once, or raise klamm.max.open.requests \(64\)"):
            await crowded.client().call(crowded.address, FETCH, TIMEOUT_MS)
        assert (await crowded.client().call(crowded.control_address, CONTROL, TIMEOUT_MS)).error_code is ErrorCode.NONE
        crowded.agent.released.set()
        await asyncio.gather(*waiting)
        await crowded.client().call(crowded.address, FETCH, TIMEOUT_MS)


@pytest.mark.rule("AD-1", "AD-3")
async def test_producers_that_are_stuck_leave_room_for_control_health_and_replication() -> None:
    async with process(queued_max_requests=32) as stuck:
        stuck.agent.holds = True
        stuck.agent.recognized = {BrokerId(3): CallKind.REPLICATION}
        client = stuck.client()
        held = [asyncio.create_task(client.call(stuck.address, PRODUCE, TIMEOUT_MS)) for _ in range(5)]
        await stuck.until(CallKind.PRODUCE, are_open=5)
        with pytest.raises(PeerBusyError, match=r"5 produce requests of this connection are being handled"):
            await client.call(stuck.address, PRODUCE, TIMEOUT_MS)
        held += [asyncio.create_task(stuck.client().call(stuck.address, PRODUCE, TIMEOUT_MS)) for _ in range(5)]
        await stuck.until(CallKind.PRODUCE, are_open=10)
        with pytest.raises(PeerBusyError, match=r"10 produce requests of this address .* raise queued.max.requests"):
            await stuck.client().call(stuck.address, PRODUCE, TIMEOUT_MS)
        assert (await client.call(stuck.control_address, CONTROL, TIMEOUT_MS)).error_code is ErrorCode.NONE
        assert await health(stuck.address) == health_pb2.HealthCheckResponse.SERVING
        follower = FetchRequest(BrokerId(3), FETCH.partitions, 60_000, 1, 9)
        fetching = asyncio.create_task(client.call(stuck.address, follower, TIMEOUT_MS))
        await stuck.until(CallKind.REPLICATION, are_open=1)
        stuck.agent.released.set()
        await asyncio.gather(*held, fetching)


@pytest.mark.rule("AD-2")
@pytest.mark.parametrize(("replica", "kind"), [(3, CallKind.REPLICATION), (7, CallKind.FETCH), (-1, CallKind.FETCH)])
async def test_a_fetch_is_replication_only_for_a_replica_of_this_broker(replica: int, kind: CallKind) -> None:
    async with process() as claimed:
        claimed.agent.recognized = {BrokerId(3): CallKind.REPLICATION, BrokerId(7): CallKind.FETCH}
        request = FetchRequest(BrokerId(replica), FETCH.partitions, 60_000, 1, 9)
        fetching = asyncio.create_task(claimed.client().call(claimed.address, request, TIMEOUT_MS))
        await claimed.until(kind, are_open=1)
        assert claimed.admission.open.used == 1
        claimed.agent.released.set()
        await fetching


@pytest.mark.rule("AD-2")
async def test_a_leader_without_a_method_for_followers_is_asked_as_by_consumers() -> None:
    server = grpc.aio.server()
    asked = list[int]()

    async def fetch(data: bytes, _: object) -> bytes:
        asked.append(METHOD_OF_REQUEST[FetchRequest].request.decode(data).replica_id)
        response: bytes = METHOD_OF_REQUEST[FetchRequest].response.encode(FetchResponse(ErrorCode.NONE, ()))
        return response

    service, _, name = FETCH_PATH[1:].partition("/")
    handlers = {name: grpc.unary_unary_rpc_method_handler(fetch)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    client = RpcClient()
    try:
        for _ in range(2):
            request = FetchRequest(BrokerId(3), FETCH.partitions, 0, 1, 9)
            assert await client.call(address, request, TIMEOUT_MS) == FetchResponse(ErrorCode.NONE, ())
        assert asked == [3, 3]
    finally:
        await client.close()
        await server.stop(0)


@pytest.mark.rule("AD-1")
async def test_control_requests_at_the_listener_for_clients_have_no_precedence() -> None:
    async with process(queued_max_requests=8) as misled:
        misled.agent.holds = True
        held = [asyncio.create_task(misled.client().call(misled.address, PRODUCE, TIMEOUT_MS)) for _ in range(2)]
        await misled.until(CallKind.PRODUCE, are_open=2)
        assert (await misled.client().call(misled.address, CONTROL, TIMEOUT_MS)).error_code is ErrorCode.NONE
        used = {
            tuple(sample.labels.values()): sample.value
            for family in misled.metrics.collect()
            for sample in family.samples
            if family.name == "klamm_network_admission_handledrequests"
        }
        assert used[("produce",)] == 2
        misled.agent.released.set()
        await asyncio.gather(*held)


@pytest.mark.rule("AD-4")
async def test_streams_have_a_bound_and_keep_nobody_out() -> None:
    async with process(klamm_max_open_requests=160) as watched, grpc.aio.insecure_channel(watched.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        watching = [stub.Watch(health_pb2.HealthCheckRequest(service="")) for _ in range(5)]
        for stream in watching:
            assert (await stream.read()).status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Watch(health_pb2.HealthCheckRequest(service="")).read()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "5 watch requests of this connection are open" in (caught.value.details() or "")
        assert await health(watched.address) == health_pb2.HealthCheckResponse.SERVING
        for stream in watching:
            stream.cancel()


@pytest.mark.rule("AD-9")
@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_compressed_requests_are_refused(algorithm: grpc.Compression) -> None:
    async with process() as bombed, grpc.aio.insecure_channel(bombed.address) as channel:
        fetch: Any = channel.unary_unary(FETCH_PATH)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await fetch(bytes(10_000_000), compression=algorithm, timeout=TIMEOUT_S)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert await bombed.client().call(bombed.address, PRODUCE, TIMEOUT_MS) == ProduceResponse(())


async def until_closed(connection: socket.socket) -> bytes:
    """What the other side sends until it closes the connection."""
    connection.setblocking(False)
    received, loop = b"", asyncio.get_running_loop()
    async with asyncio.timeout(TIMEOUT_S):
        with suppress(ConnectionError):
            while part := await loop.sock_recv(connection, 65_536):
                received += part
    return received


def connect(address: str) -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_S)


@pytest.mark.rule("AD-8")
@pytest.mark.parametrize("first", [b"", PREFACE[:24], PREFACE])
async def test_connections_that_send_no_request_are_closed(first: bytes) -> None:
    short = {"socket_connection_setup_timeout_ms": 200, "connections_max_idle_ms": 300}
    async with process(**short) as idle:
        with connect(idle.address) as connection:
            connection.sendall(first)
            await until_closed(connection)


@pytest.mark.rule("AD-5")
async def test_connections_beyond_the_limit_are_closed_at_once() -> None:
    async with process(max_connections=2) as full:
        with connect(full.address) as first, connect(full.address) as second:
            for connection in (first, second):
                connection.sendall(PREFACE)
                assert connection.recv(1)
            with connect(full.address) as third:
                await until_closed(third)
            client = full.client()
            assert (await client.call(full.control_address, CONTROL, TIMEOUT_MS)).error_code is ErrorCode.NONE


@pytest.mark.rule("AD-5")
async def test_an_address_may_have_so_many_connections_with_requests() -> None:
    async with process(max_connections_per_ip=2) as full:
        waiting = full.park_fetches(4, connections=2)
        await full.until(CallKind.FETCH, are_open=4)
        with pytest.raises(PeerBusyError, match=r"max.connections.per.ip \(2\)"):
            await full.client().call(full.address, PRODUCE, TIMEOUT_MS)
        assert (await full.client().call(full.control_address, CONTROL, TIMEOUT_MS)).error_code is ErrorCode.NONE
        full.agent.released.set()
        await asyncio.gather(*waiting)


@pytest.mark.rule("AD-3")
async def test_one_connection_has_so_many_requests_open() -> None:
    async with process(klamm_max_requests_per_connection=3) as capped:
        waiting = capped.park_fetches(5, connections=1)
        await capped.until(CallKind.FETCH, are_open=3)
        assert await capped.client().call(capped.address, PRODUCE, TIMEOUT_MS) == ProduceResponse(())
        assert capped.admission.open.used_by(CallKind.FETCH) == 3
        capped.agent.released.set()
        # Where a stream ends at the limit, the library may refuse the next one because it still counts there.
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert sum(isinstance(answer, FetchResponse) for answer in answers) >= 3


def _literal(name: str, value: str) -> bytes:
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def _frame(kind: int, payload: bytes, stream: int = 1, flags: int = 0) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


HEADERS = _frame(
    1,
    b"".join(
        _literal(name, value)
        for name, value in (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", FETCH_PATH),
            (":authority", "a"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        )
    ),
    flags=4,
)
DATA_BEGUN = _frame(0, b"\0" + (1000).to_bytes(4, "big") + b"x")


@pytest.mark.rule("AD-8", "AD-10")
@pytest.mark.parametrize("drips", [False, True])
async def test_a_request_whose_body_does_not_come_is_dropped(drips: bool) -> None:
    async with process(klamm_request_transfer_timeout_ms=500) as slow:
        loop = asyncio.get_running_loop()
        with connect(slow.address) as connection:
            connection.sendall(PREFACE + HEADERS + (DATA_BEGUN if drips else b""))
            connection.setblocking(False)
            received = b""
            async with asyncio.timeout(TIMEOUT_S):
                while b"klamm.request.transfer.timeout.ms" not in received:
                    with suppress(TimeoutError):
                        received += await asyncio.wait_for(loop.sock_recv(connection, 65_536), 0.05)
                    if drips and slow.admission.open.used:
                        await loop.sock_sendall(connection, _frame(0, b"x"))
            await slow.until(CallKind.FETCH, are_open=0)
            assert slow.admission.memory.budget.used == 0


@pytest.mark.rule("AD-7", "AD-8")
async def test_requests_that_do_not_arrive_keep_no_others_out() -> None:
    async with process() as slow:
        with connect(slow.address) as connection:
            streams = [HEADERS[:5] + stream.to_bytes(4, "big") + HEADERS[9:] for stream in range(1, 80, 2)]
            connection.sendall(PREFACE + b"".join(streams))
            await slow.until_refused(CallKind.FETCH, 40, or_open=True)
            waiting = slow.park_fetches(20)
            # All but one are refused, once later ones have arrived.
            await slow.until_refused(CallKind.FETCH, 39)
            await slow.until(CallKind.FETCH, are_open=21)
            assert await slow.client().call(slow.address, PRODUCE, TIMEOUT_MS) == ProduceResponse(())
            slow.agent.released.set()
            await asyncio.gather(*waiting)
        await slow.until(CallKind.FETCH, are_open=0)
