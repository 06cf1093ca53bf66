"""A simulated cluster that takes hostile requests, and what must be true of it all the while and afterwards."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import structlog
from msgspec import Struct

from cluster.config.settings import Settings
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests.data import ProducePartition, ProduceRequest
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from cluster.rpc.call_kinds import CallKind, kind_of
from cluster.rpc.methods import BROKER_AGENT_SERVICE, CLUSTER_SERVICE, CONTROLLER_SERVICE, Method
from simulator.cluster import SimulatedCluster
from simulator.nodes import SimulatedController, SimulatedNode
from simulator.record_batches import encode_client_batch
from simulator.virtual_time_loop import VirtualTimeLoop
from tests.fuzz.known import TOPICS

REPLICAS: Final = (BrokerId(1), BrokerId(2), BrokerId(3))
# Followers that have nothing to fetch ask rarely: what goes on besides the requests shall cost little.
SETTINGS: Final = Settings(
    zookeeper_session_timeout_ms=6000, replica_lag_time_max_ms=10_000, replica_fetch_wait_max_ms=4000
)
_WAITING_FIELDS: Final = ("timeout_ms", "max_wait_ms")
_ANSWERED_WITHIN_MS: Final = 25_000
_STREAMED: Final = 3


class Sent(NamedTuple):
    """One request: the number of the node that gets it, the name of the method, and the bytes."""

    node: int
    call: str
    data: bytes

    @property
    def method(self) -> Method:
        return METHODS[self.call]


class FuzzError(AssertionError):
    """The cluster did what no request may make it do."""


METHODS_OF_CONTROLLERS: Final = (*CONTROLLER_SERVICE, *CLUSTER_SERVICE)
METHODS_OF_AGENTS: Final = (*BROKER_AGENT_SERVICE, *CLUSTER_SERVICE)
METHODS: Final = {method.name: method for method in (*METHODS_OF_CONTROLLERS, *METHODS_OF_AGENTS)}


@contextmanager
def no_error_is_logged() -> Iterator[None]:
    """Raise FuzzError if a traceback was logged meanwhile."""
    with structlog.testing.capture_logs() as lines:
        yield
    bad = [line for line in lines if line.get("exc_info") or line["log_level"] == "critical"]
    if bad:
        raise FuzzError(f"logged: {bad[0]}")


async def start_cluster() -> SimulatedCluster:
    """One controller and three brokers with two topics that have records. The same each time."""
    cluster = SimulatedCluster(1, controllers=1, brokers=len(REPLICAS), settings=SETTINGS)
    cluster.start_all()
    await _is_ready(cluster)
    for topic in TOPICS:
        await _create(cluster, topic)
        for _ in range(3):
            await _produce(cluster, topic)
    return cluster


async def send(cluster: SimulatedCluster, sent: Sent, *, znodes_are_sound: bool = True) -> None:
    """Send one request. Raises FuzzError if the answer is an internal error, cannot be sent, or does not come.

    UNKNOWN_SERVER_ERROR is Kafka's answer to what needs a malformed znode; an error of klamm's own is logged as well.
    """
    node = cluster.nodes[sent.node % len(cluster.nodes)]
    request: Any = None
    try:
        request = sent.method.request.decode(sent.data)
        answer = await cluster.network.call("client", _address(node, sent.method), request)
        if sent.method.streams:
            await _follow(answer, sent.method)
        else:
            # What cannot be encoded could not be sent.
            sent.method.response.encode(answer)
            if znodes_are_sound:
                _check_codes(answer, sent, request)
    except ApiError as error:
        if znodes_are_sound and error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            raise FuzzError(f"{sent.method.name}: {error}: {request}") from error
    except PeerUnreachableError as error:
        if error.why == "timed out" and not _may_wait(request):
            raise FuzzError(f"{sent.method.name} was not answered: {request}") from error


def _address(node: SimulatedNode, method: Method) -> str:
    endpoints = node.incarnations[-1].endpoints
    return endpoints[kind_of(method.request_type) is CallKind.CONTROL].address


def _may_wait(request: Any) -> bool:
    waits = [getattr(request, name) for name in _WAITING_FIELDS if hasattr(request, name)]
    return any(wait < 0 or wait >= _ANSWERED_WITHIN_MS for wait in waits)


async def _follow(answers: AsyncIterator[Any], method: Method) -> None:
    try:
        async with asyncio.timeout(1):
            left = _STREAMED
            async for answer in answers:
                method.response.encode(answer)
                left -= 1
                if not left:
                    break
    except TimeoutError:
        return


def _check_codes(answer: Any, sent: Sent, request: Any) -> None:
    if isinstance(answer, Struct):
        if getattr(answer, "error_code", ErrorCode.NONE) is ErrorCode.UNKNOWN_SERVER_ERROR:
            raise FuzzError(f"{sent.method.name} answered {answer}: {request}")
        for name in answer.__struct_fields__:
            _check_codes(getattr(answer, name), sent, request)
    elif isinstance(answer, tuple | list):
        for item in answer:
            _check_codes(item, sent, request)


async def check_all_run(cluster: SimulatedCluster) -> None:
    """Raise FuzzError if a process has ended with an error or left one that nobody took."""
    cluster.raise_if_a_node_died()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    if loop.unhandled:
        raise FuzzError(f"nobody took {loop.unhandled[0]}")


async def check_serves_after_restart(cluster: SimulatedCluster) -> None:
    """Restart every process; then a topic can be created, written and read. Nothing waits for them in their files."""
    for node in cluster.nodes:
        if node.is_running:
            node.crash()
    await asyncio.sleep(7)
    for node in cluster.nodes:
        node.start()
    await asyncio.sleep(1)
    await _is_ready(cluster)
    await _create(cluster, "after")
    await _produce(cluster, "after")


async def _is_ready(cluster: SimulatedCluster) -> None:
    def ready() -> bool:
        active = cluster.active_controller()
        return active is not None and active.context.brokers.live_ids == set(REPLICAS)

    await cluster.until(ready, "an active controller with all brokers")


def _active(cluster: SimulatedCluster) -> SimulatedController:
    active = cluster.active_controller()
    assert active is not None
    return active


async def _create(cluster: SimulatedCluster, topic: str) -> None:
    # Whatever the defaults of the cluster are by now.
    configs = {"min.insync.replicas": "1", "max.message.bytes": "100000"}
    new = NewTopic(topic, assignments={0: REPLICAS, 1: REPLICAS[::-1]}, configs=configs)
    answer: Any = await cluster.network.call("client", _active(cluster).address, CreateTopicsRequest((new,)))
    if answer.topics[0].error_code is not ErrorCode.NONE:
        raise FuzzError(f"no topic can be created: {answer}")


async def _produce(cluster: SimulatedCluster, topic: str) -> None:
    batch = encode_client_batch(b"record", 2, timestamp=cluster.clock.now_ms())
    request = ProduceRequest(1, 5000, (ProducePartition(topic, 0, batch),))
    code = ErrorCode.NONE
    for _ in range(100):
        for agent in cluster.agents.values():
            answer: Any = await cluster.network.call("client", agent.address, request)
            code = answer.partitions[0].error_code
            if code is ErrorCode.NONE:
                return
        await asyncio.sleep(0.1)
    raise FuzzError(f"nobody takes records of {topic}: {code.name}")
