"""Bytes at the ports of real processes, and many large requests at once: they go on, answer, and free their memory."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.broker import BrokerId, Offset
from cluster.requests.data import FetchPartition, FetchRequest, MetadataRequest, ProducePartition, ProduceRequest
from cluster.requests.topics import DeleteTopicsRequest, DescribeTopicsRequest, TopicToDelete
from deploy.local.cluster import LocalCluster
from simulator.record_batches import encode_batch, encode_client_batch, encode_records
from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.cluster_under_fire import METHODS, Sent
from tests.fuzz.damage import damaged
from tests.fuzz.messages import Draw
from tests.fuzz.real_processes import NODES, Callers, check_processes, resident_bytes, two_brokers
from tests.processes.commands import as_json
from tests.processes.local_clusters import eventually

pytestmark = pytest.mark.real

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS: Final = b"\0\0\0\x04\0\0\0\0\0"
_HEADERS: Final = b"\0\0\x1f\x01\x04\0\0\0\x01\x83\x86\x44\x07/health\x41\x01x\x40\x0ccontent-type\x01x"
_DATA: Final = b"\0\0\x0a\0\0\0\0\0\x01\0\0\0\0\x05abcde"
_OPENINGS: Final = (
    _PREFACE + _SETTINGS + _HEADERS + _DATA,
    _PREFACE + _SETTINGS * 200,
    _PREFACE + b"\xff\xff\xff\0\0\0\0\0\x01" + bytes(20_000),
    b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000,
    b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nx",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(508),
    b"\0\0\0\x23\0\x12\0\x03\0\0\0\x01\0\x07console",
)
"""HTTP/2 as gRPC speaks it, HTTP/1.1, a TLS hello, a request of Kafka's protocol."""
_GROWTH_MAX: Final = 96 << 20
"""What caches and fragmentation may take beyond what the first flood left."""
_AT_ONCE: Final = 8
_ROUNDS: Final = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with two_brokers(tmp_path_factory.mktemp("cluster") / "c") as running:
        yield running


@st.composite
def openings(draw: Draw) -> bytes:
    """What a connection begins with."""
    content: bytes = draw(st.sampled_from(_OPENINGS) | st.binary(max_size=200))
    return draw(damaged(content)) if draw(st.booleans()) else content


def ports(cluster: LocalCluster) -> list[int]:
    members = [cluster.member(name) for name in NODES]
    return [port for member in members for port in (member.port, member.control_port, member.metrics_port) if port]


@fuzz(examples=30)
@given(st.data())
def test_bytes_at_ports(cluster: LocalCluster, data: st.DataObject) -> None:
    """Some connections stay open without another byte until all have been opened."""
    left_open = []
    try:
        for _ in range(data.draw(st.integers(1, 5))):
            count_case("bytes at ports")
            connection = socket.create_connection(("127.0.0.1", data.draw(st.sampled_from(ports(cluster)))))
            left_open.append(connection)
            connection.settimeout(0.05)
            try:
                connection.sendall(data.draw(openings()))
                if data.draw(st.booleans()):
                    connection.shutdown(socket.SHUT_WR)
                connection.recv(1000)
            except OSError:
                continue
    finally:
        for connection in left_open:
            connection.close()
    check_processes(cluster)
    assert len(as_json(cluster, "cluster", "describe")["brokers"]) == 2


def large_requests() -> list[Sent]:
    """As large as a client may send them, or with an answer that large, to each broker and the controller."""
    value = encode_client_batch(b"x" * 900_000, 1, timestamp=int(time.time() * 1000))
    bomb = encode_batch(bytes(cramjam.zstd.compress(encode_records(bytes(1 << 20), 90))), 90, attributes=4)
    names = tuple(f"{'a' * 200}-{number}" for number in range(40_000))
    requests: list[tuple[str, Any]] = [
        ("Produce", ProduceRequest(1, 1000, (ProducePartition("t", 0, records), ProducePartition("u", 1, records))))
        for records in (value, bomb, value[:-1] + b"?", bytes(7 << 20))
    ]
    fetched = FetchPartition("t", None, 0, Offset(0), 64 << 20)
    requests += [
        ("Fetch", FetchRequest(BrokerId(-1), (fetched,) * count, 0, 0, 64 << 20)) for count in (1, 100, 40_000)
    ]
    to_brokers = [*requests, ("Metadata", MetadataRequest(names))]
    to_controller = [
        ("DescribeTopics", DescribeTopicsRequest(names)),
        ("DeleteTopics", DeleteTopicsRequest(tuple(TopicToDelete(name) for name in names))),
    ]
    sent = [Sent(node, name, METHODS[name].request.encode(r)) for node in (1, 2) for name, r in to_brokers]
    return sent + [Sent(0, name, METHODS[name].request.encode(r)) for name, r in to_controller]


@pytest.mark.deep
def test_memory_after_a_flood(cluster: LocalCluster) -> None:
    """What processes take for many large requests at once, they give back."""
    requests = large_requests() * _AT_ONCE
    callers = Callers(cluster, answer_s=30)

    def flood() -> None:
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for _ in threads.map(callers.send, requests):
                count_case("memory after a flood")

    try:
        flood()
        before = {name: resident_bytes(cluster, name) for name in NODES}
        for _ in range(_ROUNDS):
            flood()
    finally:
        callers.close()
    check_processes(cluster)
    print({name: (size >> 20, resident_bytes(cluster, name) >> 20) for name, size in before.items()}, "MiB")
    for name, size in before.items():
        bound = size + _GROWTH_MAX
        eventually(partial(is_within, cluster, name, bound), f"{name}, {size} bytes before, frees its memory")


def is_within(cluster: LocalCluster, name: str, bound: int) -> bool:
    return resident_bytes(cluster, name) < bound
