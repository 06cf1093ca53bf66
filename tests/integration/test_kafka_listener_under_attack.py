"""What strangers can do at a Kafka listener: nothing that is an error of the controller, and nobody is locked out."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from random import Random
from time import perf_counter, thread_time
from typing import Any

import pytest
from structlog.testing import capture_logs

from cluster.kafka_wire.apis import api
from cluster.kafka_wire.headers import decode_response, encode_request
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages import brokers as wire_brokers
from cluster.kafka_wire.messages import topics as wire_topics
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.connections import (
    ListGroupsRequest,
    ListGroupsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from cluster.kafka_wire.messages.data import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    MetadataRequest,
    MetadataResponse,
)
from cluster.model.broker import Broker, BrokerId, Endpoint
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError, StartupError
from cluster.requests import topics
from cluster.requests.context import RequestContext
from controller.adapters.kafka.server import KafkaServers
from tests.kafka.listeners import NEWEST_CREATION, as_version, asked, creating, listener_with
from tests.kafka.peers import TIMEOUT_S, KafkaPeer, connected, kafka_broker, kafka_listener
from tests.processes.scripted_servers import Scripted, refuse


@pytest.mark.rule("D-107")
@pytest.mark.parametrize("version", [-1, 20, 32_767])
@pytest.mark.parametrize(
    ("request_", "newest", "response"),
    [
        (wire_brokers.AlterPartitionRequest(), 3, wire_brokers.AlterPartitionResponse),
        (ListGroupsRequest(), 5, ListGroupsResponse),
        (DescribeLogDirsRequest(), 4, DescribeLogDirsResponse),
        (ListTransactionsRequest(), 1, ListTransactionsResponse),
    ],
)
async def test_a_version_that_is_not_known_is_refused_by_name(
    request_: Message, newest: int, response: type[Message], version: int
) -> None:
    async with listener_with(KafkaPeer({})) as servers, connected(servers) as client:
        asked_at, has_code = (newest, True) if version > 0 else (0, response is not DescribeLogDirsResponse)
        call = client.call_raw(as_version(request_, version), timeout_s=TIMEOUT_S)
        if not has_code:
            with pytest.raises(PeerUnreachableError):
                await call
            return
        _, answer = decode_response(response, asked_at, await call)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION  # type: ignore[attr-defined]


class Answering(KafkaPeer):
    """A broker that answers anything to what it is asked for others."""

    async def handle(self, frame: bytes) -> bytes | None:
        if int.from_bytes(frame[:2], "big") in {ApiKey.API_VERSIONS, ApiKey.DESCRIBE_ACLS} and frame[-5:] == b"klamm":
            return await super().handle(frame)
        return frame[4:8]


BODIES = (b"", bytes(200), b"\xff" * 200, b"\0\0\0\1\0\1x" * 30, b"\x7f\xff\xff\xff" * 5, Random(1).randbytes(300))


@pytest.mark.rule("D-107")
async def test_no_request_of_a_stranger_is_an_error_of_the_controller() -> None:
    """Every API in every version, two beyond the newest and one below the oldest, with bodies that are none: each is
    answered or costs the connection.
    """
    handler = Scripted(refuse(ApiError(ErrorCode.NOT_CONTROLLER, "ask 1002")))
    async with kafka_broker(Answering({})) as broker, kafka_listener(handler, [broker]) as servers:
        with capture_logs() as lines:
            for key in (*range(-1, 76), 1000, 32_767):
                known = api(ApiKey(key)) if key in set(ApiKey) else None
                for version in range(-1, (known.latest_version if known else 0) + 3):
                    head = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
                    await send_each(servers, [head + b"\0\0\0\7\xff\xff\0" + body for body in BODIES])
        async with connected(servers) as client:
            assert (await asked(client, ListGroupsRequest(), 4, ListGroupsResponse)).error_code == ErrorCode.NONE
    assert [line for line in lines if line["log_level"] in {"error", "critical"} or "exc_info" in line] == []


async def send_each(servers: KafkaServers, frames: list[bytes]) -> None:
    """Each over a connection of its own, at once; returns when all are answered or closed."""

    async def send(frame: bytes) -> None:
        async with connected(servers) as client:
            with suppress(PeerUnreachableError):
                await client.call_raw(frame, timeout_s=TIMEOUT_S)

    await asyncio.gather(*map(send, frames))


@pytest.mark.rule("D-107")
async def test_a_request_that_is_not_admitted_is_answered_where_it_can_be() -> None:
    """Nothing of it was done, and clients try again."""
    waits = asyncio.Event()

    async def wait(_: Any) -> Any:
        await waits.wait()
        return topics.CreateTopicsResponse((topics.CreatableTopicResult("t", ErrorCode.NONE),))

    peer = KafkaPeer({ApiKey.METADATA: lambda _: MetadataResponse()})
    wanted = creating(wire_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1))
    async with (
        kafka_broker(peer) as broker,
        kafka_listener(Waiting(wait), [broker], queued_max_requests=8) as servers,
        AsyncExitStack() as clients,
    ):
        all_places = [await clients.enter_async_context(connected(servers)) for _ in range(8)]
        calls = [asyncio.ensure_future(asked(c, wanted, 7, wire_topics.CreateTopicsResponse)) for c in all_places]
        async with connected(servers) as client:
            codes = []
            for version in (7, 5):
                answer = await asked(client, wanted, version, wire_topics.CreateTopicsResponse)
                codes += [topic.error_code for topic in answer.topics]
            assert codes == [ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.REQUEST_TIMED_OUT]
            answer = await asked(client, ListGroupsRequest(), 4, ListGroupsResponse)
            assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
            with pytest.raises(PeerUnreachableError):
                await asked(client, MetadataRequest(), 9, MetadataResponse)
        waits.set()
        await asyncio.gather(*calls)


@pytest.mark.rule("D-106")
async def test_the_host_of_a_registered_broker_has_places_of_its_own() -> None:
    """Of 16 places four are for it, although strangers of many addresses open connections without end."""
    broker = Broker(BrokerId(1), (Endpoint("127.0.0.9", 9092),))
    opened: list[asyncio.StreamWriter] = []
    strangers: list[asyncio.StreamReader] = []

    async def connect(at: Endpoint, host: str) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(at.host, at.port, local_addr=(host, 0))
        opened.append(writer)
        return reader

    def are_closed(readers: list[asyncio.StreamReader]) -> int:
        return sum(reader.at_eof() or reader.exception() is not None for reader in readers)

    async def crowded(at: Endpoint) -> int:
        """How many of the broker's four connections are closed for those of strangers."""
        of_broker = [await connect(at, "127.0.0.9") for _ in range(4)]
        strangers.extend([await connect(at, f"127.0.2.{number}") for number in range(40)])
        while len(strangers) - are_closed(strangers) > 12:  # noqa: ASYNC110 - most of them are closed soon.
            await asyncio.sleep(0.01)
        return are_closed(of_broker)

    async with kafka_listener(Scripted(lambda _: None), [broker], max_connections=16) as servers:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                # The registrations are read when places become few, and at most once a second.
                while await crowded(servers.endpoints[0]):
                    pass
                assert await crowded(servers.endpoints[0]) == 0
        finally:
            for writer in opened:
                writer.close()


@pytest.mark.rule("D-106")
async def test_an_override_of_an_unknown_host_is_refused_at_the_start() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with kafka_listener(Scripted(lambda _: None), max_connections_per_ip_overrides="no-such-host.invalid:5"):
            pass
    (error,) = caught.value.exceptions
    assert isinstance(error, StartupError)
    assert str(error).startswith("max.connections.per.ip.overrides: no-such-host.invalid has no address")


class Waiting:
    """A handler that takes its time."""

    def __init__(self, answer: Callable[[Any], Awaitable[Any]]) -> None:
        self._answer = answer

    async def handle(self, _: RequestContext, request: Any) -> Any:
        return await self._answer(request)


@pytest.mark.rule("D-108")
async def test_long_requests_leave_the_loop_to_others() -> None:
    """20,000 topics are decoded, converted, checked and answered beside the loop."""
    many = creating(
        *(wire_topics.CreatableTopic(name=f"t{n}", num_partitions=1, replication_factor=1) for n in range(20_000))
    )
    results = tuple(topics.CreatableTopicResult(f"t{n}", ErrorCode.NONE) for n in range(20_000))
    handler = Scripted(lambda _: topics.CreateTopicsResponse(results))
    async with listener_with(KafkaPeer({}), handler) as servers, connected(servers) as client:
        frame = encode_request(many, NEWEST_CREATION, 1, None)
        # Of three, as something else may run on the machine during one.
        held = [await longest_hold(client.call_raw(frame, timeout_s=TIMEOUT_S)) for _ in range(3)]
    for answer, _, _ in held:
        assert len(decode_response(wire_topics.CreateTopicsResponse, NEWEST_CREATION, answer)[1].topics) == 20_000
    # By a part of the whole, as the machine may be slow.
    assert any(longest_ms < max(50, took_ms / 4) for _, longest_ms, took_ms in held), held


async def longest_hold(call: Awaitable[bytes]) -> tuple[bytes, float, float]:
    """The answer of the call; for how long at a time it held the event loop at most, and how long it took, in ms.

    By the loop's own thread: other programs, and other threads, are no concern of the loop.
    """
    longest_ms = 0.0

    async def probe() -> None:
        nonlocal longest_ms
        while True:
            began = thread_time()
            await asyncio.sleep(0.002)
            longest_ms = max(longest_ms, (thread_time() - began) * 1000)

    probing = asyncio.ensure_future(probe())
    began = perf_counter()
    answer = await call
    took_ms = (perf_counter() - began) * 1000
    probing.cancel()
    return answer, longest_ms, took_ms
